"""The graph of some nodes, cut out by tasks: the one that is cut out in one go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, Labels, Split, damaged_files, induce
from gamlp.io import Ranges, RangeWork, State, tally_here
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.run.resources import Resources
from tests.conformance.engines import BlocksHere

COUNT = 120


def graph_of(folder: Path, *, weighted: bool, directed: bool, ids: str = "range", multi_label: bool = False) -> Graph:
    rng = np.random.default_rng(8)
    edges = rng.integers(0, COUNT, (2, 700))
    labels = (
        Labels(rng.integers(0, 2, (COUNT, 3)).astype(np.int8), ("a", "b", "c"))
        if multi_label
        else rng.integers(0, 3, COUNT)
    )
    made = Graph.from_arrays(
        edges,
        rng.normal(size=(COUNT, 5)).astype(np.float32),
        labels,
        weights=rng.uniform(0.5, 2, 700) if weighted else None,
        directed=directed,
        split=Split(rng.integers(0, 4, COUNT).astype(np.int8)),
    )
    named = {
        "range": None,
        "integers": rng.permutation(COUNT) + 7,
        "strings": pa.array([f"n{i}" for i in range(COUNT)]),
    }
    object.__setattr__(made.nodes, "ids", Ids(COUNT, named[ids]))
    return made.save(folder)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("ids", ["range", "integers", "strings"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_tasks_cut_out_the_same_graph(tmp_path: Path, weighted: bool, directed: bool, ids: str, blocks: int) -> None:
    graph = graph_of(tmp_path / "graph", weighted=weighted, directed=directed, ids=ids, multi_label=weighted)
    assert graph.nodes.split is not None
    rows = graph.nodes.split.train
    local = induce(graph, rows, tmp_path / "local")
    found = BlocksHere(blocks=blocks).induce(graph, rows, tmp_path / "tasks")
    assert len(found.relation.blocks) == blocks and damaged_files(found) == []
    for ours, theirs in zip(_edges(found), _edges(local)):
        assert np.array_equal(ours, theirs)
    assert found.source == local.source and found.relation.directed == local.relation.directed
    ours, theirs = found.nodes, local.nodes
    assert np.array_equal(np.asarray(ours.features.values), theirs.features.values)  # type: ignore[union-attr]
    assert np.array_equal(ours.labels.values, theirs.labels.values)  # type: ignore[union-attr]
    assert ours.labels.classes == theirs.labels.classes  # type: ignore[union-attr]
    assert np.array_equal(ours.split.roles, theirs.split.roles)  # type: ignore[union-attr]
    every = np.arange(len(rows))
    assert ours.ids.take(every).to_pylist() == theirs.ids.take(every).to_pylist()
    again = BlocksHere(blocks=2).induce(graph, rows, tmp_path / "tasks")  # there already
    assert len(again.relation.blocks) == blocks
    with pytest.raises(GamlpError, match="holds another graph"):
        BlocksHere().induce(graph, rows[:-1], tmp_path / "tasks")


def test_inductive_training_reads_the_same_hops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(tmp_path / "graph", weighted=False, directed=False)
    recipe = Recipe.of({"training": {"setting": "inductive"}, "propagation": {"hops": 2, "label_hops": 2}})
    here = prepare(graph, recipe, tmp_path / "here")
    monkeypatch.setattr(Resources, "open_engine", lambda _: Closeable(blocks=3))
    there = prepare(graph, recipe, tmp_path / "there")
    for ours, theirs in zip((there.train, there.valid), (here.train, here.valid)):
        assert ours is not None and theirs is not None and np.array_equal(ours.rows, theirs.rows)
        for mine, other in zip(ours.gather(np.arange(len(ours))), theirs.gather(np.arange(len(theirs)))):
            assert np.array_equal(mine, other)


class Closeable(BlocksHere):
    def tally(self, _: object, work: RangeWork, ranges: Ranges, stage: str = "") -> Iterator[State]:
        return tally_here(work, ranges, stage)

    def close(self) -> None:
        """Nothing is held."""


def _edges(graph: Graph) -> list[np.ndarray]:
    found = list(graph.relation.edges())
    parts = [np.concatenate([part[index] for part in found]) for index in (0, 1)]
    return [*parts, np.concatenate([part[2] for part in found])] if graph.relation.weighted else parts
