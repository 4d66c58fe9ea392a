"""Speed and memory of propagation against its peers, all in one run, as ratios.

    python benchmarks/propagation.py                     # three shapes and growth; 10 GiB of memory, half an hour
    python benchmarks/propagation.py --shapes products --parts hop coo --add   # anew in what an earlier run wrote
    python benchmarks/propagation.py --shapes --parts subsets   # ogbn-mag's shape, 8 subsets of relations, 5 hops

Prints tables and writes JSON and a page to benchmarks/results (or --out). Every figure is measured in this run:
minima for kernels, medians for whole jobs, because machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import contest
import growth
import jobs
import record
import subsets
from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from machine import describe, reader, versions

SHAPES: dict[str, dict[str, int]] = {
    "small": {"nodes": 2_000, "edges": 10_000, "features": 20, "classes": 5},  # to see that it runs
    "products-tenth": {"nodes": 244_903, "edges": 6_185_914, "features": 100, "classes": 47},
    "citation": {"nodes": 2_000_000, "edges": 15_000_000, "features": 128, "classes": 40},
    "products": {"nodes": 2_449_029, "edges": 61_859_140, "features": 100, "classes": 47},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=["products-tenth", "citation", "products"], choices=SHAPES)
    parser.add_argument(
        "--parts",
        nargs="*",
        default=["hop", "coo", "job", "growth"],
        choices=["hop", "coo", "job", "growth", "subsets"],
    )
    parser.add_argument("--scale", type=float, default=1.0, help="Of ogbn-mag's shape, for subsets.")
    parser.add_argument("--dtype", default="float16", choices=["float32", "float16"], help="Of hops of subsets.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds of every kernel; peers take turns.")
    parser.add_argument("--jobs", type=int, default=3, help="Repetitions of whole jobs.")
    parser.add_argument("--work", type=Path, help="Folder for graphs and stores; removed at the end unless given.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "propagation.json")
    parser.add_argument("--add", action="store_true", help="To what --out holds of other shapes and parts.")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="gamlp-bench-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        results = run(options, work)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1))
    command = "python benchmarks/propagation.py" + (" --shapes --parts subsets" if "subsets" in results else "")
    options.out.with_suffix(".md").write_text(record.page(results, command))
    print(f"\nwritten to {options.out} and {options.out.with_suffix('.md').name}")


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    earlier = json.loads(options.out.read_text()) if options.add and options.out.exists() else {}
    results: dict[str, Any] = {"shapes": {}, "bandwidth": 0.0, **earlier}
    results |= {"date": time.strftime("%Y-%m-%d"), "machine": describe(), "versions": versions()}
    print(f"{results['machine']}; {results['versions']}")
    for name in options.shapes:
        graph = _graph(work, name)
        found = results["shapes"].setdefault(name, {})
        found |= {"entries": graph.relation.entries, **SHAPES[name]}
        counts = f"{graph.nodes.count:,} nodes, {graph.relation.entries:,} entries, {found['features']} features"
        print(f"\n== {name}: {counts}")
        if "hop" in options.parts or ("job" in options.parts and "hop" not in found):
            found["hop"] = contest.one_hop(graph, options.rounds)
            found["sharing"] = contest.sharing(graph, options.rounds)
        if "coo" in options.parts:
            found["coo"] = contest.from_coo(graph, hops=5, rounds=max(2, (options.rounds + 1) // 2))
        if "job" in options.parts:
            found["job"] = jobs.whole_job(graph, work, found["hop"], repetitions=options.jobs)
    if "growth" in options.parts:
        results["growth"] = growth.with_edges(work, repetitions=options.jobs)
    if "subsets" in options.parts:
        results["subsets"] = subsets.over_subsets(work, options.scale, options.dtype)
    if options.shapes:
        results["bandwidth"] = max(results["bandwidth"], reader().bandwidth)
        for found in results["shapes"].values():
            if "hop" in found:
                contest.set_bounds(found["hop"], results["bandwidth"])
    return results


def _graph(work: Path, name: str) -> Graph:
    folder = work / name
    if not folder.exists():
        communities(folder, **SHAPES[name])
    return Graph.open(folder)


if __name__ == "__main__":
    main()
