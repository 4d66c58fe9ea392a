"""Twelve hops of papers100M's shape at growing scales: ours beside scipy, torch CSR, DGL and PyG's SIGN.

    python benchmarks/papers100m_peers.py --scales 0.01 0.02 --work DIR

Every contestant works in a process of its own, with 20 GiB of anonymous memory and four minutes; one that did not
finish at a scale is not asked again at a larger one. A contest that docs/results/papers100m/peers.json has already is
not run again. DGL is no part of our environment: it is installed in the work folder, and what was said is recorded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contained import DONE, FAILED, LATE, OVER, run_contained
from gamlp.graph.datasets import communities
from gamlp.io import parse_size
from gamlp.propagation import HopStore
from machine import describe, versions

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "papers100m" / "peers.json"
NODES, EDGES, FEATURES, CLASSES = 111_059_956, 1_615_685_872, 128, 172  # of papers100M
TRAIN, VALID = 0.0126, 0.0014  # shares of nodes: 1.4 % are kept of every hop
SCALES = (0.01, 0.02, 0.05, 0.1, 0.2)
HOPS, MEMORY, SECONDS = 12, "20GiB", 240.0
OURS = ("gamlp propagate", "gamlp propagate, float16")
CONTESTANTS = (*OURS, "torch CSR", "scipy", "DGL", "PyG SIGN")
_BESIDE = 300 * 10**6  # bytes that anybody may hold above the limit
# The newest with what it imports, and the newest that needs no library for each version of torch.
_DGL = (("dgl", "torchdata<0.10"), ("dgl==1.1.3",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", nargs="*", type=float, default=SCALES, help="Of papers100M's nodes and edges.")
    parser.add_argument("--contestants", nargs="*", default=CONTESTANTS, choices=CONTESTANTS)
    parser.add_argument("--memory", default=MEMORY)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--work", type=Path, help="Folder for graphs and stores; removed at the end unless given.")
    parser.add_argument("--prepare", action="store_true", help="Make the graphs and stop.")
    parser.add_argument("--keep", action="store_true", help="Keep graphs in --work, for contestants of a later run.")
    parser.add_argument("--again", action="store_true", help="Run contests that were run already.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="gamlp-peers-"))
    try:
        results = run(given, work)
    finally:
        if given.work is None:
            shutil.rmtree(work, ignore_errors=True)
    sys.stdout.write(section(results))


def run(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Every contest that has no result yet; results are written after each."""
    results = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {"contests": {}}
    results |= {
        "machine": describe(),
        "versions": versions(),
        "memory": given.memory,
        "limit of seconds": given.seconds,
    }
    for scale in sorted(given.scales):
        for name in given.contestants:
            contest = f"{scale:g}: {name}"
            if (contest in results["contests"] and not given.again) or _ended(results["contests"], name, scale):
                continue
            graph = graph_of(work, scale)
            if given.prepare:
                break
            print(f"{contest} …", flush=True)
            found = _contest(name, graph, work, given, results)
            print(f"  {found}", flush=True)
            results["contests"][contest] = found
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if not given.prepare and not given.keep:
            shutil.rmtree(work / f"graph-{scale:g}", ignore_errors=True)
    return results


def graph_of(work: Path, scale: float) -> Path:
    """The graph folder of a scale, made where it is not there yet."""
    folder = work / f"graph-{scale:g}"
    if not folder.exists():
        nodes, edges = round(NODES * scale), round(EDGES * scale)
        shares = {"train": TRAIN, "valid": VALID}
        communities(folder, nodes=nodes, edges=edges, features=FEATURES, classes=CLASSES, **shares)
    return folder


def _ended(contests: Mapping[str, Any], name: str, scale: float) -> bool:
    """Whether a contestant did not finish at a smaller scale."""
    before = (contests[key] for key in contests if key.endswith(f": {name}") and float(key.split(":")[0]) < scale)
    return any(one["status"] != DONE for one in before)


def _contest(name: str, graph: Path, work: Path, given: argparse.Namespace, results: dict[str, Any]) -> dict[str, Any]:
    memory = parse_size(given.memory)
    if name in OURS:
        store = work / "store"
        shutil.rmtree(store, ignore_errors=True)
        words = ["propagate", str(graph), "--out", str(store), "--hops", str(HOPS), "--label-hops", "0"]
        words += ["--rows", "train+valid", "--memory", str(memory), "--json"]
        words += ["--dtype", "float16"] if name.endswith("float16") else []
        command = [sys.executable, "-c", "from gamlp.cli.main import main; main()", *words]
        found = run_contained(command, memory + _BESIDE, given.seconds)
        if found["status"] == DONE:
            found["last"] = {"step": f"hop {HOPS}", "mean": _mean_of_last(store)}
        shutil.rmtree(store, ignore_errors=True)
        return found
    environment = None
    if name == "DGL":
        place, said = install_dgl(work / "dgl")
        results["dgl"] = said
        if place is None:
            return {"status": FAILED, "error": said[-1][1]}
        environment = {"PYTHONPATH": str(place), "DGLBACKEND": "pytorch"}
    command = [sys.executable, str(Path(__file__).with_name("hops_of_peers.py")), name, str(graph), str(HOPS)]
    return run_contained(command, memory + _BESIDE, given.seconds, environment)


def _mean_of_last(store: Path) -> float:
    """Of the absolute values of the last hop, over all kept rows."""
    found = HopStore.open(store)
    rows, total = found.kept, 0.0
    assert rows is not None
    for begin in range(0, len(rows), 1 << 14):
        last = found.gather(np.asarray(rows[begin : begin + (1 << 14)])).x[:, 0, -1]
        total += float(np.abs(last.astype(np.float64)).sum())
    return total / (len(rows) * FEATURES)


def install_dgl(folder: Path) -> tuple[Path | None, list[list[str]]]:
    """(where DGL can be imported from, None if it cannot; what was said of each version)."""
    said = []
    for asked in _DGL:
        place, name = folder / asked[0].replace("=", ""), " ".join(asked)
        if not place.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            done = subprocess.run([*pip, "--target", str(place), *asked], capture_output=True, text=True, check=False)
            if done.returncode:
                said.append([name, f"pip: {_last(done.stderr)}"])
                continue
        code = f"import sys; sys.path.insert(0, {str(place)!r}); import dgl; print(dgl.__version__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return place, [*said, [name, f"imported, version {_last(done.stdout)}"]]
        said.append([name, _last(done.stderr).replace(str(folder), "…")])
    return None, said


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:200]


def section(results: Mapping[str, Any]) -> str:
    """Markdown: a row for each contestant, a column for each scale, and what was expected."""
    contests = results["contests"]
    scales = sorted({float(key.split(":")[0]) for key in contests})
    names = [name for name in CONTESTANTS if any(key.endswith(f": {name}") for key in contests)]
    rows = [
        f"| {name} | " + " | ".join(_cell(contests.get(f"{scale:g}: {name}")) for scale in scales) + " |"
        for name in names
    ]
    counts = [
        f"{scale:g}: {NODES * scale / 1e6:.1f} M nodes, {2 * EDGES * scale / 1e6:,.0f} M entries" for scale in scales
    ]
    dgl = "".join(f"\n- `pip install {asked}`: {said}" for asked, said in results.get("dgl", []))
    return f"""## Beside what others do with it

Twelve hops of {FEATURES} features over graphs of the same shape at a scale ({"; ".join(counts)}), each contestant in a
process of its own with {results["memory"]} of anonymous memory and {results["limit of seconds"]:g} seconds. Asked of
ours, scipy, torch and DGL: of every hop the 1.4 % of rows that train or validate; theirs is written out with two
matrices in memory, which is the least they can hold. SIGN keeps all hops of all rows in memory: it has no choice.
{_agreement(contests)}
Cells: seconds on the clock, and the peak of anonymous memory; or what ended it, and where it was.

| | {" | ".join(f"scale {scale:g}" for scale in scales)} |
|---|{"---|" * len(scales)}
{chr(10).join(rows)}

{_expectations(contests, scales, names)}
{dgl}

{results["machine"]}; {results["versions"]}.
"""


def _agreement(contests: Mapping[str, Any]) -> str:
    """Whether those who were asked for the same found the same."""
    means: dict[str, list[float]] = {}
    for key, found in contests.items():
        if found["status"] == DONE and "mean" in found.get("last", {}):
            means.setdefault(key.split(":")[0], []).append(found["last"]["mean"])
    apart = max((max(each) / min(each) - 1 for each in means.values() if min(each) > 0), default=0.0)
    return f"Means of the last hop's kept rows are the same within {apart:.1e} (float16: as it rounds)."


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "not tried"
    if found["status"] == DONE:
        return f"{found['seconds']:.0f} s, {found['anonymous'] / 2**30:.1f} GiB"
    last = found.get("last", {})
    where = f"after “{last['step']}”" if last else "before its first step"
    if found["status"] == FAILED:
        return f"failed {where}: {found['error']}"
    what = {OVER: "out of memory", LATE: "out of time"}[found["status"]]
    return f"**{what}** {where}, {found['seconds']:.0f} s, {found['anonymous'] / 2**30:.1f} GiB"


def _expectations(contests: Mapping[str, Any], scales: list[float], names: list[str]) -> str:
    """Of every scale that ours and any other finished: who was faster, who held less."""
    lines = ["| expected | is | |", "|---|---|---|"]
    for scale in scales:
        done = {name: one for name in names if (one := contests.get(f"{scale:g}: {name}")) and one["status"] == DONE}
        theirs = {name: one for name, one in done.items() if name not in OURS}
        if OURS[0] not in done or not theirs:
            continue
        ours = done[OURS[0]]
        for key, what in (("seconds", "time"), ("anonymous", "memory")):
            best = min(theirs, key=lambda name: theirs[name][key])
            ratio = theirs[best][key] / ours[key]
            lines.append(
                f"| scale {scale:g}: no more {what} than the best of the others ({best}) | {ratio:.2f} times ours "
                f"| {'met' if ratio >= 1 else '**missed**'} |"
            )
    last = {name: _largest(contests, scales, name) for name in names}
    others = [value for name, value in last.items() if name not in OURS]
    if OURS[0] in last and others:
        met = last[OURS[0]] >= max(others)
        told = ", ".join(f"{name} {value:g}" for name, value in last.items())
        verdict = "met" if met else "**missed**"
        lines.append(f"| ours finishes at least as large a scale as any other | {told} | {verdict} |")
    return "\n".join(lines)


def _largest(contests: Mapping[str, Any], scales: list[float], name: str) -> float:
    """The largest scale that a contestant finished."""
    done = (scale for scale in scales if contests.get(f"{scale:g}: {name}", {}).get("status") == DONE)
    return max(done, default=0)


if __name__ == "__main__":
    main()
