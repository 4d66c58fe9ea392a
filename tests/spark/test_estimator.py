"""The estimator in Spark ML's manner: the numbers of the local path, predictions in the label's own type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.graph.ingest.nodes import NodeNames
from gamlp.recipe import Recipe
from gamlp.run.evaluation import evaluate
from gamlp.run.prediction_table import write_predictions
from gamlp.run.source import open_source
from gamlp.run.training import train

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")

from gamlp.spark import GAMLPClassificationModel, GAMLPClassifier  # noqa: E402
from gamlp.spark.fit import recipe_of  # noqa: E402

RECIPE: dict[str, Any] = {
    "propagation": {"hops": 2, "label_hops": 2},
    "model": {"hidden": 16, "layers": 2, "dropout": 0.0},
    "training": {"epochs": 25, "patience": 0, "seeds": [3]},
}


@dataclass(frozen=True)
class Tables:
    nodes: pa.Table
    edges: pa.Table

    def frames(self, spark: Any, parts: int = 2) -> tuple[Any, Any]:
        """In several partitions, rows in disorder."""
        mixed = (table.take(np.random.default_rng(1).permutation(len(table))) for table in (self.nodes, self.edges))
        nodes, edges = (spark.createDataFrame(table).repartition(parts) for table in mixed)
        return nodes, edges


def planted(count: int = 300, seed: int = 0, ids: Any = None, noise: float = 1.5) -> Tables:
    """Three communities: most edges inside one, features = centre of the class + noise; a fifth has no label."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, count)
    centres = np.eye(3, 6) * 2
    features = (centres[labels] + noise * random.normal(size=(count, 6))).astype(np.float32)
    src = random.integers(0, count, 6 * count)
    alike = [np.flatnonzero(labels == label) for label in range(3)]
    dst = np.array(
        [random.choice(alike[labels[one]]) if random.random() < 0.8 else random.integers(count) for one in src]
    )
    names = np.arange(count) * 3 + 5 if ids is None else np.array([ids(row) for row in range(count)])
    known = random.random(count) < 0.8
    nodes = {
        "id": pa.array(names),
        "features": pa.array(list(features), pa.list_(pa.float32())),
        "label": pa.array(labels * 10, pa.int32(), mask=~known),
        "split": pa.array(random.choice(["train", "valid", "test"], count, p=[0.4, 0.2, 0.4]), mask=~known),
        "truth": pa.array(labels * 10, pa.int32()),
    }
    return Tables(pa.table(nodes), pa.table({"src": names[src], "dst": names[dst]}))


def classifier(tmp_path: Path, **params: Any) -> GAMLPClassifier:
    return GAMLPClassifier(recipe=RECIPE, workDir=tmp_path / "work", **params)


@pytest.fixture(scope="module")
def fitted(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[GAMLPClassificationModel, Any, Any]:
    """A model with its tables, for the tests that change none of them."""
    nodes, edges = planted().frames(spark)
    return classifier(tmp_path_factory.mktemp("fit")).fit(nodes, edges), nodes, edges


def local(tables: Tables, folder: Path, names: NodeNames, recipe: Any = RECIPE) -> tuple[pa.Table, dict[str, Any]]:
    """Predictions and test scores of the same tables without Spark."""
    folder.mkdir()
    for name, table in (("nodes", tables.nodes), ("edges", tables.edges)):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    graph = folder / "graph"
    how = IngestOptions(node_names=names, columns={"*": "as-is"})
    ingest(folder / "edges.parquet", folder / "nodes.parquet", graph, how)
    run = train(open_source(str(graph)), Recipe.of(recipe), folder / "run")
    scores = evaluate(run.run)
    bundle, opened = next(iter(run.bundles.values())), Graph.open(graph)
    from gamlp.propagation import HopStore

    written = write_predictions(bundle, HopStore.open(run.run.store_path()), opened.nodes.ids, folder / "p.parquet")
    return pyarrow.parquet.read_table(written.path), scores


def rows_of(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: row["id"])


@pytest.fixture(scope="module")
def results(fitted: Any) -> list[Any]:
    """What the model says of the nodes it was trained on, ordered by id."""
    model, nodes, edges = fitted
    frame = model.transform(nodes, edges)
    assert frame.columns == [*nodes.columns, "prediction", "probability", "rawPrediction", "predictedLabel"]
    kinds = dict(frame.dtypes)
    assert [kinds[name] for name in frame.columns[-4:]] == ["double", "vector", "vector", "int"]
    return rows_of(frame)


def test_the_numbers_of_the_local_path(fitted: Any, results: list[Any], tmp_path: Path) -> None:
    model, _, _ = fitted
    expected, scores = local(planted(), tmp_path / "local", NodeNames(features="features", label="label"))
    found = results
    assert [row["id"] for row in found] == expected["id"].to_pylist()
    assert [row["predictedLabel"] for row in found] == expected["label"].to_pylist()
    assert [row["prediction"] for row in found] == expected["label"].to_pylist()  # integers are their own number
    probabilities = np.stack([expected[f"p_{name}"].to_numpy() for name in model.classes], 1)
    assert np.abs(np.stack([row["probability"].toArray() for row in found]) - probabilities).max() < 1e-4
    assert model.classes == ("0", "10", "20") and (model.numClasses, model.numFeatures) == (3, 6)
    assert model.scores()["test"]["score"] == pytest.approx(scores["mean"]["score"], abs=1e-6)
    assert model.scores()["valid"]["score"] == pytest.approx(model.bundle.report["valid"]["score"])
    # By hand: the share of test rows whose prediction is the label.
    test = [row["prediction"] == row["label"] for row in found if row["split"] == "test" and row["label"] is not None]
    assert model.scores()["test"]["score"] == pytest.approx(np.mean(test)) and np.mean(test) > 0.8


def test_hops_are_propagated_only_for_a_new_graph(spark: Any, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gamlp.spark import fit as spark_fit

    model, nodes, edges = fitted
    propagated: list[str] = []
    hops_for = spark_fit.hops_for

    def noted(bundle: Any, graph: Graph, *others: Any) -> Any:
        propagated.append(graph.name)
        return hops_for(bundle, graph, *others)

    monkeypatch.setattr(spark_fit, "hops_for", noted)
    model.transform(nodes.drop("label", "split").repartition(3), edges)  # the labels of the fit are known
    assert propagated == []
    tables = planted(200, seed=7, ids=lambda row: f"node {row}")
    again = model.copy({model.predictionCol: "guess", model.probabilityCol: "chance"})
    found = rows_of(again.transform(*tables.frames(spark)))
    assert propagated == ["nodes"] and model.getPredictionCol() == "prediction"
    assert [row["id"] for row in found] == sorted(tables.nodes["id"].to_pylist())
    assert np.mean([row["guess"] == row["truth"] for row in found]) > 0.8
    assert np.allclose([row["chance"].toArray().sum() for row in found], 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.long
def test_columns_are_matched_by_name(spark: Any, tmp_path: Path) -> None:
    tables = planted(120)
    columns = {f"x{at}": pa.array([row[at] for row in tables.nodes["features"].to_pylist()]) for at in range(6)}
    more = {name: tables.nodes[name] for name in ("id", "label", "split")}
    nodes, edges = Tables(pa.table({**more, **columns}), tables.edges).frames(spark)
    model = classifier(tmp_path, featuresCol=",".join(columns), splitCol="split").fit(nodes, edges)
    assert [column.name for column in model.bundle.columns["node"]] == list(columns)
    turned = model.copy({model.featuresCol: ",".join(reversed(columns))})
    found, expected = (
        [row["probability"].toArray().tolist() for row in rows_of(one.transform(nodes, edges))]
        for one in (turned, model)
    )
    assert found == expected
    with pytest.raises(GamlpError, match="graph 'nodes' lacks column 'x5' that the model was trained on"):
        model.copy({model.featuresCol: "x0,x1,x2,x3,x4"}).transform(nodes, edges)
    model.release()


@pytest.mark.long
def test_vectors_odd_names_many_labels_and_a_random_split(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions

    nodes, edges = planted(240, ids=lambda row: f"ü{row:03}").frames(spark)
    kinds = functions.array(functions.col("label").cast("string"), functions.lit("every one"))
    nodes = nodes.select(
        functions.col("id").alias("name of node"),
        array_to_vector(functions.col("features").cast("array<double>")).alias("x.y"),
        functions.when(functions.col("label").isNotNull(), kinds).alias("kinds"),
    )
    edges = edges.withColumnsRenamed({"src": "from", "dst": "to"}).withColumn("w", functions.lit(0.5))
    estimator = classifier(tmp_path, idCol="name of node", featuresCol="x.y", labelCol="kinds", seed=4)
    estimator.setSrcCol("from").setDstCol("to").setWeightCol("w").setBlocks(3).setMemory("1GiB")
    model = estimator.fit(nodes, edges)
    assert model.classes == ("0", "10", "20", "every one")
    graph = Graph.open(next((tmp_path / "work").iterdir()) / "graph")
    labels, split = graph.nodes.labels, graph.nodes.split
    assert graph.relation.weighted and len(graph.relation.blocks) == 3 and labels is not None and split is not None
    assert 0.5 < len(split.train) / labels.known().sum() < 0.7
    frame = model.transform(nodes, edges)
    kinds_of = dict(frame.dtypes)
    assert kinds_of["predictedLabel"] == "array<string>" and kinds_of["prediction"] == "array<double>"
    for row in frame.collect():
        probabilities = row["probability"].toArray()
        assert row["prediction"] == np.flatnonzero(probabilities > 0.5).tolist()
        assert row["predictedLabel"] == [model.classes[int(number)] for number in row["prediction"]]
        assert np.allclose(1 / (1 + np.exp(-row["rawPrediction"].toArray())), probabilities, atol=1e-6)
        assert "every one" in row["predictedLabel"]  # as every node that is labelled has it
    model.release()
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.long
def test_two_processes(fitted: Any, tmp_path: Path) -> None:
    one, nodes, edges = fitted
    two = classifier(tmp_path, numProcesses=2).fit(nodes, edges)
    for name, value in one.bundle.weights.items():
        assert np.allclose(value, two.bundle.weights[name], atol=1e-4), name
    assert two.scores()["test"]["score"] == pytest.approx(one.scores()["test"]["score"], abs=0.02)


@pytest.mark.long
def test_two_processes_with_a_parameter_server(fitted: Any, tmp_path: Path) -> None:
    one, nodes, edges = fitted
    two = classifier(tmp_path, numProcesses=2, exchange="server").fit(nodes, edges)
    assert two.bundle.recipe.training.exchange == "server"
    assert two.scores()["test"]["score"] == pytest.approx(one.scores()["test"]["score"], abs=0.05)
    two.release()


def test_saved_and_loaded(spark: Any, fitted: Any, results: list[Any], tmp_path: Path) -> None:
    model, nodes, edges = fitted
    model.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["bundle.safetensors", "metadata"]
    assert json.loads(spark.read.text(str(tmp_path / "model/metadata")).first()[0])["labelType"] == "int"
    again = GAMLPClassificationModel.load(tmp_path / "model")
    assert again.uid == model.uid and again.scores() == model.scores() and again.classes == model.classes
    assert again.extractParamMap() == model.extractParamMap()
    again._home = None  # as where the fit's folder is gone: hops are propagated
    again.setWorkDir(tmp_path / "work")
    for row, before in zip(rows_of(again.transform(nodes, edges)), results, strict=True):
        assert (row["id"], row["prediction"]) == (before["id"], before["prediction"])
        assert np.allclose(row["probability"].toArray(), before["probability"].toArray(), atol=1e-6)
    with pytest.raises(GamlpError, match="already exists"):
        model.save(tmp_path / "model")
    model.write().overwrite().save(str(tmp_path / "model"))
    with pytest.raises(GamlpError, match="holds a GAMLPClassificationModel, no GAMLPClassifier"):
        GAMLPClassifier.load(tmp_path / "model")
    with pytest.raises(GamlpError, match="holds no saved GAMLPClassifier"):
        GAMLPClassifier.load(tmp_path / "nothing")
    (tmp_path / "model/bundle.safetensors").write_bytes(b"not weights")
    with pytest.raises(GamlpError, match="is no gamlp bundle"):
        GAMLPClassificationModel.load(tmp_path / "model")


def test_an_estimator_is_its_parameters(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("model: {hidden: 7}\n")
    estimator = GAMLPClassifier(recipe=tmp_path / "own.yaml", labelCol="kind", memory="2GiB", numProcesses=2)
    (tmp_path / "own.yaml").unlink()  # a saved estimator needs it no more
    estimator.save(tmp_path / "estimator")
    again = GAMLPClassifier.load(tmp_path / "estimator")
    assert again.extractParamMap() == estimator.extractParamMap() and again.uid == estimator.uid
    assert again.getRecipe() == {"model": {"hidden": 7}} and again.getMemory() == 2 << 30
    assert (again.getLabelCol(), again.getNumProcesses(), again.getBlocks(), again.getSeed()) == ("kind", 2, None, 0)
    assert GAMLPClassifier(recipe="cora-jk").getRecipe() == "cora-jk"
    for param in estimator.params:
        assert param.name in estimator.explainParams() and param.doc
        getter = f"get{param.name[0].upper()}{param.name[1:]}"
        assert callable(getattr(estimator, getter)) and callable(getattr(estimator, getter.replace("get", "set", 1)))


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"featuresCol": "feature"}, "no column 'feature'"),
        ({"labelCol": "labels"}, "no column 'labels'"),
        ({"splitCol": "part"}, "no column 'part'"),
        ({"idCol": "key"}, "no column 'key'"),
        ({"srcCol": "source"}, "no column 'source'"),
        ({"weightCol": "weight"}, "no column 'weight'"),
    ],
)
def test_a_column_that_is_not_there(fitted: Any, tmp_path: Path, params: dict[str, str], sentence: str) -> None:
    _, nodes, edges = fitted
    with pytest.raises(GamlpError, match=sentence) as raised:
        classifier(tmp_path, **params).fit(nodes, edges)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.glob("work/*"))


def test_what_is_refused(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, nodes, edges = fitted
    with pytest.raises(GamlpError, match="there is no recipe 'cora-jj'"):
        GAMLPClassifier(recipe="cora-jj")
    with pytest.raises(GamlpError, match="0 are too few"):
        GAMLPClassifier(numProcesses=0)
    with pytest.raises(GamlpError, match="'gossip' is none of all-reduce, server"):
        GAMLPClassifier(exchange="gossip")
    with pytest.raises(GamlpError, match="'float8' is none of"):
        GAMLPClassifier(featuresDtype="float8")
    with pytest.raises(GamlpError, match="nodes have a column 'prediction' already"):
        model.transform(nodes.withColumnRenamed("truth", "prediction"), edges)
    with pytest.raises(GamlpError, match="an empty model"):
        _ = GAMLPClassificationModel().bundle
    monkeypatch.setattr("gamlp.spark.work_places.is_here", lambda master: False)
    with pytest.raises(GamlpError, match="need a folder that driver and executors see"):
        GAMLPClassifier(recipe=RECIPE).fit(nodes, edges)


@pytest.mark.long
def test_work_behind_a_url(fitted: Any, results: list[Any], s3_bucket: str) -> None:
    _, nodes, edges = fitted
    model = GAMLPClassifier(recipe=RECIPE, workDir=f"{s3_bucket}/work").fit(nodes, edges)
    found = rows_of(model.transform(nodes, edges))
    assert [row["prediction"] for row in found] == [row["prediction"] for row in results]
    model.save(f"{s3_bucket}/model")
    assert GAMLPClassificationModel.load(f"{s3_bucket}/model").bundle.classes == model.classes


@pytest.mark.long
def test_cora_as_tables(spark: Any, data_dir: Path, tmp_path: Path) -> None:
    from gamlp.graph import ROLES
    from gamlp.graph.datasets.loading import open_or_load

    graph = open_or_load("cora", data_dir)
    labels, split, features = graph.nodes.labels, graph.nodes.split, graph.nodes.features
    assert labels is not None and split is not None and features is not None
    parts = [(row, neighbour) for row, neighbour, _ in graph.relation.edges()]
    rows, neighbours = (np.concatenate(column) for column in zip(*parts, strict=True))
    tables = Tables(
        pa.table({
            "id": np.arange(graph.nodes.count),
            "features": pa.array(list(features.read(slice(None))), pa.list_(pa.float32())),
            "label": pa.array([labels.classes[value] if value >= 0 else None for value in labels.values]),
            "split": pa.array([ROLES[role] for role in split.roles]),
        }),
        pa.table({"src": neighbours, "dst": rows}),
    )  # fmt: skip
    nodes, edges = tables.frames(spark)
    recipe = Recipe.of("cora-jk").changed({"training.epochs": 30, "training.seeds": [0]})
    model = GAMLPClassifier(recipe=recipe, workDir=tmp_path / "work").fit(nodes, edges)
    _, scores = local(tables, tmp_path / "local", NodeNames(features="features"), recipe)
    assert abs(model.scores()["test"]["score"] - scores["mean"]["score"]) < 0.01
    assert model.scores()["test"]["score"] > 0.7


def test_what_a_saved_folder_names_is_used_only_where_it_is_trusted(tmp_path: Path) -> None:
    """Its code, and a URL of another store; trust itself is never taken from a file."""
    own, url = "pydoc:pipepager", "s3://elsewhere/work"
    GAMLPClassifier(recipe={"model": {"name": own}}, trust=own, workDir=url).save(tmp_path / "saved")
    with pytest.raises(GamlpError, match=f"its files are at '{url}', which is asked only when you name it"):
        GAMLPClassifier.load(tmp_path / "saved")
    loaded = GAMLPClassifier.load(tmp_path / "saved", trust=url)
    assert loaded.getWorkDir() == url and loaded.getTrust() == url
    with pytest.raises(GamlpError, match=r"'model\.name' is code, 'pydoc:pipepager', and runs only when you name it"):
        recipe_of(loaded)
    assert recipe_of(loaded.setTrust(own)).model.name == own
