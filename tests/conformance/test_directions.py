"""Both directions of edges on every engine, against dense algebra: A along the edges, Aᵀ against them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamlp.graph import Graph, Split
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Operator, Plan, Propagator
from tests.conformance import dense
from tests.conformance.engines import ENGINES
from tests.conformance.test_bytes import fingerprints
from tests.conformance.test_hops import close

some = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COUNT, CLASSES = 24, 3


def _edges(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, COUNT, (2, 60))


def _graph(seed: int, weights: list[float] | None = None, *, directed: bool = True) -> Graph:
    rng = np.random.default_rng(seed)
    split = Split.of(COUNT, train=np.arange(9), valid=np.arange(9, 12), test=np.arange(12, COUNT))
    labels = rng.integers(0, CLASSES, COUNT)
    labels[:CLASSES] = np.arange(CLASSES)
    return Graph.from_arrays(
        _edges(seed), rng.normal(size=(COUNT, 5)), labels, weights=weights, split=split, directed=directed
    )


@some
@given(
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
    r=st.sampled_from([0.0, 0.5, 1.0]),
    loops=st.booleans(),
    rows=st.sampled_from(["all", "split", "train"]),
)
def test_in_and_out_are_powers_of_a_and_of_its_transpose(
    engine: Propagator, seed: int, weighted: bool, r: float, loops: bool, rows: str
) -> None:
    weights = [0.25 + (number % 7) / 4 for number in range(60)] if weighted else None
    graph = _graph(seed, weights)
    operator = Operator(r=r, loops=loops)
    features, labels = FeatureSignal(hops=3, operator=operator), LabelSignal(hops=2, operator=operator)
    plan = Plan(features=features, labels=labels, rows=rows, directions="both")
    kept = plan.kept_rows(graph)
    kept = np.arange(COUNT) if kept is None else kept
    with tempfile.TemporaryDirectory() as folder:
        found = engine.propagate(graph, plan, Path(folder) / "store").gather(kept)
    along = dense.adjacency(COUNT, [(int(a), int(b)) for a, b in _edges(seed).T], weights, directed=True)
    assert found.x is not None and found.y is not None
    assert found.x.shape[1] == found.y.shape[1] == 2
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    hot = graph.nodes.labels.hot(np.arange(COUNT))
    hot[9:] = 0
    for channel, matrix in enumerate((along, along.T)):
        moved = dense.operator(matrix, r, loops)
        assert close(found.x[:, channel], dense.hops(moved, graph.nodes.features.values, 3)[kept])
        assert close(found.y[:, channel], dense.hops(moved, hot, 2)[kept])


def test_engines_write_the_same_bytes(tmp_path: Path) -> None:
    graph = _graph(3, [1.0 + number % 3 for number in range(60)]).save(tmp_path / "graph")
    plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=2), rows="split", directions="both")
    found = []
    for index, name in enumerate(("local", "local, out of core", "blocks, little memory")):
        ENGINES[name]().propagate(graph, plan, tmp_path / str(index))
        found.append(fingerprints(tmp_path / str(index)))
    assert len(found[0]) > 8 and all(prints == found[0] for prints in found)


def test_out_alone_is_the_other_graph_and_directions_do_not_matter_without_any(tmp_path: Path) -> None:
    graph, engine, rows = _graph(5), LocalPropagator(), np.arange(COUNT)
    turned = Graph.from_arrays(_edges(5)[::-1], graph.nodes.features.values, directed=True)  # type: ignore[union-attr]
    plan = Plan(features=FeatureSignal(hops=4))
    out = engine.propagate(graph, plan.model_copy(update={"directions": "out"}), tmp_path / "out").gather(rows).x
    assert np.array_equal(out, engine.propagate(turned, plan, tmp_path / "turned").gather(rows).x)  # type: ignore[arg-type]
    both = plan.model_copy(update={"directions": "both"})
    same = engine.propagate(_graph(5, directed=False), both, tmp_path / "same").gather(rows).x
    assert same is not None and np.array_equal(same[:, 0], same[:, 1])


def test_an_interrupted_run_goes_on_with_the_edges_that_were_turned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transpose is made once: after an interruption its folder is found, and the bytes are the same."""
    from gamlp.graph import union
    from gamlp.propagation.local import engine as local

    graph = _graph(7).save(tmp_path / "graph")
    plan = Plan(features=FeatureSignal(hops=3), directions="both")
    LocalPropagator().propagate(graph, plan, tmp_path / "whole")

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(local.PassRun, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            LocalPropagator().propagate(graph, plan, tmp_path / "cut")
    monkeypatch.setattr(union, "turned_entries_of", stop)  # not looked at a second time
    LocalPropagator().propagate(graph, plan, tmp_path / "cut")
    assert fingerprints(tmp_path / "cut") == fingerprints(tmp_path / "whole")
