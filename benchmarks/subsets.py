"""Propagation over subsets of relations, at ogbn-mag's shape: 8 subsets, 5 hops, all papers; time and memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jobs
from gamlp.graph import Graph, union_graphs, view_of
from gamlp.graph.datasets.synthetic.heterogeneous import mag_like
from gamlp.propagation import Reach, choose_subsets
from gamlp.recipe import RelationsSettings
from machine import best, disk_seconds, reader

SUBSETS, HOPS, LIMIT = 8, 5, 12 << 30
_BYTES = {"float32": 4, "float16": 2}

_JOB = """
import json, sys, time
from pathlib import Path
from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, LocalPropagator, Operator, Plan

graph, store, memory, dtype, subsets = sys.argv[1:]
begun = time.perf_counter()
features = FeatureSignal(hops=5, operator=Operator(r=0.0, loops=False), dtype=dtype)
plan = Plan(features=features, subsets=tuple(tuple(subset) for subset in json.loads(subsets)))
found = LocalPropagator(memory=int(memory)).propagate(Graph.open(graph), plan, Path(store))
seconds = time.perf_counter() - begun
size = sum(file.bytes for _, file in found.files())
status = Path("/proc/self/status").read_text()  # ru_maxrss would begin with the parent's
resident = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
print(json.dumps({"seconds": seconds, "bytes": size, "resident": resident}))
"""


def over_subsets(work: Path, scale: float, dtype: str, memory: int = LIMIT // 2) -> dict[str, Any]:
    """The whole job beside its bound: rows that neighbours ask for ÷ read bandwidth, and writing as many bytes."""
    graph = _graph(work, scale)
    reach = Reach(HOPS, columns=False)
    chosen = choose_subsets(graph, RelationsSettings(subsets="sample", count=SUBSETS), reach).subsets
    views = [view_of(graph, subset) for subset in chosen]
    sweeps = _sweeps(graph, views, work)
    entries = {view.name: _entries(graph, view) for view in views}
    assert graph.nodes.features is not None
    row = graph.nodes.features.width * _BYTES[dtype]
    kept = graph.nodes.count * row * (HOPS + 1) * len(views)
    moved = sum(HOPS * count * (row + 4) for count in entries.values())
    reading, writing = best(reader(), 5), disk_seconds(work, 1 << 30)[0]  # of 1 GiB
    bound = (moved * reading + kept * writing) / 2**30
    found = _run(graph, work, memory, dtype, chosen)
    result = {
        "scale": scale,
        "dtype": dtype,
        "nodes": sum(nodes.count for nodes in graph.node_types.values()),
        "edges": sum(graph.relations[pair].entries for pair in graph.relation_pairs),
        "features": graph.nodes.features.width,
        "subsets": {view.name: entries[view.name] for view in views},
        "seconds": found["seconds"],
        "bound": bound,
        "budget": memory,
        "anonymous": found["anonymous"],
        "resident": found["resident"],
        "limit": LIMIT,
        "stored": found["bytes"],
        "unions": sweeps,
    }
    print(f"-- {SUBSETS} subsets, {HOPS} hops, {dtype}: {found['seconds']:.1f} s, {found['resident'] / 2**30:.2f} GiB")
    return result


def _graph(work: Path, scale: float) -> Graph:
    folder = work / f"mag-like-{scale:g}"
    return Graph.open(folder) if folder.exists() else mag_like(folder, scale=scale)


def _entries(graph: Graph, view: Any) -> int:
    return sum(graph.relations[name].entries for name in view.relations)


def _sweeps(graph: Graph, views: list[Any], work: Path) -> dict[str, float]:
    """Edges of all views in one go, where a relation is read once, and view by view."""
    seconds = {}
    for name, groups in (("one sweep", [views]), ("view by view", [[view] for view in views])):
        shutil.rmtree(work / "unions", ignore_errors=True)
        begun = time.perf_counter()
        for group in groups:
            union_graphs(graph, group, work / "unions")
        seconds[name] = time.perf_counter() - begun
    shutil.rmtree(work / "unions", ignore_errors=True)
    return seconds


def _run(graph: Graph, work: Path, memory: int, dtype: str, subsets: Any) -> dict[str, Any]:
    store = work / "subset-store"
    shutil.rmtree(store, ignore_errors=True)
    words = [str(graph.folder), str(store), str(memory), dtype, json.dumps(subsets)]
    process = subprocess.Popen([sys.executable, "-c", _JOB, *words], stdout=subprocess.PIPE, text=True)
    output, peak = jobs.watched(process)
    shutil.rmtree(store, ignore_errors=True)
    if process.returncode:
        raise SystemExit("the job over subsets failed")
    return {**json.loads(output), "anonymous": peak}


def section(found: dict[str, Any]) -> list[str]:
    """Of the page."""
    gib = 2**30
    met = "met" if found["resident"] <= found["limit"] else "**missed**"
    lines = [
        f"## Subsets of relations: {found['nodes']:,} nodes, {found['edges']:,} edges, {found['features']} features",
        "",
        f"A graph of ogbn-mag's shape (scale {found['scale']:g}), {len(found['subsets'])} subsets by seed, "
        f"{HOPS} hops, r = 0, no loops, {found['dtype']}, all target rows kept.",
        "",
        "| subset | entries |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in found["subsets"].items()),
        "",
        "| | |",
        "|---|---|",
        f"| seconds, edges of all subsets to a finished store | {found['seconds']:.1f} |",
        f"| ÷ bound (rows that neighbours ask for ÷ read bandwidth + writing the store) | "
        f"{found['seconds'] / found['bound']:.2f} |",
        f"| peak resident memory, GiB (limit {found['limit'] / gib:g}: {met}) | {found['resident'] / gib:.2f} |",
        f"| peak anonymous memory, GiB (budget {found['budget'] / gib:g}) | {found['anonymous'] / gib:.2f} |",
        f"| store, GB | {found['stored'] / 1e9:.2f} |",
    ]
    lines += [
        f"| edges of all subsets as one relation each, {name}, seconds | {took:.1f} |"
        for name, took in found["unions"].items()
    ]
    return lines
