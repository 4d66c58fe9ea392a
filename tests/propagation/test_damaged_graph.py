"""A graph whose files were damaged after they were written: a sentence, never a read outside an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Operator, Plan, hops_in_memory
from tests.sealing import seal_graph

NODES = 300


def saved(folder: Path, directed: bool, weighted: bool) -> Path:
    random = np.random.default_rng(0)
    split = Split.of(NODES, train=np.arange(9), valid=np.arange(9, 20), test=np.arange(20, 40))
    Graph.from_arrays(
        random.integers(0, NODES, (2, 3000)),
        random.normal(size=(NODES, 5)),
        random.integers(0, 3, NODES),
        weights=random.random(3000, np.float32) if weighted else None,
        directed=directed,
        split=split,
    ).save(folder)
    return folder


def damage(path: Path, at: int, value: int, *, seal: bool = True) -> None:
    values = np.load(path, mmap_mode="r+")
    values[at] = value
    values.flush()
    del values
    if seal:
        seal_graph(next(parent for parent in path.parents if (parent / "graph.json").exists()))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("rows", ["all", "split"])
@pytest.mark.parametrize("wrong", [-1, NODES, 2**31 - 1])
def test_a_neighbour_that_is_no_node_is_told(
    tmp_path: Path, directed: bool, weighted: bool, rows: str, wrong: int
) -> None:
    folder = saved(tmp_path / "graph", directed, weighted)
    damage(folder / "relations/edge/00000/neighbours.npy", 40, wrong)
    plan = Plan(features=FeatureSignal(hops=1, operator=Operator(loops=False)), rows=rows)
    with pytest.raises(GamlpError, match=f"damaged: neighbour {wrong} is not one of 300 nodes; verify .* gamlp info"):
        LocalPropagator(threads=2).propagate(Graph.open(folder), plan, tmp_path / "store")
    with pytest.raises(GamlpError, match="damaged"):
        hops_in_memory(Graph.open(folder), FeatureSignal(hops=2))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("at", "wrong"), [(0, -8), (0, 3), (100, -1), (100, 10**12), (NODES - 1, 2**62)])
def test_offsets_that_do_not_ascend_are_told(tmp_path: Path, weighted: bool, at: int, wrong: int) -> None:
    folder = saved(tmp_path / "graph", False, weighted)
    damage(folder / "relations/edge/00000/offsets.npy", at, wrong)
    with pytest.raises(GamlpError, match="damaged: its offsets do not ascend; verify"):
        LocalPropagator().propagate(Graph.open(folder), Plan(features=FeatureSignal(hops=1)), tmp_path / "store")


def test_a_training_label_beyond_the_classes_is_told(tmp_path: Path) -> None:
    folder = saved(tmp_path / "graph", False, False)
    damage(folder / "nodes/node/labels.npy", 3, 77)
    with pytest.raises(GamlpError, match="damaged: label 77 of 3 classes"):
        LocalPropagator().propagate(Graph.open(folder), Plan(labels=LabelSignal(hops=1)), tmp_path / "store")


def test_neighbours_are_looked_at_again_in_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gamlp.propagation.local.hops as moving

    folder = saved(tmp_path / "graph", False, False)
    original = moving.PassRun._sum_rows

    def stop_at_three(self: moving.PassRun, k: int, *rest: object) -> None:
        if k == 3:
            raise KeyboardInterrupt
        original(self, k, *rest)

    plan = Plan(features=FeatureSignal(hops=4))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(moving.PassRun, "_sum_rows", stop_at_three)
        LocalPropagator(checkpoint_seconds=0.0).propagate(Graph.open(folder), plan, tmp_path / "store")
    damage(folder / "relations/edge/00000/neighbours.npy", 40, 10**6, seal=False)
    with pytest.raises(GamlpError, match=r"neighbours\.npy: is damaged: its bytes are not those that were written"):
        LocalPropagator().propagate(Graph.open(folder), plan, tmp_path / "store")
