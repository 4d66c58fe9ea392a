"""Ingest of mixed columns: beside the same number of float columns, and beside pandas with scikit-learn.

    python benchmarks/tables.py                    # ten million rows, 20 columns
    python benchmarks/tables.py --rows 1000000     # what fits a small machine

writes two Parquet tables, of 20 mixed columns with 5 % gaps and of 20 float columns, and has each made a graph folder
in a process of its own; then pandas reads the mixed table and a ColumnTransformer makes the same sorts of features of
it. Processor seconds decide, since other work on the machine does not change them; seconds on the clock and the peak of
anonymous memory stand beside them. It writes docs/results/tables.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs import watched
from machine import describe, versions

PAGE = Path(__file__).parents[1] / "docs" / "results" / "tables.md"
COLUMNS, GAPS, GROUP = 20, 0.05, 131_072
HALF_AS_FAST, TIMES_AS_FAST, SHARE_OF_MEMORY = 2.0, 3.0, 0.1

_INGEST = """
import json, sys, time
from pathlib import Path
import pandas  # pyarrow imports it where it is: of no contestant imports are measured
from gamlp.graph import Graph
from gamlp.graph.ingest import ingest
from gamlp.io.memory import anonymous_memory

base, begun, used = anonymous_memory(), time.perf_counter(), time.process_time()
nodes, edges, out = (Path(word) for word in sys.argv[1:])
ingest(edges, nodes, out)
found = {"seconds": time.perf_counter() - begun, "processor": time.process_time() - used, "base": base}
graph = Graph.open(out)
print(json.dumps(found | {"features": graph.nodes.features.width}))
"""

_PANDAS = """
import json, sys, time
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, QuantileTransformer, StandardScaler
from gamlp.io.memory import anonymous_memory

def calendar(frame):
    parts = []
    for name in frame:
        times = frame[name]
        days = (times - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        week, year = times.dt.dayofweek / 7, times.dt.dayofyear / 365.2425
        parts += [((days - days.mean()) / days.std()).fillna(0)]
        parts += [f(2 * np.pi * part).fillna(0) for part in (week, year) for f in (np.sin, np.cos)]
        parts += [times.isna().astype(float)]
    return np.stack(parts, 1)

base, begun, used = anonymous_memory(), time.perf_counter(), time.process_time()
nodes, edges, out = sys.argv[1:]
frame = pd.read_parquet(nodes)
names = list(frame)
numbers = [name for name in names if name.startswith("number")]
tails = [name for name in names if name.startswith("tail")]
flags = [name for name in names if name.startswith("flag")]
groups = [name for name in names if name.startswith(("word", "code"))]
days = [name for name in names if name.startswith("day")]
for name in flags:
    frame[name] = frame[name].astype("float32")
for name in days:
    frame[name] = pd.to_datetime(frame[name])
filled = SimpleImputer(strategy="median", add_indicator=True)
made = ColumnTransformer([
    ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
    ("tails", make_pipeline(filled, QuantileTransformer(n_quantiles=257)), tails),
    ("flags", SimpleImputer(add_indicator=True), flags),
    ("groups", OneHotEncoder(sparse_output=False, dtype=np.float32), groups),
    ("days", FunctionTransformer(calendar), days),
]).fit_transform(frame)
np.save(out, made.astype(np.float32))
found = {"seconds": time.perf_counter() - begun, "processor": time.process_time() - used, "base": base}
print(json.dumps(found | {"features": made.shape[1]}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="where tables and graphs are written meanwhile")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        found = measure(Path(folder), given.rows, given.rounds)
    given.out.write_text(page(found, given), encoding="utf-8")
    given.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(given.out.read_text(encoding="utf-8"))


def measure(folder: Path, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of every contestant."""
    for name, make in (("mixed", mixed), ("floats", floats)):
        write(folder / f"{name}.parquet", rows, make)
    edges = np.random.default_rng(1).integers(0, rows, (1000, 2))
    pq.write_table(pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), folder / "edges.parquet")
    contestants = {
        "gamlp ingest, 20 mixed columns": (_INGEST, "mixed"),
        "gamlp ingest, 20 float columns": (_INGEST, "floats"),
        "pandas + ColumnTransformer, 20 mixed columns": (_PANDAS, "mixed"),
    }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (job, table) in contestants.items():
            out = folder / ("made.npy" if job is _PANDAS else "graph")
            measured[name].append(run(job, [folder / f"{table}.parquet", folder / "edges.parquet", out]))
            out.unlink() if out.is_file() else shutil.rmtree(out)
    return {
        name: {key: statistics.median(one[key] for one in each) for key in each[0]} for name, each in measured.items()
    }


def run(job: str, words: list[Path]) -> dict[str, float]:
    """One contestant in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", job, *map(str, words)], stdout=subprocess.PIPE, text=True)
    output, peak = watched(process)
    if process.returncode:
        raise SystemExit(f"{words[0].name} failed")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found | {"memory": peak - found.pop("base")}


def write(path: Path, rows: int, make: Any) -> None:
    """A Parquet table in groups of rows, each drawn on its own: never the whole in memory."""
    writer = None
    for begin in range(0, rows, GROUP):
        count = min(GROUP, rows - begin)
        draw = np.random.default_rng([7, begin])
        table = pa.table({"id": np.arange(begin, begin + count), **make(draw, count)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def floats(draw: np.random.Generator, rows: int) -> dict[str, Any]:
    return {f"number{place}": draw.normal(place, 1 + place, rows) for place in range(COLUMNS)}


def mixed(draw: np.random.Generator, rows: int) -> dict[str, Any]:
    """Six ordinary numbers, two with heavy tails, six groups, three flags, three days: 5 % of each are missing."""

    def gaps(values: Any, arrow: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, arrow, mask=draw.random(rows) < GAPS)

    found = {f"number{place}": gaps(draw.normal(place, 1 + place, rows)) for place in range(6)}
    found |= {f"tail{place}": gaps(np.exp(draw.normal(0, 2 + place, rows))) for place in range(2)}
    for place, count in enumerate((3, 5, 8, 12)):
        words = np.asarray([f"group {number}" for number in range(count)])
        found[f"word{place}"] = gaps(words[draw.integers(0, count, rows)])
    found |= {f"code{place}": gaps(draw.integers(0, 6, rows)) for place in range(2)}
    found |= {f"flag{place}": gaps(draw.random(rows) < 0.3) for place in range(3)}
    found |= {f"day{place}": gaps(draw.integers(0, 20_000, rows).astype(np.int32), pa.date32()) for place in range(3)}
    assert len(found) == COLUMNS
    return found


def page(found: dict[str, dict[str, float]], given: argparse.Namespace) -> str:
    mixed_one, floats_one, pandas = found.values()
    rows = [
        f"| {name} | {one['features']:.0f} | {one['processor']:.1f} | {one['seconds']:.1f} "
        f"| {one['memory'] / 1e6:,.0f} |"
        for name, one in found.items()
    ]
    slower = mixed_one["processor"] / floats_one["processor"]
    faster = pandas["processor"] / mixed_one["processor"]
    memory = mixed_one["memory"] / pandas["memory"]
    verdicts = [
        ("mixed ÷ floats, processor seconds", slower, f"≤ {HALF_AS_FAST:g}", slower <= HALF_AS_FAST),
        ("pandas ÷ gamlp, processor seconds", faster, f"≥ {TIMES_AS_FAST:g}", faster >= TIMES_AS_FAST),
        ("gamlp ÷ pandas, memory", memory, f"≤ {SHARE_OF_MEMORY:g}", memory <= SHARE_OF_MEMORY),
    ]
    lines = [
        f"| {what} | {value:.3g} | {asked} | {'met' if met else '**missed**'} |" for what, value, asked, met in verdicts
    ]
    return f"""# Columns of any kind: what ingest costs

`python benchmarks/tables.py --rows {given.rows} --rounds {given.rounds}` wrote this page: {given.rows:,} rows,
medians of rounds, each contestant in a process of its own. {describe()}; {versions()}.

| contestant | features | processor s | s | peak of memory, MB |
|---|---|---|---|---|
{chr(10).join(rows)}

| what | is | asked for | |
|---|---|---|---|
{chr(10).join(lines)}

The mixed table has six ordinary numbers, two with heavy tails, four columns of words (3, 5, 8 and 12 different ones),
two of codes, three flags and three days; 5 % of the cells of each are missing. gamlp reads the table once, keeps its
raw columns, and writes a graph folder with checksums; pandas reads the table into memory and writes one array. Memory
is anonymous memory above that of the bare process.
"""


if __name__ == "__main__":
    main()
