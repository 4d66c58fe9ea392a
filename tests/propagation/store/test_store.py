"""The hop store: reading, what is kept and what is made anew, what is refused, damage."""

from __future__ import annotations

import fcntl
import gc
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, Labels, Split
from gamlp.io import FileRows, Place
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, Operator, Plan
from gamlp.propagation.store import shards
from tests.propagation.store.small_store import BOTH, CLASSES, ENGINE, NODES, WIDTH, Array, make_graph


def with_nodes(graph: Graph, **changes: Any) -> Graph:
    return replace(graph, node_types={"node": replace(graph.nodes, **changes)})


def written(store: Path) -> dict[str, tuple[int, int]]:
    """(inode, time of the last change) of every file but the lock."""
    return {
        path.relative_to(store).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def only(files: dict[str, tuple[int, int]], start: str) -> dict[str, tuple[int, int]]:
    return {name: state for name, state in files.items() if name.startswith(start)}


@pytest.fixture(scope="module", params=["float32", "float16", "bfloat16"])
def sharded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[HopStore, Array]:
    """A store of several small shards, and the same hops as one array."""
    folder = tmp_path_factory.mktemp("store")
    plan = Plan(features=FeatureSignal(hops=3, dtype=request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD_BYTES", 7 * 4 * WIDTH * (4 if request.param == "float32" else 2))
        store = ENGINE.propagate(make_graph(), plan, folder / "many")
    whole = ENGINE.propagate(make_graph(), plan, folder / "one")
    assert len(store.signals["features"].entry.shards) == 9 and len(whole.signals["features"].entry.shards) == 1
    return store, np.array(whole.signals["features"].read(0, NODES))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.integers(0, NODES - 1), max_size=90), hops=st.none() | st.integers(0, 3))
def test_gather_is_indexing_in_any_order_with_repeats(
    sharded: tuple[HopStore, Array], rows: list[int], hops: int | None
) -> None:
    store, whole = sharded
    found = store.gather(rows, hops=hops)
    assert np.array_equal(found.x[:, 0], whole[np.array(rows, int), : 4 if hops is None else hops + 1])
    assert found.y is None and len(found.target) == len(rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.integers(0, NODES - 1), max_size=90), hops=st.none() | st.integers(0, 3))
def test_rows_that_are_not_in_memory_are_read_to_the_same_bytes(
    sharded: tuple[HopStore, Array], rows: list[int], hops: int | None
) -> None:
    """As if the page cache held none: by requests of rows side by side, into their places."""
    store, whole = sharded
    depth = 3 if hops is None else hops
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileRows, "in_memory", False)
        found = store.signals["features"].gather(np.array(rows, np.int64), hops)
        assert np.array_equal(found, whole[rows][:, : depth + 1]) and found.dtype == whole.dtype
        ascending = np.unique(np.array(rows, np.int64))
        assert np.array_equal(store.signals["features"].gather(ascending), whole[ascending])


def test_a_few_rows_that_ascend_are_taken_through_the_maps(sharded: tuple[HopStore, Array]) -> None:
    store, whole = sharded
    signal = store.signals["features"]
    signal.check()
    for rows in ([], [0], [3, 3, 8, NODES - 1], list(range(NODES))):
        for hops in (0, 2, None):
            expected = whole[np.asarray(rows, np.int64), : (3 if hops is None else hops) + 1]
            np.testing.assert_array_equal(signal.take(np.asarray(rows, np.int64), hops), expected)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, NODES), count=st.integers(0, NODES), hops=st.none() | st.integers(0, 3))
def test_read_is_a_slice_across_shards(
    sharded: tuple[HopStore, Array], start: int, count: int, hops: int | None
) -> None:
    store, whole = sharded
    found = store.signals["features"].read(start, start + count, hops)
    assert np.array_equal(found, whole[start : start + count, : 4 if hops is None else hops + 1])


def test_what_is_read_is_float(sharded: tuple[HopStore, Array]) -> None:
    store, _ = sharded
    expected = np.float16 if store.signals["features"].entry.dtype == "float16" else np.float32
    assert store.gather([3]).x.dtype == store.signals["features"].read(0, 5).dtype == expected
    assert np.allclose(store.gather([3]).x[0, 0, 0], make_graph().nodes.features.values[3], rtol=1e-2)


def test_hops_targets_and_split_are_those_of_the_graph(tmp_path: Path) -> None:
    graph = make_graph()
    ENGINE.propagate(graph, BOTH, tmp_path / "store")
    store = HopStore.open(tmp_path / "store")
    rows = np.array([5, 59, 5, 0])
    hops = store.gather(rows, hops=1, label_hops=2)
    assert hops.x.shape == (4, 1, 2, WIDTH) and hops.y.shape == (4, 1, 3, CLASSES)
    assert np.array_equal(hops.target, graph.nodes.labels.values[rows])
    assert np.array_equal(store.split.roles, graph.nodes.split.roles)
    assert store.labels.classes == graph.nodes.labels.classes


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda store: store.gather([3, 60]), "row 60 is not among the graph's 60 nodes"),
        (lambda store: store.gather([-1]), "row -1 is not among the graph's 60 nodes"),
        (lambda store: store.gather([0, 25]), "node 25 was not kept in the store's features"),
        (lambda store: store.gather([0], hops=4), "holds 3 hops of features, not 4"),
        (lambda store: store.gather([0], label_hops=3), "holds 2 hops of labels, not 3"),
        (lambda store: store.gather([0], hops=-1), "holds 3 hops of features, not -1"),
        (lambda store: store.gather([0], crossfit=True), "no cross-fitted labels"),
        (lambda store: store.gather(np.ones(60, bool)), "rows are bool"),
        (lambda store: store.gather([0.5]), "rows are float64"),
    ],
)
def test_what_the_store_does_not_hold_is_told(tmp_path: Path, ask: Callable[[HopStore], object], told: str) -> None:
    store = ENGINE.propagate(make_graph(), BOTH.model_copy(update={"rows": "split"}), tmp_path / "store")
    with pytest.raises(GamlpError, match=told):
        ask(store)


def test_a_finished_store_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, folder = make_graph(), tmp_path / "store"
    ENGINE.propagate(graph, BOTH, folder)
    before = written(folder)
    monkeypatch.setattr("gamlp.propagation.local.hops.hop", lambda *_: pytest.fail("a hop was computed"))
    shallower = Plan(features=FeatureSignal(hops=1), labels=LabelSignal(hops=1))
    for plan in (BOTH, shallower, Plan(features=FeatureSignal(hops=2)), BOTH.model_copy(update={"rows": "valid"})):
        store = ENGINE.propagate(graph, plan, folder)
        assert set(store.signals) == {"features", "labels"}
    assert written(folder) == before


def test_a_store_of_some_rows_serves_fewer_of_them(tmp_path: Path) -> None:
    graph, folder = make_graph(), tmp_path / "store"
    ENGINE.propagate(graph, Plan(features=FeatureSignal(hops=2), rows="split"), folder)
    before = written(folder)
    store = ENGINE.propagate(graph, Plan(features=FeatureSignal(hops=2), rows="train+test"), folder)
    assert written(folder) == before
    assert np.array_equal(store.gather([45, 3]).x[:, 0, 0], graph.nodes.features.values[[45, 3]])


def moved_split(graph: Graph) -> Graph:
    split = Split.of(NODES, train=np.arange(5, 25), valid=np.arange(30, 40), test=np.arange(40, 50))
    return with_nodes(graph, split=split)


def other_labels(graph: Graph) -> Graph:
    values = graph.nodes.labels.values.copy()
    values[3] = (values[3] + 1) % CLASSES
    return with_nodes(graph, labels=Labels(values, graph.nodes.labels.classes))


@pytest.mark.parametrize(
    ("change", "plan"),
    [
        pytest.param(moved_split, LabelSignal(hops=2, folds=3), id="split"),
        pytest.param(other_labels, LabelSignal(hops=2, folds=3), id="labels"),
        pytest.param(lambda graph: graph, LabelSignal(hops=2, folds=4), id="folds"),
        pytest.param(lambda graph: graph, LabelSignal(hops=2, folds=3, fold_seed=1), id="seed of folds"),
    ],
)
def test_other_training_labels_or_folds_keep_the_features(
    tmp_path: Path, change: Callable[[Graph], Graph], plan: LabelSignal
) -> None:
    folder, graph = tmp_path / "store", make_graph()
    first = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=3))
    ENGINE.propagate(graph, first, folder)
    before, changed = written(folder), change(graph)
    plans = Plan(features=FeatureSignal(hops=3), labels=plan)
    store = ENGINE.propagate(changed, plans, folder)
    after = written(folder)
    assert only(after, "features-") == only(before, "features-") != {}
    assert only(after, "crossfit-") != only(before, "crossfit-")
    assert not set(only(before, "crossfit-")) & set(after), "the old folder is gone"
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 3
    fresh = ENGINE.propagate(changed, plans, tmp_path / "fresh")
    rows = changed.nodes.split.train
    for crossfit in (False, True):
        assert np.array_equal(store.gather(rows, crossfit=crossfit).y, fresh.gather(rows, crossfit=crossfit).y)
    assert np.array_equal(store.gather(rows).target, changed.nodes.labels.values[rows])
    assert store.damaged() == []


def test_labels_of_rows_that_do_not_train_are_copied_without_propagating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, graph = tmp_path / "store", make_graph()
    ENGINE.propagate(graph, BOTH, folder)
    values = graph.nodes.labels.values.copy()
    values[45] = (values[45] + 1) % CLASSES
    monkeypatch.setattr("gamlp.propagation.local.hops.hop", lambda *_: pytest.fail("a hop was computed"))
    store = ENGINE.propagate(with_nodes(graph, labels=Labels(values, graph.nodes.labels.classes)), BOTH, folder)
    assert store.gather([45]).target[0] == values[45]
    assert HopStore.open(folder).damaged() == []


def test_labels_are_added_to_a_store_of_features(tmp_path: Path) -> None:
    folder, graph = tmp_path / "store", make_graph()
    ENGINE.propagate(graph, Plan(features=FeatureSignal(hops=3)), folder)
    before = only(written(folder), "features-")
    store = ENGINE.propagate(graph, BOTH, folder)
    assert only(written(folder), "features-") == before
    fresh = ENGINE.propagate(graph, BOTH, tmp_path / "fresh")
    assert np.array_equal(store.gather(np.arange(NODES)).y, fresh.gather(np.arange(NODES)).y)


def new_features(graph: Graph) -> Graph:
    return with_nodes(graph, features=Features(graph.nodes.features.values + 1))


@pytest.mark.parametrize(
    ("change", "plan", "told"),
    [
        (lambda _: make_graph(seed=1), BOTH, "holds hops of another graph ('small')"),
        (new_features, BOTH, "holds other features"),
        (None, Plan(features=FeatureSignal(hops=3, operator=Operator(r=0.25))), "operator.r 0.5 where 0.25 is asked"),
        (None, Plan(features=FeatureSignal(hops=3, operator=Operator(loops=False))), "operator.loops True where False"),
        (None, Plan(features=FeatureSignal(hops=3, dtype="float16")), "dtype float32 where float16 is asked for"),
        (None, Plan(features=FeatureSignal(hops=3, scaling="l2")), "scaling none where l2 is asked for"),
        (None, Plan(features=FeatureSignal(hops=4)), "holds 3 hops of features where 4 are asked for"),
        (None, Plan(features=None, labels=LabelSignal(hops=3)), "holds 2 hops of labels where 3 are asked for"),
        (None, BOTH.model_copy(update={"rows": "split"}), "holds 20 rows of features and lacks some"),
        (None, BOTH, "holds 20 rows of features and lacks some"),
    ],
    ids=["graph", "features", "r", "loops", "dtype", "scaling", "deeper", "deeper labels", "more rows", "all rows"],
)
def test_another_graph_or_plan_is_refused_with_what_differs(
    tmp_path: Path, change: Callable[[Graph], Graph] | None, plan: Plan, told: str
) -> None:
    folder, graph = tmp_path / "store", make_graph()
    ENGINE.propagate(graph, BOTH.model_copy(update={"rows": "train" if "rows" in told else "all"}), folder)
    before = written(folder)
    with pytest.raises(GamlpError) as raised:
        ENGINE.propagate(change(graph) if change else graph, plan, folder)
    assert told in str(raised.value) and str(folder) in str(raised.value) and "\n" not in str(raised.value)
    assert written(folder) == before


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(GamlpError, match=r"letters: is not empty and not a store \(it holds mother.txt\)"):
        ENGINE.propagate(make_graph(), BOTH, tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["mother.txt"]
    with pytest.raises(GamlpError, match="is a file where a folder is to be written"):
        ENGINE.propagate(make_graph(), BOTH, tmp_path / "letters" / "mother.txt")
    with pytest.raises(GamlpError, match=r"not a store \(no store.json\)"):
        HopStore.open(tmp_path / "letters")


def unfinished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = make_graph()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gamlp.propagation.local.hops.hop", stop)
        ENGINE.propagate(graph, BOTH, folder)
    return graph


def test_an_unfinished_store_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unfinished(tmp_path / "store", monkeypatch)
    with pytest.raises(GamlpError, match="unfinished; run the same gamlp propagate again"):
        HopStore.open(tmp_path / "store")
    with pytest.raises(GamlpError, match="unfinished run of another plan for features"):
        ENGINE.propagate(graph, Plan(features=FeatureSignal(hops=5)), tmp_path / "store")
    with pytest.raises(GamlpError, match="another graph"):
        ENGINE.propagate(make_graph(seed=2), BOTH, tmp_path / "store")
    ENGINE.propagate(graph, BOTH, tmp_path / "store")
    names = {path.name.split("-")[0] for path in (tmp_path / "store").iterdir()}
    assert names == {"features", "labels", "store.json", "labels.npy", "split.npy"}


@pytest.mark.parametrize("call", range(4))
def test_a_store_that_was_killed_when_it_began_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """At the first folders that are made and the first file that is put."""
    calls = [0]

    def killed(usual: Any) -> Any:
        def step(*given: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] == call + 1:
                raise KeyboardInterrupt
            return usual(*given, **named)

        return step

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        for name in ("make", "put"):
            patched.setattr(Place, name, killed(getattr(Place, name)))
        ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")
    assert ENGINE.propagate(make_graph(), BOTH, tmp_path / "store").damaged() == []


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with (tmp_path / "store" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GamlpError, match="another run is writing this store"):
            ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")
    ENGINE.propagate(make_graph(), BOTH, tmp_path / "store")


def test_a_plan_without_signals_or_what_it_needs_is_told(tmp_path: Path) -> None:
    bare = Graph.from_arrays([[0], [1]], name="bare")
    for plan, told in [
        (Plan(features=None), "the plan has no signal"),
        (Plan(), "'bare' has no features"),
        (Plan(features=None, labels=LabelSignal()), "'bare' has no labels"),
        (Plan(rows="split"), "'bare' has no split"),
        (Plan(rows="labelled"), "'bare' has no labels"),
        (Plan(rows="most"), "unknown rows 'most'; choose from all, labelled"),
    ]:
        with pytest.raises(GamlpError, match=told):
            ENGINE.propagate(bare, plan, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_store_of_more_shards_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 512)  # two rows a shard
    ENGINE.propagate(make_graph(), BOTH, tmp_path / "s")
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 20, hard))
    try:
        assert len(HopStore.open(tmp_path / "s").gather(np.arange(NODES)).x) == NODES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
