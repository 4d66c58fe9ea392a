"""Predictions by Spark's tasks: the table of `gamlp predict`, whatever the ids, rows, labels and storage."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, Split
from gamlp.models import Shape
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.propagation.store import store as store_file
from gamlp.recipe import Recipe
from gamlp.run.decision import Decision
from gamlp.run.prediction_table import batch_probabilities, choose_rows, write_predictions
from gamlp.run.resources import Resources
from gamlp.run.source import open_source
from gamlp.run.trained import predict
from gamlp.run.training import train
from gamlp.spark.prediction import asked, predictions, write_spark_predictions
from gamlp.training.bundle import Bundle, make_model
from gamlp.training.rows import plan_of

COUNT, CLASSES = 150, ("x", 'a "b", `c`.d', "ü|y")
RECIPE: dict[str, Any] = {"model": {"hidden": 16, "beta": 0.0}, "propagation": {"hops": 2}, "training": {"epochs": 3}}
IDS = {
    "rows": Ids(COUNT),
    "integers": Ids(COUNT, np.arange(COUNT) * 7 - 300),
    "strings": Ids(COUNT, pa.array([f"né {row}" for row in range(COUNT)])),
}


def graph_of(folder: Path, ids: str = "rows", *, multi_label: bool = False, seed: int = 0) -> Graph:
    """Saved, with rows of every kind: 120 of 150 are labelled."""
    random = np.random.default_rng(seed)
    split = Split.of(COUNT, train=np.arange(50), valid=np.arange(50, 70), test=np.arange(70, 100))
    labels = np.where(np.arange(COUNT) < 120, np.arange(COUNT) % 3, -1)
    if multi_label:
        labels = np.where(np.arange(COUNT)[:, None] < 120, random.integers(0, 2, (COUNT, 3)), -1).astype(np.int8)
    edges = random.integers(0, COUNT, (2, 500))
    graph = Graph.from_arrays(edges, random.normal(size=(COUNT, 5)).astype(np.float32), labels, split=split, name="g")
    return replace(graph, node_types={"node": replace(graph.nodes, ids=IDS[ids])}).save(folder / "graph")


def bundle_of(multi_label: bool = False, **model: Any) -> Bundle:
    """An untrained model, the same each time."""
    torch.manual_seed(0)
    recipe = Recipe.of({**RECIPE, "model": RECIPE["model"] | model})
    shape = Shape(5, 3, 2)
    return Bundle(recipe, shape, CLASSES, multi_label, make_model(recipe, shape).state_dict())


def hops_of(graph: Graph, folder: Path, **propagation: Any) -> HopStore:
    plan = plan_of(Recipe.of({**RECIPE, "propagation": RECIPE["propagation"] | propagation}))
    return LocalPropagator().propagate(graph, plan, folder / "hops")


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks even here: 17 rows each."""
    monkeypatch.setattr(store_file, "RANGE_BYTES", 17 * 3 * 5 * 4)


def same(found: pa.Table, expected: pa.Table) -> None:
    """Equal columns in any order of rows; probabilities within rounding."""
    assert found.column_names == expected.column_names
    found, expected = found.sort_by("id"), expected.sort_by("id")
    assert found.schema.types == expected.schema.types  # of ids too
    for name in found.column_names:
        if name.startswith("p"):
            assert np.allclose(found[name].to_numpy(), expected[name].to_numpy(), rtol=0, atol=1e-6)
        else:
            assert found[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    ("ids", "multi_label", "rows"),
    [
        ("rows", False, "all"),
        ("integers", False, "test"),
        ("strings", False, "unlabelled"),
        ("strings", True, "labelled"),
        ("integers", True, "valid+unlabelled"),
    ],
)
def test_the_table_of_gamlp_predict(spark: Any, tmp_path: Path, ids: str, multi_label: bool, rows: str) -> None:
    graph, bundle = graph_of(tmp_path, ids, multi_label=multi_label), bundle_of(multi_label)
    store = hops_of(graph, tmp_path)
    out = tmp_path / "expected.parquet"
    written = write_predictions(bundle, store, graph.nodes.ids, out, rows=choose_rows(store, rows))
    frame = asked(bundle, store, graph, rows=rows, each_class=True)
    assert (frame.rows, frame.tasks) == (written.rows, 9)
    same(frame.frame(spark, bundle).toArrow(), pyarrow.parquet.read_table(out))
    write_spark_predictions(spark, bundle, store, graph, tmp_path / "parts.parquet", rows=rows)
    same(pyarrow.parquet.read_table(tmp_path / "parts.parquet"), pyarrow.parquet.read_table(out))


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("multi_label", [False, True])
def test_thresholds_and_rows_without_a_label_are_those_of_one_machine(
    spark: Any, tmp_path: Path, multi_label: bool
) -> None:
    graph, bundle = graph_of(tmp_path, "integers"), bundle_of(multi_label)
    if not multi_label:
        shape = Shape(5, 2, 2)
        weights = make_model(bundle.recipe, shape).state_dict()
        bundle = Bundle(bundle.recipe, shape, ("True", "False"), False, weights, class_type="boolean")
    store = hops_of(graph, tmp_path)
    _, probabilities = next(iter(batch_probabilities(bundle, store, range(COUNT), COUNT)))
    likely = int(probabilities.mean(0).argmax())  # an untrained model: its likelier class reaches the threshold
    # Between two rows, whose last bits may differ elsewhere; labels of both kinds, and rows without one, remain.
    threshold = float(np.sort(probabilities[:, likely])[60:62].mean())
    own = np.where(probabilities[:, likely] >= threshold, probabilities[:, likely], probabilities[:, 1 - likely])
    sure = float(np.sort(own)[40:42].mean())
    positive = None if multi_label else bundle.classes[likely]
    decision = Decision(threshold, positive, None if multi_label else sure)
    there, here = tmp_path / "there.parquet", tmp_path / "here.parquet"
    found = write_spark_predictions(spark, bundle, store, graph, there, decision=decision)
    expected = write_predictions(bundle, store, graph.nodes.ids, here, decision=decision)
    same(pyarrow.parquet.read_table(there), pyarrow.parquet.read_table(here))
    assert (found.decided, found.notes) == (expected.decided, expected.notes) and found.notes
    counts = [value for name, value in found.decided.items() if name in ("positives", "abstained", "labels")]
    assert all(0 < count < 3 * COUNT for count in counts)


@pytest.mark.usefixtures("small_ranges")
def test_probabilities_as_a_list_are_those_of_the_model(spark: Any, tmp_path: Path) -> None:
    graph, bundle = graph_of(tmp_path, "integers"), bundle_of()
    frame = predictions(
        spark, bundle.save(tmp_path / "b.safetensors"), hops_of(graph, tmp_path).folder, tmp_path / "graph"
    )
    assert frame.dtypes == [
        ("id", "bigint"), ("label", "string"), ("probability", "float"), ("probabilities", "array<float>")
    ]  # fmt: skip
    # Hops written out plainly: X, ÂX, Â²X with Â = D^(-1/2) (A + I) D^(-1/2).
    adjacency = np.eye(COUNT)
    for row, neighbour, _ in graph.relation.edges():
        adjacency[row, neighbour] = 1
    root = 1 / np.sqrt(adjacency.sum(1))
    operator = root[:, None] * adjacency * root
    x = [graph.nodes.features.read(slice(None)).astype(np.float64)] if graph.nodes.features else []
    for _ in range(2):
        x.append(operator @ x[-1])
    with torch.no_grad():
        logits = bundle.model().double()(torch.from_numpy(np.stack(x, 1)[:, None]), None)
    expected = torch.softmax(logits, 1).numpy()
    found = frame.toArrow().sort_by("id")
    probabilities = np.array(found["probabilities"].to_pylist())
    assert np.abs(probabilities - expected).max() < 1e-5
    assert found["label"].to_pylist() == [CLASSES[best] for best in expected.argmax(1)]
    assert np.array_equal(found["probability"].to_numpy(), probabilities.astype(np.float32).max(1))


def test_no_range_crosses_a_shard_and_none_is_large(tmp_path: Path) -> None:
    store = hops_of(graph_of(tmp_path), tmp_path)
    shards = store.signals["features"].entry.shards
    middle = shards[0].model_copy(update={"start": 0, "stop": 100}), shards[0].model_copy(update={"start": 100})
    store.signals["features"].entry.shards[:] = middle
    bounds = store.ranges(store_file.RANGE_BYTES // 40)
    assert bounds == [(0, 40), (40, 80), (80, 100), (100, 140), (140, 150)]


@pytest.mark.usefixtures("small_ranges")
def test_only_some_rows_were_kept(spark: Any, tmp_path: Path) -> None:
    graph, bundle = graph_of(tmp_path, "strings"), bundle_of()
    store = hops_of(graph, tmp_path, rows="valid+test")
    bundle = replace(bundle, recipe=bundle.recipe.changed({"propagation.rows": "valid+test"}))
    found = predictions(spark, bundle, store, graph, rows="test").toArrow()
    assert sorted(found["id"].to_pylist()) == sorted(f"né {row}" for row in range(70, 100))
    rows, probabilities = next(iter(batch_probabilities(bundle, store, np.arange(70, 100))))
    order = {f"né {row}": index for index, row in enumerate(rows)}
    place = [order[name] for name in found["id"].to_pylist()]
    assert np.allclose(np.array(found["probabilities"].to_pylist()), probabilities[place], atol=1e-6)
    with pytest.raises(GamlpError, match="hops of 50 of 150 nodes were kept"):
        predictions(spark, bundle, store, graph, rows="labelled")


def test_what_is_refused_at_once(spark: Any, tmp_path: Path) -> None:
    graph, bundle = graph_of(tmp_path, "integers"), bundle_of()
    store = hops_of(graph, tmp_path)
    with pytest.raises(GamlpError, match="unknown rows 'tets'"):
        predictions(spark, bundle, store, graph, rows="tets")
    other = graph_of(tmp_path / "other", seed=1)
    with pytest.raises(GamlpError, match="the hops are of another graph"):
        predictions(spark, bundle, store, other)
    inside = replace(graph, folder=None)
    with pytest.raises(GamlpError, match="where no executor sees its ids"):
        predictions(spark, bundle, store, inside)


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.csv.gz"])
def test_written_as_a_folder_of_parts(spark: Any, tmp_path: Path, name: str) -> None:
    multi_label = name == "p.csv"
    graph, bundle = graph_of(tmp_path, "strings", multi_label=multi_label), bundle_of(multi_label)
    store, out = hops_of(graph, tmp_path), tmp_path / "deep" / name
    told: list[tuple[float, float | None]] = []
    written = write_spark_predictions(
        spark, bundle, store, graph, out, progress=lambda stage, done, total=None, *_: told.append((done, total))
    )
    assert (written.path, written.rows, told[-1]) == (out, COUNT, (1, 1))
    here = tmp_path / f"expected.{'parquet' if name == 'p.parquet' else 'csv'}"
    write_predictions(bundle, store, graph.nodes.ids, here)
    if name == "p.parquet":
        same(pyarrow.parquet.read_table(out), pyarrow.parquet.read_table(here))
    else:
        options = {"header": True, "escape": '"', "inferSchema": True, "nullValue": "\0"}
        found, expected = (spark.read.csv(path.as_uri(), **options).toArrow() for path in (out, here))
        same(found, expected)
        assert found["id"][0].as_py().startswith("né")
    with pytest.raises(GamlpError, match="already exists"):
        write_spark_predictions(spark, bundle, store, graph, out)


def test_a_broken_write_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    graph, bundle = graph_of(tmp_path), bundle_of()
    store = hops_of(graph, tmp_path)
    entry = store.signals["features"].entry
    shard = tmp_path / "hops" / entry.folder / entry.shards[0].name
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(GamlpError) as raised:
        write_spark_predictions(spark, bundle, store, graph, tmp_path / "p.parquet")
    assert str(shard) in str(raised.value) and "Traceback" not in str(raised.value)
    assert not (tmp_path / "p.parquet").exists()


def test_a_run_and_another_graph(spark: Any, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "strings")
    run = tmp_path / "run"
    source = open_source(str(graph.folder))
    train(source, Recipe.of(RECIPE), run)
    resources = Resources(engine="spark", settings={"blocks": 2})
    other = graph_of(tmp_path / "other", "integers", seed=1)
    for given in (None, other):
        for each_class in (True, False):
            here, there = tmp_path / f"here-{each_class}.parquet", tmp_path / f"{given is None}-{each_class}.parquet"
            predict(run, here, graph=given, rows="test", each_class=each_class)
            predict(run, there, graph=given, rows="test", each_class=each_class, resources=resources)
            same(pyarrow.parquet.read_table(there), pyarrow.parquet.read_table(here))
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".hops")]


def test_a_model_of_ones_own_is_sent_along(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    module = tmp_path / "code" / "my_prediction_model.py"
    text = "from torch import nn\nclass Net(nn.Module):\n" \
           "    def __init__(self, shape):\n        super().__init__()\n" \
           "        self.last = nn.Linear(shape.features, shape.classes)\n" \
           "    def forward(self, x, y):\n        return self.last(x[:, 0, HOP])\n"  # fmt: skip
    graph = graph_of(tmp_path)
    store = hops_of(graph, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    for hop in (1, 2):  # changed in between: a worker that knows the old one reads the new one
        module.write_text(text.replace("HOP", str(hop)))
        sys.modules.pop("my_prediction_model", None)
        torch.manual_seed(0)
        name = "my_prediction_model:Net"
        recipe = Recipe.of({"model": {"name": name, "beta": 0.0}, "propagation": {"hops": 2}}, trust=name)
        bundle = Bundle(recipe, Shape(5, 3, 2), CLASSES, False, make_model(recipe, Shape(5, 3, 2)).state_dict())
        path = bundle.save(tmp_path / f"{hop}.safetensors")
        with pytest.raises(GamlpError, match="only when you name it"):
            predictions(spark, path, store, graph)
        found = predictions(spark, path, store, graph, trust=name).toArrow().sort_by("id")
        _, expected = next(iter(batch_probabilities(bundle, store, range(COUNT), COUNT)))
        assert np.allclose(np.array(found["probabilities"].to_pylist()), expected, atol=1e-6)


@pytest.mark.usefixtures("small_ranges")
def test_store_and_ids_behind_a_url(spark: Any, tmp_path: Path, s3_bucket: str) -> None:
    from gamlp.io import Place

    bundle = bundle_of()
    for ids in ("strings", "integers"):
        graph = graph_of(tmp_path / ids, ids)
        store = hops_of(graph, tmp_path / ids)
        place = Place.of(s3_bucket) / ids
        for path in sorted((tmp_path / ids).rglob("*")):
            if path.is_file():
                (place / path.relative_to(tmp_path / ids).as_posix()).put_file(path)
        found = predictions(spark, bundle, place / "hops", place / "graph", rows="unlabelled").toArrow()
        expected = predictions(spark, bundle, store, graph, rows="unlabelled").toArrow()
        assert len(found) == 30 and found.equals(expected)


def test_a_session_of_another_thread_is_not_ended(spark: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from gamlp.spark.sessions import session

    def apart() -> int:
        with session() as found:
            return int(found.range(3).count())

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(apart).result() == 3
    assert spark.range(4).count() == 4
