"""Hops of newcomers alone, of a graph that has grown: what they hear is read and propagated, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.graph.growth import GrownGraph, ViewLists, around
from gamlp.io import available_memory, usable_cores
from gamlp.progress import Progress, silent
from gamlp.propagation.first_values import FirstValues
from gamlp.propagation.local.some_rows import RowsRun, rows_alone
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import outline
from gamlp.propagation.store.shards import Assembly
from gamlp.propagation.store.store import HopStore
from gamlp.propagation.store.writer import writing


def propagate_newcomers(
    growth: GrownGraph,
    graph: Graph,
    plan: Plan,
    store: Path,
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> HopStore:
    """A store of the newcomers' hops: row i is the i-th newcomer. `graph` is the grown one, as the model reads it."""
    memory, threads = memory or available_memory() // 2, threads or usable_cores()
    rows = growth.newcomers
    signals = outline(graph, plan, rows, FirstValues(graph, plan.features))
    kept = [rows_alone(signal, rows) for signal in signals]
    with writing(store, newcomers_of(graph, rows), kept) as writer:
        writer.begin()
        writer.start()
        for view in dict.fromkeys(signal.view for signal in signals if signal.view is not None):
            own = [index for index, signal in enumerate(signals) if signal.view == view]
            lists = ViewLists(growth, graph, view)
            heard = around(lists, rows, max(signals[index].hops for index in own), memory)
            for index in own:
                run = RowsRun(signals[index], kept[index], lists, heard, rows, memory, threads)
                assembly = Assembly(
                    kept[index], run.sources(progress), run.leave, len(rows), writer.folder_of(kept[index])
                )
                writer.record(kept[index], list(assembly.write(threads)))
        writer.finish()
    return HopStore.open(store)


def newcomers_of(graph: Graph, rows: Array) -> Graph:
    """Some rows of the target type with no edges: what a store of their hops is of."""
    nodes = graph.nodes
    labels, split = nodes.labels, nodes.split
    alone = replace(
        nodes,
        count=len(rows),
        ids=nodes.ids.of(rows),
        features=None,
        labels=None if labels is None else replace(labels, values=labels.values[rows]),
        split=None if split is None else replace(split, roles=split.roles[rows]),
    )
    return Graph(graph.name, {nodes.name: alone}, {}, nodes.name)
