"""Tables of papers100M's shape → CSR: `gamlp ingest` beside DuckDB and Polars, ids integers and strings.

    python benchmarks/papers100m_tables.py --scale 0.01               # 1.1 M nodes, 16.2 M edges
    python benchmarks/papers100m_tables.py --scale 0.1 --work DIR     # 11.1 M nodes, 161.6 M edges; 12 GB of disk

writes Parquet files, and has each contestant make the CSR of both directions of them, in a process of its own: every
edge once in each direction, no self-loops, neighbours ascending, rows numbered as the node table has them. Arrays must
be equal to the last one of them. A contest that docs/results/papers100m/tables.json has already is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contained import DONE, run_contained
from csr_from_tables import CONTESTANTS, read_csr
from gamlp.arrays import Array
from gamlp.io import parse_size
from gamlp.kernel import crc32
from machine import describe, versions

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "papers100m" / "tables.json"
NODES, EDGES = 111_059_956, 1_615_685_872  # of papers100M
FLOATS, GROUPS, CLASSES, LABELLED = 8, 12, 172, 0.014
GROUP = 1 << 20  # rows of a row group
IDS = ("integers", "strings")
_LOWEST, _SPAN, _STEP = 1_000_000_000, 9_000_000_000, 6_364_136_221  # ids are 1e9 + (step · row) mod 9e9
MEMORY, SECONDS = "8GiB", 290


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="Of papers100M's nodes and edges.")
    parser.add_argument("--ids", nargs="*", default=IDS, choices=IDS)
    parser.add_argument("--contestants", nargs="*", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--memory", default=MEMORY, help="Every contestant is told, and held to it.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="Every contestant has at most so long.")
    parser.add_argument("--work", type=Path, help="Folder for tables and arrays; removed at the end unless given.")
    parser.add_argument("--prepare", action="store_true", help="Write the tables and stop.")
    parser.add_argument("--again", action="store_true", help="Run contests that were run already.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="gamlp-tables-"))
    try:
        results = run(given, work)
    finally:
        if given.work is None:
            shutil.rmtree(work, ignore_errors=True)
    sys.stdout.write(section(results))


def run(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Every contest that has no result yet; results are written after each."""
    results = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    if results.get("scale") != given.scale:
        results = {"scale": given.scale, "contests": {}}
    results |= {"machine": describe(), "versions": versions("duckdb", "polars", "pyarrow"), "memory": given.memory}
    for ids in given.ids:
        for name in given.contestants:
            contest = f"{ids}: {name}"
            if contest in results["contests"] and not given.again and not given.prepare:
                continue
            results |= write_tables(work / "tables", given.scale, ids)
            if given.prepare:
                break
            print(f"{contest} …", flush=True)
            found = _contest(name, work, ids, parse_size(given.memory), given.seconds)
            print(f"  {found}", flush=True)
            results["contests"][contest] = found
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def _contest(name: str, work: Path, ids: str, memory: int, seconds: float) -> dict[str, Any]:
    out = work / "made"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tables = work / "tables"
    names = [tables / f"{kind}-{ids}.parquet" for kind in ("nodes", "edges")]
    command = CONTESTANTS[name].command(*names, out, memory)
    found = run_contained(command, memory + CONTESTANTS[name].beside, seconds)
    if found["status"] == DONE and not CONTESTANTS[name].more:
        found |= fingerprint(*read_csr(out))
    shutil.rmtree(out, ignore_errors=True)
    return found


def fingerprint(offsets: Array, neighbours: Array) -> dict[str, Any]:
    """Entries, and a checksum of both arrays: contestants of one kind of ids must have the same."""
    found = 0
    for values, dtype in ((offsets, np.int64), (neighbours, np.int32)):
        found = crc32(np.ascontiguousarray(values, dtype).view(np.uint8), found)
    return {"entries": len(neighbours), "checksum": f"{found:08x}"}


def write_tables(folder: Path, scale: float, ids: str) -> dict[str, Any]:
    """nodes-*.parquet and edges-*.parquet where they are not there yet; returns how many rows they have."""
    nodes, edges = round(NODES * scale), round(EDGES * scale)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, rows, make in (("nodes", nodes, _node_rows), ("edges", edges, _edge_rows)):
        path = folder / f"{kind}-{ids}.parquet"
        if path.exists():
            continue
        begun, beside = time.perf_counter(), path.with_suffix(".part")
        writer = None
        for table in make(rows, nodes, ids):
            # A dictionary of ids that hardly repeat is no smaller, and is built twice.
            columns = [name for name in table.column_names if name == "group"]
            writer = writer or pq.ParquetWriter(beside, table.schema, use_dictionary=columns)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        beside.rename(path)
        size = path.stat().st_size / 1e9
        print(f"{path.name}: {rows:,} rows, {size:.2f} GB, {time.perf_counter() - begun:.0f} s", flush=True)
    return {"nodes": nodes, "edges": edges}


def _node_rows(rows: int, nodes: int, ids: str) -> Iterator[pa.Table]:
    """Ids in no order, FLOATS numbers, one of GROUPS words, and the label of few nodes."""
    words = pa.array([f"field {number}" for number in range(GROUPS)])
    for begin in range(0, rows, GROUP):
        draw = np.random.default_rng([1, begin])
        count = min(GROUP, rows - begin)
        found: dict[str, Any] = {"id": _ids(np.arange(begin, begin + count), ids)}
        found |= {f"x{place}": draw.standard_normal(count, np.float32) for place in range(FLOATS)}
        found["group"] = pa.DictionaryArray.from_arrays(pa.array(draw.integers(0, GROUPS, count, np.int32)), words)
        labels = draw.integers(0, CLASSES, count, np.int32)
        labels[:CLASSES] = np.arange(min(CLASSES, count))
        absent = draw.random(count) >= LABELLED
        absent[:CLASSES] = False
        found["label"] = pa.array(labels, mask=absent)
        yield pa.table(found)


def _edge_rows(rows: int, nodes: int, ids: str) -> Iterator[pa.Table]:
    """A paper cites others: who cites is drawn evenly, who is cited with a power law (exponent 2.5 of degrees)."""
    for begin in range(0, rows, GROUP):
        draw = np.random.default_rng([2, begin])
        count = min(GROUP, rows - begin)
        citing = draw.integers(0, nodes, count)
        cited = (nodes * draw.random(count) ** 3).astype(np.int64)
        # The most cited are all over the table.
        cited = cited * 2_654_435_761 % nodes
        yield pa.table({"src": _ids(citing, ids), "dst": _ids(cited, ids)})


def _ids(rows: Array, ids: str) -> Any:
    """Integers of ten digits that all differ, or `W` and these digits."""
    numbers = _LOWEST + rows * _STEP % _SPAN
    if ids == "integers":
        return pa.array(numbers)
    text = np.empty((len(rows), 11), np.uint8)
    text[:, 0] = ord("W")
    for place in range(10, 0, -1):
        numbers, digit = np.divmod(numbers, 10)
        text[:, place] = digit + ord("0")
    offsets = np.arange(0, 11 * (len(rows) + 1), 11, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(text))


def section(results: dict[str, Any]) -> str:
    """Markdown: a table of contestants, and what was expected of ours."""
    contests = results["contests"]
    rows = [_row(key, contests) for ids in IDS for name in CONTESTANTS if (key := f"{ids}: {name}") in contests]
    return f"""## From tables

Parquet tables of {results["nodes"]:,} nodes and {results["edges"]:,} edges (scale {results["scale"]:g}; who is cited
follows a power law) whose ids are integers of ten digits in no order, or strings such as W2101234567. Nodes have
{FLOATS} columns of numbers and one of words, not 128: columns are not what is measured here; {LABELLED:.1%} have a
label. Asked of everybody: the CSR of both directions, every edge once, no self-loops, neighbours ascending. DuckDB and
Polars join ids to row numbers, sort both directions as 64-bit keys, and drop repeats; DuckDB is told 70 % of the limit,
as it holds more than it is told. "All columns" encodes features, makes labels and a split as well, which nobody else
is asked for. Each has a process of its own, two threads, and at most {results["memory"]} (+ 300 MB) of anonymous
memory.

| ids, contestant | s | processor s | anonymous memory, GB | resident, GB | the same arrays |
|---|---|---|---|---|---|
{chr(10).join(rows)}

{_expectations(contests)}

{results["machine"]}; {results["versions"]}.
"""


def _row(key: str, contests: dict[str, Any]) -> str:
    found = contests[key]
    if found["status"] == DONE:
        of_ids = (one for other, one in contests.items() if other.split(":")[0] == key.split(":")[0])
        sums = {one["checksum"] for one in of_ids if "checksum" in one}
        same = "not compared" if "checksum" not in found else "yes" if len(sums) == 1 else f"**{found['checksum']}**"
        told = f"{found['seconds']:.1f} | {found['processor']:.1f}"
    else:
        same = found.get("error", "")
        where = f" after “{found['last']['step']}”" if "last" in found else ""
        told = f"**{found['status']}**{where}, at {found['seconds']:.0f} | {found['processor']:.1f}"
    return f"| {key} | {told} | {found['anonymous'] / 1e9:.2f} | {_gigabytes(found.get('resident'))} | {same} |"


def _gigabytes(size: int | None) -> str:
    return "—" if size is None else f"{size / 1e9:.2f}"


def _expectations(contests: dict[str, Any]) -> str:
    """Ours against the best of the others that finished, kind of ids by kind of ids."""
    ours = next(iter(CONTESTANTS))
    lines = ["| expected of ours | is | |", "|---|---|---|"]
    for ids in IDS:
        own = contests.get(f"{ids}: {ours}")
        names = [name for name in CONTESTANTS if not name.startswith("gamlp")]
        others = {name: one for name in names if (one := contests.get(f"{ids}: {name}")) and one["status"] == DONE}
        if own is None or own["status"] != DONE:
            told = "not run | not known" if own is None else f"{own['status']} | **missed**"
            lines.append(f"| {ids}: finishes | {told} |")
            continue
        for key, what in (("seconds", "faster than"), ("anonymous", "less memory than")):
            if not others:
                tried = any(f"{ids}: {name}" in contests for name in names)
                told = "none of them finished | met" if tried else "none of them was run | not known"
                lines.append(f"| {ids}: {what} the best of the others | {told} |")
                continue
            best = min(others, key=lambda name: others[name][key])
            ratio = others[best][key] / own[key]
            verdict = "met" if ratio > 1 else "**missed**"
            lines.append(f"| {ids}: {what} the best of the others ({best}) | {ratio:.2f} times | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
