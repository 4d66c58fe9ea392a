"""What every engine computes, against dense algebra."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamlp.graph import Graph, Split, hash_key
from gamlp.propagation import FeatureSignal, Hops, LabelSignal, Operator, Plan, Propagator
from tests.conformance import dense
from tests.conformance.graphs import Case, cases
from tests.graph.test_id_hash import by_hand

TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest value, for a few hops
some = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def propagate(engine: Propagator, graph: Graph, plan: Plan, rows: np.ndarray | None = None, **options: bool) -> Hops:
    with tempfile.TemporaryDirectory() as folder:
        store = engine.propagate(graph, plan, Path(folder) / "store")
        return store.gather(np.arange(graph.nodes.count) if rows is None else rows, **options)


def close(found: np.ndarray, expected: np.ndarray, dtype: str = "float32") -> bool:
    limit = TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max(initial=0.0)))
    return found.shape == expected.shape and bool(np.abs(found - expected).max(initial=0.0) <= limit)


@some
@given(
    case=cases(),
    r=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    loops=st.booleans(),
    k=st.integers(0, 4),
    label_k=st.integers(0, 6),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_features_and_labels_are_powers_of_the_dense_operator(
    engine: Propagator, case: Case, r: float, loops: bool, k: int, label_k: int, dtype: str
) -> None:
    operator = Operator(r=r, loops=loops)
    plan = Plan(
        features=FeatureSignal(hops=k, operator=operator, dtype=dtype),
        labels=LabelSignal(hops=label_k, operator=operator, dtype=dtype),
    )
    hops = propagate(engine, case.graph(), plan)
    matrix = case.operator(r, loops)
    assert hops.x is not None and hops.y is not None
    assert close(hops.x[:, 0], dense.hops(matrix, case.features, k), dtype)
    assert close(hops.y[:, 0], dense.hops(matrix, case.first_labels(), label_k), dtype)
    assert np.array_equal(hops.target, case.labels)


@some
@given(case=cases(), r=st.sampled_from([0.0, 0.5, 1.0]), label_r=st.sampled_from([0.0, 0.5, 1.0]))
def test_labels_may_have_an_operator_of_their_own(engine: Propagator, case: Case, r: float, label_r: float) -> None:
    plan = Plan(
        features=FeatureSignal(hops=2, operator=Operator(r=r)),
        labels=LabelSignal(hops=3, operator=Operator(r=label_r, loops=False)),
    )
    hops = propagate(engine, case.graph(), plan)
    assert close(hops.x[:, 0], dense.hops(case.operator(r, True), case.features, 2))
    assert close(hops.y[:, 0], dense.hops(case.operator(label_r, False), case.first_labels(), 3))


@some
@given(case=cases(least=2), seed=st.integers(0, 99))
def test_permuting_nodes_permutes_hops(engine: Propagator, case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(case.count)  # new number → old number
    number = np.argsort(order)
    moved = Case(
        case.count,
        [(int(number[a]), int(number[b])) for a, b in case.edges],
        case.weights,
        case.directed,
        case.features[order],
        case.labels[order],
        case.roles[order],
    )
    plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=3))
    before, after = propagate(engine, case.graph(), plan), propagate(engine, moved.graph(), plan)
    assert close(after.x, before.x[order])
    if moved.labels.max() == case.labels.max():
        assert close(after.y, before.y[order])


@some
@given(case=cases())
def test_row_mean_keeps_constants_and_transition_keeps_mass(engine: Propagator, case: Case) -> None:
    ones = Case(case.count, case.edges, None, False, np.ones((case.count, 3), np.float32), case.labels, case.roles)
    mean = propagate(engine, ones.graph(), Plan(features=FeatureSignal(hops=4, operator=Operator(r=0.0))))
    assert close(mean.x, np.ones_like(mean.x))
    undirected = Case(case.count, case.edges, None, False, case.features, case.labels, case.roles)
    moved = propagate(engine, undirected.graph(), Plan(features=FeatureSignal(hops=4, operator=Operator(r=1.0))))
    sums = moved.x[:, 0].sum(0, dtype=np.float64)
    assert np.abs(sums - sums[0]).max() < 1e-4


@some
@given(case=cases())
def test_the_symmetric_operator_is_symmetric(engine: Propagator, case: Case) -> None:
    identity = Case(
        case.count, case.edges, case.weights, False, np.eye(case.count, dtype=np.float32), case.labels, case.roles
    )
    hops = propagate(engine, identity.graph(), Plan(features=FeatureSignal(hops=2)))
    for k in (1, 2):
        assert close(hops.x[:, 0, k], hops.x[:, 0, k].T)


@some
@given(case=cases(), names=st.sampled_from(["train", "valid", "test", "split", "train+test", "labelled"]))
def test_kept_rows_are_the_same_bytes(engine: Propagator, case: Case, names: str) -> None:
    graph = case.graph()
    plan = {"features": FeatureSignal(hops=3), "labels": LabelSignal(hops=2)}
    roles = {
        "train": [1],
        "valid": [2],
        "test": [3],
        "split": [1, 2, 3],
        "train+test": [1, 3],
        "labelled": [0, 1, 2, 3],
    }
    rows = np.flatnonzero(np.isin(case.roles, roles[names]))
    if len(rows) == 0:
        with pytest.raises(Exception, match="no rows are"):
            propagate(engine, graph, Plan(**plan, rows=names))
        return
    everything, kept = (
        propagate(engine, graph, Plan(**plan), rows),
        propagate(engine, graph, Plan(**plan, rows=names), rows),
    )
    assert np.array_equal(everything.x, kept.x)
    assert np.array_equal(everything.y, kept.y)


@some
@given(case=cases(), seed=st.integers(0, 99))
def test_labels_of_validation_and_test_rows_never_enter(engine: Propagator, case: Case, seed: int) -> None:
    other = case.labels.copy()
    hidden = np.flatnonzero(case.roles != 1)
    other[hidden] = np.random.default_rng(seed).integers(0, int(case.labels.max()) + 1, len(hidden))
    other = np.minimum(other, case.labels.max())
    if other.max() != case.labels.max():
        return  # another number of classes: another width
    changed = Case(case.count, case.edges, case.weights, case.directed, case.features, other, case.roles)
    plan = Plan(labels=LabelSignal(hops=3, folds=2 if (case.roles == 1).sum() > 1 else 0))
    before, after = propagate(engine, case.graph(), plan), propagate(engine, changed.graph(), plan)
    assert np.array_equal(before.y, after.y)
    assert not before.y[hidden, 0, 0].any()


@some
@given(case=cases(least=6), folds=st.integers(2, 3))
def test_cross_fitted_hops_come_from_the_other_folds(engine: Propagator, case: Case, folds: int) -> None:
    train = np.flatnonzero(case.roles == 1)
    if len(train) < folds:
        return
    plan = Plan(labels=LabelSignal(hops=3, folds=folds, fold_seed=7))
    found = propagate(engine, case.graph(), plan, train, crossfit=True).y[:, 0]
    matrix = case.operator(0.5, True)
    fold_of = np.array([by_hand(str(row).encode(), hash_key(7, "folds")) % folds for row in train])
    for fold in range(folds):
        inside, others = train[fold_of == fold], train[fold_of != fold]
        expected = dense.hops(matrix, case.first_labels(others), 3)[inside]
        assert close(found[fold_of == fold], expected)


@pytest.mark.parametrize("scaling", ["none", "row", "l2", "standard"])
def test_features_are_scaled_before_propagation(engine: Propagator, scaling: str) -> None:
    random = np.random.default_rng(3)
    x = random.normal(2.0, 3.0, size=(12, 5)).astype(np.float32)
    x[4], x[:, 2] = 0.0, 7.0  # an empty row, a constant column
    edges = random.integers(0, 12, (2, 30))
    wide = x.astype(np.float64)
    expected = {
        "none": wide,
        "row": np.stack([row / s if (s := np.abs(row).sum()) else row for row in wide]),
        "l2": np.stack([row / s if (s := np.sqrt((row * row).sum())) else row for row in wide]),
        "standard": (wide - wide.mean(0)) / np.where(wide.std(0) == 0, 1.0, wide.std(0)),
    }[scaling]
    graph = Graph.from_arrays(edges, x)
    hops = propagate(engine, graph, Plan(features=FeatureSignal(hops=2, scaling=scaling)))
    matrix = dense.operator(dense.adjacency(12, list(zip(*edges.tolist())), None, directed=False), 0.5, True)
    assert close(hops.x[:, 0], dense.hops(matrix, expected, 2))


def test_standard_scaling_keeps_the_digits_of_a_column_far_from_zero(engine: Propagator) -> None:
    """Beside a mean of a million, float32 has an eighth as its last digit: the difference is taken in float64."""
    random = np.random.default_rng(5)
    x = (random.normal(size=(12, 4)) + np.array([0.0, 1e6, -3e6, 1e4])).astype(np.float32)
    edges, wide = random.integers(0, 12, (2, 30)), x.astype(np.float64)
    expected = (wide - wide.mean(0)) / wide.std(0)
    hops = propagate(engine, Graph.from_arrays(edges, x), Plan(features=FeatureSignal(hops=2, scaling="standard")))
    matrix = dense.operator(dense.adjacency(12, list(zip(*edges.tolist())), None, directed=False), 0.5, True)
    assert np.abs(hops.x[:, 0, 0] - expected).max() < 1e-6
    assert np.abs(hops.x[:, 0] - dense.hops(matrix, expected, 2)).max() < 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
def test_half_precision_does_not_lose_hubs(engine: Propagator, dtype: str, r: float) -> None:
    """At r = 1 a hub's scaled row is 1/degree of its features: stored plainly in float16 it would lose its digits."""
    leaves = 3000
    edges = np.stack([np.zeros(leaves, np.int64), np.arange(1, leaves + 1)])
    random = np.random.default_rng(0)
    x = (random.uniform(0.5, 1.0, (leaves + 1, 4)) * [1e-2, 1.0, 10.0, 1e-3]).astype(np.float32)
    tilde = np.eye(leaves + 1)
    tilde[0, 1:] = tilde[1:, 0] = 1.0
    left, right = tilde.sum(1) ** (r - 1), tilde.sum(0) ** -r
    expected = dense.hops(left[:, None] * tilde * right, x, 3)
    plan = Plan(features=FeatureSignal(hops=3, operator=Operator(r=r), dtype=dtype))
    roomy = type(engine)(**{**vars(engine), "memory": None})  # a graph of this size does not fit the tiny budget
    found = propagate(roomy, Graph.from_arrays(edges, x), plan).x[:, 0]
    relative = np.abs(found - expected) / np.abs(expected)
    assert relative.max() < {"float16": 3e-3, "bfloat16": 3e-2}[dtype]


def test_what_float16_cannot_hold_is_told(engine: Propagator) -> None:
    graph = Graph.from_arrays([[0, 1], [1, 2]], np.array([[1.0, 7e4], [2.0, 1.0], [3.0, 2.0]], np.float32))
    with pytest.raises(Exception, match=r"float16.*bfloat16 or float32"):
        propagate(engine, graph, Plan(features=FeatureSignal(hops=1, dtype="float16")))
    found = propagate(engine, graph, Plan(features=FeatureSignal(hops=1, dtype="bfloat16")))
    assert np.isfinite(found.x).all()


def test_many_labels_a_node(engine: Propagator) -> None:
    labels = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0]], np.int8)
    split = Split.of(4, train=[0, 1], valid=[2], test=[3])
    graph = Graph.from_arrays([[0, 1, 2], [1, 2, 3]], np.eye(4), labels, split=split)
    found = propagate(engine, graph, Plan(labels=LabelSignal(hops=2)))
    first = np.zeros((4, 3))
    first[:2] = labels[:2]
    matrix = dense.operator(dense.adjacency(4, [(0, 1), (1, 2), (2, 3)], None, directed=False), 0.5, True)
    assert close(found.y[:, 0], dense.hops(matrix, first, 2))
    assert np.array_equal(found.target, labels)


def test_deep_propagation_stays_right(engine: Propagator) -> None:
    random = np.random.default_rng(5)
    edges = random.integers(0, 20, (2, 50))
    x = random.normal(size=(20, 9)).astype(np.float32)
    found = propagate(engine, Graph.from_arrays(edges, x), Plan(features=FeatureSignal(hops=50)))
    matrix = dense.operator(dense.adjacency(20, list(zip(*edges.tolist())), None, directed=False), 0.5, True)
    assert close(found.x[:, 0], dense.hops(matrix, x, 50))


def test_weights_beyond_float32_are_told(engine: Propagator) -> None:
    graph = Graph.from_arrays([[0, 1], [1, 2]], np.eye(3), weights=[1e-41, 1.0])
    with pytest.raises(Exception, match="edge weights of node 0 add up to"):
        propagate(engine, graph, Plan(features=FeatureSignal(hops=1, operator=Operator(loops=False))))
