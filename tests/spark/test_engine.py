"""The Spark engine on a real session: the local engine's bytes, on a folder and on an object store."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split
from gamlp.graph.datasets.loading import open_or_load
from gamlp.io import Place
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Operator, Plan
from gamlp.spark.engine import SparkPropagator
from tests.conformance import dense

COUNT, CLASSES = 70, 4


@pytest.fixture(scope="module")
def edges() -> np.ndarray:
    return np.random.default_rng(3).integers(0, COUNT, (2, 260))


@pytest.fixture(scope="module")
def graph(edges: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    rng = np.random.default_rng(5)
    split = Split.of(COUNT, train=np.arange(0, 30), valid=np.arange(30, 40), test=np.arange(40, 60))
    features, labels = rng.normal(size=(COUNT, 11)).astype(np.float32), rng.integers(0, CLASSES, COUNT)
    made = Graph.from_arrays(edges, features, labels, split=split)
    return made.save(tmp_path_factory.mktemp("graph") / "graph")


def bytes_of(store: str | Path | Place) -> dict[str, str]:
    """Every file of a store by name, but its lock."""
    place = HopStore.open(store).place
    names = ["store.json", *(file.url[len(place.url) + 1 :] for file, _ in HopStore.open(store).files())]
    return {name: hashlib.sha256((place / name).read()).hexdigest() for name in names}


@pytest.mark.parametrize(
    "plan",
    [
        Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=4)),
        Plan(features=FeatureSignal(hops=2, dtype="float16"), labels=LabelSignal(hops=3, folds=3), rows="split"),
        Plan(
            features=FeatureSignal(hops=2, scaling="standard", dtype="bfloat16", operator=Operator(r=0.0)), rows="test"
        ),
        Plan(features=FeatureSignal(hops=1, scaling="row", also=(Operator(r=1.0), Operator(r=0.0)))),
        Plan(features=FeatureSignal(hops=0, scaling="l2"), labels=LabelSignal(hops=1), rows="labelled"),
    ],
    ids=["both", "halves, folds", "standard", "operators", "no hops"],
)
def test_the_store_is_the_local_engines(spark: Any, graph: Graph, plan: Plan, tmp_path: Path) -> None:
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    for blocks in (1, 5):
        SparkPropagator(blocks=blocks).propagate(graph, plan, tmp_path / str(blocks))
        assert bytes_of(tmp_path / str(blocks)) == bytes_of(tmp_path / "local")
        assert sorted(path.name for path in (tmp_path / str(blocks)).iterdir()) == sorted(
            path.name for path in (tmp_path / "local").iterdir()
        )


def test_hops_of_a_directed_weighted_graph_are_dense_powers(spark: Any, edges: np.ndarray, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    weights, features = rng.uniform(0.5, 2.0, edges.shape[1]), rng.normal(size=(COUNT, 9)).astype(np.float32)
    graph = Graph.from_arrays(edges, features, weights=weights, directed=True)  # in memory: tasks are given a copy
    store = SparkPropagator(blocks=3).propagate(
        graph, Plan(features=FeatureSignal(hops=3, operator=Operator(r=0.3))), tmp_path
    )
    pairs = [(int(a), int(b)) for a, b in edges.T]
    matrix = dense.adjacency(COUNT, pairs, np.float32(weights).tolist(), directed=True)
    expected = dense.hops(dense.operator(matrix, 0.3, True), features, 3)
    found = store.gather(np.arange(COUNT)).x
    assert found is not None and np.abs(found[:, 0] - expected).max() < 1e-6 * max(1.0, np.abs(expected).max())
    assert not (tmp_path / "work").exists()


def test_a_finished_store_is_left_as_it_is_and_other_plans_are_refused(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    plan = Plan(features=FeatureSignal(hops=2))
    SparkPropagator(blocks=2).propagate(graph, plan, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    SparkPropagator(blocks=4).propagate(graph, plan, tmp_path)
    LocalPropagator().propagate(graph, plan, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")} == before
    with pytest.raises(GamlpError, match="holds 2 hops of features where 3 are asked for"):
        SparkPropagator().propagate(graph, Plan(features=FeatureSignal(hops=3)), tmp_path)


def test_an_interrupted_run_goes_on_after_its_last_whole_hop(
    spark: Any, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gamlp.spark.engine as engine

    plan, run = Plan(features=FeatureSignal(hops=4), labels=LabelSignal(hops=4), rows="split"), engine.run_tasks
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    stages: list[str] = []

    def until_hop_three(spark: Any, work: Any, numbers: Any, stage: str, *rest: Any) -> Any:
        stages.append(stage)
        if stage == "hop 3 of 4":
            run(spark, work, list(numbers)[:2], stage, *rest)  # two blocks of it are done
            raise KeyboardInterrupt
        return run(spark, work, numbers, stage, *rest)

    monkeypatch.setattr(engine, "run_tasks", until_hop_three)
    with pytest.raises(KeyboardInterrupt):
        SparkPropagator(blocks=4).propagate(graph, plan, tmp_path / "spark")
    with pytest.raises(GamlpError, match="the store is unfinished"):
        HopStore.open(tmp_path / "spark")
    again: dict[str, int] = {}

    def noted(spark: Any, work: Any, numbers: Any, stage: str, *rest: Any) -> Any:
        again[stage] = len(numbers)
        return run(spark, work, numbers, stage, *rest)

    monkeypatch.setattr(engine, "run_tasks", noted)
    SparkPropagator(blocks=4).propagate(graph, plan, tmp_path / "spark")
    assert "hop 2 of 4" in stages and "first values" not in again and "hop 2 of 4" not in again
    assert again["neighbours"] == 0 and again["hop 3 of 4"] == 2 and again["hop 4 of 4"] == 4
    assert bytes_of(tmp_path / "spark") == bytes_of(tmp_path / "local")


def test_graph_and_store_may_lie_in_an_object_store(spark: Any, s3_bucket: str, graph: Graph, tmp_path: Path) -> None:
    assert isinstance(graph.folder, Path)
    place = Place.of(s3_bucket) / "graphs" / "small"
    for path in sorted(path for path in graph.folder.rglob("*") if path.is_file()):
        (place / path.relative_to(graph.folder).as_posix()).put_file(path)
    plan = Plan(features=FeatureSignal(hops=2, scaling="standard"), labels=LabelSignal(hops=2, folds=2), rows="split")
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    remote = Graph.open(place)
    assert remote.nodes.features is not None and graph.nodes.features is not None
    assert np.array_equal(np.asarray(remote.nodes.features.values), graph.nodes.features.values)
    store = SparkPropagator(blocks=3).propagate(remote, plan, f"{s3_bucket}/hops")
    local = HopStore.open(tmp_path / "local")
    rows = graph.nodes.split.rows("train", "valid", "test")  # type: ignore[union-attr]
    for copies in (True, False):
        found = HopStore.open(store.place, copies=copies).gather(rows)
        assert np.array_equal(found.x, local.gather(rows).x) and np.array_equal(found.y, local.gather(rows).y)
    ours, theirs = bytes_of(store.place), bytes_of(tmp_path / "local")
    assert {name: value for name, value in ours.items() if name != "store.json"} == {
        name: value for name, value in theirs.items() if name != "store.json"
    }
    assert store.damaged() == [] and "work" not in store.place.names() and "plan.json" not in store.place.names()
    with pytest.raises(GamlpError, match="is a URL, and the local engine writes to a folder"):
        LocalPropagator().propagate(graph, plan, f"{s3_bucket}/other")


def test_too_few_blocks_for_the_memory_are_told_with_the_option(spark: Any, graph: Graph, tmp_path: Path) -> None:
    sentence = r"2 blocks need .* in a task, and it may hold 4.0 KiB; use --blocks \d+ or more, or give tasks more"
    with pytest.raises(GamlpError, match=sentence):
        SparkPropagator(blocks=2, memory=4096).propagate(
            graph, Plan(features=FeatureSignal(hops=2)), tmp_path / "store"
        )
    assert not (tmp_path / "store").exists()


def test_progress_comes_from_sparks_status(spark: Any, graph: Graph, tmp_path: Path) -> None:
    told: list[tuple[str, float, float | None, str]] = []
    SparkPropagator(blocks=3).propagate(
        graph,
        Plan(features=FeatureSignal(hops=2)),
        tmp_path / "store",
        lambda stage, done, total=None, unit="", note="": told.append((stage, done, total, unit)),
    )
    assert ("hop 2 of 2", 3, 3, "blocks") in told and ("all hops", 6, 6, "blocks") in told
    assert all(done <= (total or 0) for _, done, total, _ in told)


def test_cora_is_the_local_engines(spark: Any, data_dir: Path, tmp_path: Path) -> None:
    graph = open_or_load("cora", data_dir)
    plan = Plan(features=FeatureSignal(hops=4, scaling="row"), labels=LabelSignal(hops=3))
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    SparkPropagator(blocks=4).propagate(graph, plan, tmp_path / "spark")
    assert bytes_of(tmp_path / "spark") == bytes_of(tmp_path / "local")
