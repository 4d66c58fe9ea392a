"""Hops of a split by time: every row sees the graph as of the end of its own part, by dense algebra as the oracle."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, Split
from gamlp.propagation import (
    FeatureSignal,
    HopStore,
    LabelSignal,
    LocalPropagator,
    Operator,
    Plan,
    Propagator,
    propagate_as_of,
)
from tests.conformance import dense
from tests.conformance.engines import BlocksHere

Array = np.ndarray[Any, Any]
HOPS = 2


def graph_by_time(
    count: int, edges: list[tuple[int, int]], since: list[int], roles: list[int], features: Array, labels: list[int]
) -> Graph:
    """Edges with the period since which they are there; 0 is that of training rows."""

    def until(period: int) -> Graph:
        there = [edge for edge, one in zip(edges, since) if one <= period]
        return Graph.from_arrays(np.array(there, np.int64).reshape(-1, 2).T, features, count=count)

    known = Labels(np.array(labels, np.int32), ("a", "b"))
    split = Split(np.array(roles, np.int8))
    made = Graph.from_arrays(np.array(edges, np.int64).reshape(-1, 2).T, features, known, split=split, count=count)
    return replace(made, earlier={"train": until(0).relations, "valid": until(1).relations})


def hops_of(graph: Graph, plan: Plan, folder: Path, propagator: Propagator | None = None) -> HopStore:
    earlier = {part: graph.as_of(part) for part in graph.earlier}
    return propagate_as_of(propagator or LocalPropagator(threads=1), graph, earlier, plan, folder)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[int], list[int], list[int]]:
    count = draw(st.integers(3, 9))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20, unique_by=lambda edge: tuple(sorted(edge))))
    since = draw(st.lists(st.integers(0, 2), min_size=len(edges), max_size=len(edges)))
    roles = [1, *draw(st.lists(st.integers(0, 3), min_size=count - 1, max_size=count - 1))]
    labels = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    return count, edges, since, roles, labels


CASES = {
    "case": cases(),
    "r": st.sampled_from([0.0, 0.5, 1.0]),
    "keep": st.sampled_from(["all", "split", "train+valid"]),
}


@settings(max_examples=12, deadline=None)
@given(**CASES)
def test_every_row_sees_edges_until_the_end_of_its_part(case: Any, r: float, keep: str) -> None:
    check_against_dense_algebra(LocalPropagator(threads=1), case, r, keep)


@settings(max_examples=3, deadline=None)
@given(**CASES)
def test_by_tasks_over_blocks_too(case: Any, r: float, keep: str) -> None:
    check_against_dense_algebra(BlocksHere(), case, r, keep)


def check_against_dense_algebra(propagator: Propagator, case: Any, r: float, keep: str) -> None:
    count, edges, since, roles, labels = case
    features = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    graph = graph_by_time(count, edges, since, roles, features, labels)
    operator = Operator(r=r)
    signals = FeatureSignal(hops=HOPS, operator=operator), LabelSignal(hops=HOPS, operator=operator)
    plan = Plan(features=signals[0], labels=signals[1], rows=keep)
    with tempfile.TemporaryDirectory() as folder:
        store = hops_of(graph, plan, Path(folder) / "hops", propagator)
        kept = np.arange(count) if (found := plan.kept_rows(graph)) is None else found
        hot = np.eye(2)[labels] * (np.array(roles) == 1)[:, None]
        for row in kept:
            period = {1: 0, 2: 1}.get(roles[row], 2)
            there = [edge for edge, one in zip(edges, since) if one <= period]
            matrix = dense.operator(dense.adjacency(count, there, None, directed=False), r, loops=True)
            seen = store.gather([row])
            assert np.allclose(seen.x[0, 0], dense.hops(matrix, features, HOPS)[row], atol=1e-5)
            assert np.allclose(seen.y[0, 0], dense.hops(matrix, hot, HOPS)[row], atol=1e-5)


def example(later: int = 0, dtype: str = "float32") -> tuple[Graph, Plan]:
    """`later` changes every edge, feature and label after training ended."""
    random = np.random.default_rng(0)
    roles = [1] * 20 + [2] * 6 + [3] * 6
    features = random.normal(size=(32, 5)).astype(np.float32)
    labels = random.integers(0, 2, 32)
    early = random.integers(0, 20, (30, 2)).tolist()
    other = np.random.default_rng(later)
    late = other.integers(0, 32, (40, 2)).tolist()
    if later:
        features[20:] = other.normal(size=(12, 5)) * 1e3
        labels[20:] = 1 - labels[20:]
    graph = graph_by_time(
        32, [*map(tuple, early), *map(tuple, late)], [0] * 30 + [1, 2] * 20, roles, features, labels.tolist()
    )
    plan = Plan(
        features=FeatureSignal(hops=3, dtype=dtype), labels=LabelSignal(hops=2, dtype=dtype, folds=3), rows="all"
    )
    return graph, plan


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nothing_after_the_cut_reaches_training_rows(tmp_path: Path, dtype: str) -> None:
    stores = []
    for later in (0, 7):
        graph, plan = example(later, dtype)
        stores.append(hops_of(graph, plan, tmp_path / str(later)))
    train = np.arange(20)
    for signal in ("features", "labels", "crossfit"):
        one, two = (store.signals[signal].gather(train) for store in stores)
        assert one.tobytes() == two.tobytes()
    assert not np.array_equal(*(store.signals["features"].gather(np.arange(20, 32)) for store in stores))


def test_stored_types_keep_their_bits(tmp_path: Path) -> None:
    graph, plan = example(0, "bfloat16")
    store = hops_of(graph, plan, tmp_path / "by-time")
    alone = LocalPropagator().propagate(
        graph.as_of("train"), plan.model_copy(update={"rows": "train"}), tmp_path / "own"
    )
    for signal in ("features", "labels", "crossfit"):
        assert np.array_equal(store.signals[signal].gather(np.arange(20)), alone.signals[signal].gather(np.arange(20)))


def test_run_again_it_is_found_and_interrupted_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plan = example()
    before = hops_of(graph, plan, tmp_path / "hops")
    sums = [file.crc32 for _, file in before.files()]
    assert sorted(path.name for path in (tmp_path / "hops").iterdir() if path.is_dir()) == sorted(
        entry.folder for entry in before.manifest.signals.values()
    )

    class Idle(LocalPropagator):
        def propagate(self, *_: Any) -> HopStore:
            raise AssertionError("there is nothing to do")

    assert [file.crc32 for _, file in hops_of(graph, plan, tmp_path / "hops", Idle()).files()] == sums

    class Broken(LocalPropagator):
        def propagate(self, graph: Graph, *more: Any) -> HopStore:
            if graph.earlier:
                raise KeyboardInterrupt
            return super().propagate(graph, *more)

    with pytest.raises(KeyboardInterrupt):
        hops_of(graph, plan, tmp_path / "other", Broken())
    assert [file.crc32 for _, file in hops_of(graph, plan, tmp_path / "other").files()] == sums


def test_other_edges_of_the_past_are_another_store(tmp_path: Path) -> None:
    graph, plan = example()
    hops_of(graph, plan, tmp_path / "hops")
    other = replace(graph, earlier={**graph.earlier, "train": graph.relations})
    with pytest.raises(GamlpError, match="holds other features"):
        hops_of(other, plan, tmp_path / "hops")


def test_statistics_of_all_rows_are_refused(tmp_path: Path) -> None:
    graph, plan = example()
    plan = plan.model_copy(update={"features": FeatureSignal(scaling="standard")})
    with pytest.raises(GamlpError, match="training rows"):
        hops_of(graph, plan, tmp_path / "hops")
