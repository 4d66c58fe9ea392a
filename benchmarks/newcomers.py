"""What newcomers cost: 0.1 % more nodes on a graph of a million, against beginning anew with the grown tables.

    python benchmarks/newcomers.py

makes a graph of communities as tables (CSV), ingests all but the last nodes and trains on them. Then the others
come: labelled from tables of them alone (`predict --add-nodes`), and added to the graph folder (`ingest --add`), each
beside what it replaces. Answers are compared to the last bit before anything is counted. Seconds are those of the
processor, imports aside: the machine may have other work. It writes docs/results/newcomers.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.graph.ingest import IngestOptions, add_tables, ingest
from gamlp.run import Newcomers, hops_for, predict, schema_of, train, write_predictions
from gamlp.training import Bundle
from machine import describe

LEAST = 20.0
PAGE = Path(__file__).parents[1] / "docs" / "results" / "newcomers.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--hops", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given.out.write_text(page(given, measure(Path(folder), given)))
    print(given.out.read_text())


def measure(folder: Path, given: argparse.Namespace) -> list[tuple[str, str, float, float]]:
    """(what, for how much, seconds anew, seconds of the addition)."""
    newcomers = max(1, given.nodes // 1000)
    tables(folder, given.nodes, newcomers, given.edges, given.features)
    place = {name: folder / f"{name}.csv" for name in ("nodes", "edges", "more_nodes", "more_edges")}
    ingest(place["edges"], place["nodes"], folder / "graph")
    anew, options = folder / "anew", IngestOptions(schema=schema_of(str(folder / "graph")))
    ingested = seconds(lambda: ingest(folder / "all_edges.csv", folder / "all_nodes.csv", anew, options))
    found = []
    for hops in given.hops:
        changes: dict[str, Any] = {"epochs": 1}
        run = folder / f"run-{hops}"
        train(folder / "graph", {"training": changes, "model": {"beta": 0.0}, "propagation": {"hops": hops}}, run)
        slow = ingested + seconds(partial(predict_rows, run, anew, given.nodes + np.arange(newcomers), folder))
        added = Newcomers(place["more_nodes"], place["more_edges"])
        fast = seconds(partial(predict, run, folder / "added.parquet", newcomers=added))
        one, other = (pyarrow.parquet.read_table(folder / f"{name}.parquet") for name in ("anew", "added"))
        assert one.equals(other), "the answers differ"
        found.append((f"labels of newcomers, {hops} hops", f"{newcomers:,} nodes", slow, fast))
        for left in (folder / "hops", run):
            shutil.rmtree(left)
    grown = seconds(lambda: add_tables(folder / "graph", place["more_nodes"], place["more_edges"]))
    one, other = Graph.open(anew), Graph.open(folder / "graph")
    assert np.array_equal(one.relation.degrees(), other.relation.degrees()), "the graphs differ"
    found.append(("the graph folder", f"{newcomers:,} nodes", ingested, grown))
    return found


def predict_rows(run: Path, graph: Path, rows: Array, folder: Path) -> None:
    """Hops of a whole graph, and predictions of some of its rows."""
    bundle, whole = Bundle.load(run / "bundle.safetensors"), Graph.open(graph)
    store = hops_for(bundle, whole, folder / "hops")
    write_predictions(bundle, store, whole.nodes.ids, folder / "anew.parquet", rows=rows)


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, in all threads."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def tables(folder: Path, nodes: int, newcomers: int, edges: int, features: int) -> None:
    """Old rows, further rows, and all of them, as CSV."""
    graph = communities(folder / "made", nodes=nodes + newcomers, edges=edges, features=features, classes=10)
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    x, labels = np.asarray(graph.nodes.features.values), graph.nodes.labels.values
    columns = {"id": np.arange(len(x)), **{f"f{i}": x[:, i] for i in range(features)}, "label": labels}
    both = np.concatenate([np.stack([rows, found]) for rows, found, _ in graph.relation.edges()], 1)
    both = both[:, both[0] > both[1]]
    old = both.max(0) < nodes
    for name, rows, ends in (
        ("", slice(0, nodes), both[:, old]),
        ("more_", slice(nodes, None), both[:, ~old]),
        ("all_", slice(None), np.concatenate([both[:, old], both[:, ~old]], 1)),
    ):
        own = {column: values[rows] for column, values in columns.items()}
        pyarrow.csv.write_csv(pa.table(own), folder / f"{name}nodes.csv")
        pyarrow.csv.write_csv(pa.table({"src": ends[0], "dst": ends[1]}), folder / f"{name}edges.csv")
    shutil.rmtree(folder / "made")


def page(given: argparse.Namespace, found: list[tuple[str, str, float, float]]) -> str:
    lines = [
        "# What newcomers cost\n",
        f"`python benchmarks/newcomers.py`: {given.nodes:,} nodes, {given.edges:,} edges, {given.features} features,",
        "to which 0.1 % more nodes come with their edges. Anew: the grown tables (CSV) are ingested, propagated,",
        "and the newcomers predicted. Added: `gamlp predict --add-nodes`, and `gamlp ingest --add`. Answers are equal",
        "to the last bit. Seconds of the processor, imports aside; the machine had other work. Within 2 hops newcomers",
        "hear a tenth of such a graph, within 5 nearly all of it: what they hear is propagated anew, and no less will",
        "do for the same bytes.",
        f"{describe()}. Expected: at least {LEAST:.0f} times as fast.\n",
        "| | newcomers | anew, s | added, s | times as fast | |",
        "|---|---|---|---|---|---|",
    ]
    for what, count, slow, fast in found:
        met = "met" if slow >= LEAST * fast else "**missed**"
        lines.append(f"| {what} | {count} | {slow:.1f} | {fast:.2f} | {slow / fast:.0f} | {met} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
