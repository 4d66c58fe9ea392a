"""Heterogeneous plans on every engine, against dense algebra: a subset of relations is one graph."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gamlp.graph import hash_key, view_of
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, Operator, Plan, Propagator
from tests.conformance.test_hops import close
from tests.conformance.typed_graphs import TARGET, CaseRelation, TypedCase, typed_cases
from tests.graph.test_id_hash import by_hand

some = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SUBSETS = (
    ("cites",),
    ("writes",),
    ("appears-in",),
    ("writes", "reviews"),
    ("writes", "works-on"),
    ("cites", "works-on"),
)
EVERY = (*SUBSETS, ("cites", "writes", "appears-in", "works-on", "reviews"))
PLANS = {
    "subsets": st.lists(st.sampled_from(EVERY), min_size=1, max_size=3, unique=True),
    "r": st.sampled_from([0.0, 0.5, 1.0]),
    "loops": st.booleans(),
    "k": st.integers(0, 4),
}


def run(engine: Propagator, case: TypedCase, plan: Plan, folder: str) -> HopStore:
    return engine.propagate(case.graph(), plan, Path(folder) / "store")


@some
@given(case=typed_cases(), **PLANS)
def test_each_types_features_are_a_signal_of_their_own(
    engine: Propagator, case: TypedCase, subsets: list[tuple[str, ...]], r: float, loops: bool, k: int
) -> None:
    features = FeatureSignal(hops=k, operator=Operator(r=r, loops=loops))
    plan = Plan(features=features, subsets=tuple(subsets), separate_types=True)
    with tempfile.TemporaryDirectory() as folder:
        store = run(engine, case, plan, folder)
        views = {view_of(case.graph(), subset).name: subset for subset in subsets}
        channels = store.channels()
        expected = {(name, node_type) for name, subset in views.items() for node_type in case.reached(subset)}
        assert {(channel.view, channel.node_type) for channel in channels} == {
            (name, node_type) for name, node_type in expected if case.features[node_type] is not None
        }
        for channel in channels:
            assert channel.node_type is not None
            subset = views[channel.view]
            found = store.signals[channel.signal].gather(np.arange(case.counts[TARGET]))
            assert close(found, case.hops(subset, case.first(subset, [channel.node_type]), k, r, loops))


@some
@given(case=typed_cases(one_width=True), dtype=st.sampled_from(["float32", "float16", "bfloat16"]), **PLANS)
def test_types_of_one_width_share_a_signal_and_labels_go_along(
    engine: Propagator, case: TypedCase, dtype: str, subsets: list[tuple[str, ...]], r: float, loops: bool, k: int
) -> None:
    operator = Operator(r=r, loops=loops)
    plan = Plan(
        features=FeatureSignal(hops=k, operator=operator, dtype=dtype),
        labels=LabelSignal(hops=k + 1, operator=operator, dtype=dtype),
        subsets=tuple(subsets),
    )
    with tempfile.TemporaryDirectory() as folder:
        hops = run(engine, case, plan, folder).gather(np.arange(case.counts[TARGET]))
    views = {view_of(case.graph(), subset).name: subset for subset in subsets}
    assert hops.x is not None and hops.y is not None
    assert hops.x.shape[1] == hops.y.shape[1] == len(views)
    for channel, subset in enumerate(views.values()):
        first = case.first(subset, [node_type for node_type in case.counts if case.features[node_type] is not None])
        assert close(hops.x[:, channel], case.hops(subset, first, k, r, loops), dtype)
        assert close(hops.y[:, channel], case.hops(subset, case.first_labels(subset), k + 1, r, loops), dtype)
    assert np.array_equal(hops.target, case.labels)


def _far_from_zero() -> TypedCase:
    """Two types whose columns have a mean that is large beside their deviation."""
    random = np.random.default_rng(1)
    papers, authors = random.normal(1e6, 1.0, (7, 2)), random.normal(-1e6, 1.0, (5, 2))
    features = {TARGET: papers.astype(np.float32), "author": authors.astype(np.float32)}
    writes = CaseRelation("writes", "author", TARGET, [(index % 5, index) for index in range(7)])
    return TypedCase({TARGET: 7, "author": 5}, features, [writes], np.zeros(7, np.int32), np.ones(7, np.int8))


@some
@given(
    case=typed_cases(one_width=True), scaling=st.sampled_from(["row", "l2", "standard"]), subset=st.sampled_from(EVERY)
)
@example(case=_far_from_zero(), scaling="standard", subset=("writes",))
def test_each_type_is_scaled_by_its_own_rows(
    engine: Propagator, case: TypedCase, scaling: str, subset: tuple[str, ...]
) -> None:
    plan = Plan(features=FeatureSignal(hops=2, scaling=scaling), subsets=(subset,))
    with tempfile.TemporaryDirectory() as folder:
        hops = run(engine, case, plan, folder).gather(np.arange(case.counts[TARGET]))
    scaled = {
        node_type: None if x is None else _scaled(x.astype(np.float64), scaling)
        for node_type, x in case.features.items()
    }
    case = TypedCase(case.counts, scaled, case.relations, case.labels, case.roles)
    first = case.first(subset, [node_type for node_type in case.counts if scaled[node_type] is not None])
    assert hops.x is not None and close(hops.x[:, 0], case.hops(subset, first, 2, 0.5, True))


def _scaled(x: np.ndarray, scaling: str) -> np.ndarray:
    if scaling == "standard":
        deviation = x.std(0)
        return (x - x.mean(0)) / np.where(deviation == 0, 1, deviation)
    length = np.abs(x).sum(1) if scaling == "row" else np.sqrt((x**2).sum(1))
    return x / np.where(length == 0, 1, length)[:, None]


@some
@given(case=typed_cases(one_width=True, all_features=True), folds=st.integers(2, 3))
def test_cross_fitted_labels_come_from_the_other_folds_on_every_view(
    engine: Propagator, case: TypedCase, folds: int
) -> None:
    train = np.flatnonzero(case.roles == 1)
    if len(train) < folds:
        return
    subsets = (("cites",), ("writes", "appears-in"))
    plan = Plan(features=None, labels=LabelSignal(hops=3, folds=folds), subsets=subsets)
    with tempfile.TemporaryDirectory() as folder:
        store = engine.propagate(case.graph(), plan, Path(folder) / "store")
        found = [store.signals[channel.signal].gather(train) for channel in store.channels(signal="crossfit")]
    fold = np.array([by_hand(str(row).encode(), hash_key(0, "folds")) % folds for row in train])
    for subset, hops in zip(subsets, found):
        for own in range(folds):
            first = case.first_labels(subset)
            first[train[fold == own]] = 0
            expected = case.hops(subset, first, 3, 0.5, True)
            assert close(hops[fold == own], expected[train[fold == own]])


@some
@given(case=typed_cases(one_width=True, all_features=True), subset=st.sampled_from(EVERY))
def test_kept_rows_are_rows_of_the_target(engine: Propagator, case: TypedCase, subset: tuple[str, ...]) -> None:
    plan = Plan(features=FeatureSignal(hops=3), rows="train", subsets=(subset,))
    train = np.flatnonzero(case.roles == 1)
    with tempfile.TemporaryDirectory() as folder:
        store = run(engine, case, plan, folder)
        found = store.gather(train).x
    expected = case.hops(subset, case.first(subset, list(case.counts)), 3, 0.5, True)
    assert found is not None and close(found[:, 0], expected[train])
