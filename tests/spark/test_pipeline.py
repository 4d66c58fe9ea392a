"""The estimator among Spark ML's own: pipelines, cross-validation, evaluators, thresholds, summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from tests.spark.test_estimator import RECIPE, planted, rows_of

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")

from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator  # noqa: E402
from pyspark.ml.feature import StringIndexer  # noqa: E402
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit  # noqa: E402

from gamlp.spark import GAMLPClassifier  # noqa: E402
from gamlp.spark import fit as spark_fit  # noqa: E402
from gamlp.spark.ingest import spark_graph  # noqa: E402

QUICK = {**RECIPE, "training": {"epochs": 8, "patience": 0, "seeds": [3]}}


def estimator(tmp_path: Path, **params: Any) -> GAMLPClassifier:
    return GAMLPClassifier(recipe=QUICK, workDir=tmp_path / "work", blocks=1, **params)


@pytest.fixture(scope="module")
def tables(spark: Any) -> tuple[Any, Any]:
    """Every node has a label, as text."""
    nodes, edges = planted(150).frames(spark, 1)
    nodes = nodes.selectExpr("id", "features", "concat('class ', truth) as subject", "split").cache()
    return nodes, edges.cache()


@pytest.fixture(scope="module")
def fitted(tables: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    nodes, edges = tables
    stages = [StringIndexer(inputCol="subject", outputCol="label", stringOrderType="alphabetAsc")]
    own = estimator(tmp_path_factory.mktemp("pipeline"), edges=edges)
    return Pipeline(stages=[*stages, own]).fit(nodes), nodes, edges


def test_a_pipeline_takes_it_and_evaluators_take_its_columns(fitted: Any, tmp_path: Path) -> None:
    model, nodes, _ = fitted
    frame = model.transform(nodes).cache()
    rows = rows_of(frame)
    right = float(np.mean([row["prediction"] == row["label"] for row in rows]))
    assert (
        MulticlassClassificationEvaluator(metricName="accuracy").evaluate(frame) == pytest.approx(right) and right > 0.8
    )
    chances = np.stack([row["probability"].toArray() for row in rows])
    labels = np.array([int(row["label"]) for row in rows])
    loss = -np.log(chances[np.arange(len(rows)), labels]).mean()
    assert MulticlassClassificationEvaluator(metricName="logLoss").evaluate(frame) == pytest.approx(loss, rel=1e-4)
    assert np.allclose(np.exp([row["rawPrediction"].toArray() for row in rows]), chances, atol=1e-6)
    assert [int(row["prediction"]) for row in rows] == chances.argmax(1).tolist()
    ones = frame.selectExpr("rawPrediction", "double(label > 0) as label").where("label is not null")
    assert 0 <= BinaryClassificationEvaluator().evaluate(ones) <= 1


def test_a_pipeline_is_saved_and_loaded_and_told_its_edges_again(fitted: Any, tmp_path: Path) -> None:
    model, nodes, edges = fitted
    model.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline"))
    with pytest.raises(GamlpError, match="there are no edges; give them with the nodes, or as a parameter: setEdges"):
        again.transform(nodes)
    again.stages[-1].setEdges(edges)
    found, expected = (rows_of(one.transform(nodes)) for one in (again, model))
    assert [row["prediction"] for row in found] == [row["prediction"] for row in expected]


def test_thresholds_choose_as_sparks_own_do(fitted: Any) -> None:
    model, nodes, _ = fitted
    own = model.stages[-1]
    limits = [0.9, 0.0, 0.1]
    labelled = model.stages[0].transform(nodes)
    rows = rows_of(own.transform(labelled, {own.thresholds: [0.9, 0.3, 0.1]}))
    chances = np.stack([row["probability"].toArray() for row in rows])
    assert [int(row["prediction"]) for row in rows] == (chances / np.array([0.9, 0.3, 0.1])).argmax(1).tolist()
    assert {row["prediction"] for row in rows_of(own.transform(labelled, {own.thresholds: limits}))} == {1.0}
    with pytest.raises(GamlpError, match="there are 2 thresholds for 3 classes"):
        own.transform(labelled, {own.thresholds: [0.5, 0.5]})
    with pytest.raises(GamlpError, match="thresholds are numbers above zero; at most one of them may be 0"):
        own.transform(labelled, {own.thresholds: [0.0, 0.0, 1.0]})


def test_summary_and_evaluate(fitted: Any) -> None:
    model, nodes, edges = fitted
    own = model.stages[-1]
    assert own.hasSummary and own.summary.test == own.scores()["test"] and own.summary.epochs == 8
    labelled = model.stages[0].transform(nodes)
    said = own.evaluate(labelled)
    rows = rows_of(said.predictions)
    right = [row["prediction"] == row["label"] for row in rows]
    assert said.accuracy == pytest.approx(np.mean(right)) and said.rows == len(rows)
    assert repr(said).startswith(f"EvaluationSummary(rows={len(rows)}, accuracy={said.accuracy:.4f}, ")
    with pytest.raises(GamlpError, match="is not in the node table; give all nodes; or name them with setNodes"):
        own.transform(nodes.limit(1), edges)
    frame = said.predictions
    for metric, value in (("weightedRecall", said.weightedRecall), ("f1", said.weightedFMeasure())):
        assert MulticlassClassificationEvaluator(metricName=metric).evaluate(frame) == pytest.approx(value)
    apart = own.evaluate(labelled, edges)  # training rows lend their labels, and are not scored
    assert apart.rows == sum(row["split"] != "train" for row in rows)
    with pytest.raises(GamlpError, match="no column 'label'; evaluate compares predictions with it"):
        own.evaluate(nodes)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:unclosed running multiprocessing pool")  # Spark's own
def test_cross_validation_trains_on_folds_of_a_whole_graph(tables: Any, tmp_path: Path) -> None:
    nodes, edges = tables
    rows = nodes.selectExpr("id", "int(substring(subject, 7)) as label")
    own = estimator(tmp_path, edges=edges, nodes=nodes.select("id", "features"))
    grid = ParamGridBuilder().addGrid(own.recipe, [QUICK, {**QUICK, "training": {"epochs": 1, "seeds": [3]}}]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="accuracy")
    validation = CrossValidator(estimator=own, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=1)
    found = validation.fit(rows)
    assert len(found.avgMetrics) == 2 and found.avgMetrics[0] > 0.7 and found.avgMetrics[0] > found.avgMetrics[1]
    assert found.bestModel.getRecipe()["training"]["epochs"] == 8
    assert evaluator.evaluate(found.transform(rows)) > 0.8


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:unclosed running multiprocessing pool")
def test_a_train_validation_split_leaves_out_edges_to_nodes_that_were_not_given(tables: Any, tmp_path: Path) -> None:
    """Validation rows are new nodes, and meet those of the fit when they are predicted."""
    nodes, edges = tables
    rows = nodes.selectExpr("id", "features", "int(substring(subject, 7)) as label")
    own = estimator(tmp_path, edges=edges)
    split = TrainValidationSplit(
        estimator=own, estimatorParamMaps=[{own.seed: 1}], trainRatio=0.7, seed=2,
        evaluator=MulticlassClassificationEvaluator(metricName="accuracy"),
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"[\d,]+ of 900 edges lead to nodes that were not given, and are left out"):
        found = split.fit(rows)
    assert found.validationMetrics[0] > 0.5  # by chance a third


def test_several_maps_of_parameters_are_several_models_of_one_graph(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, edges = tables
    built: list[Any] = []
    monkeypatch.setattr(
        spark_fit, "spark_graph", lambda *given, **more: built.append(given) or spark_graph(*given, **more)
    )
    own = estimator(tmp_path, labelCol="subject")
    short = {**QUICK, "training": {"epochs": 1, "seeds": [0]}}
    found = own.fit(nodes, edges, [{own.recipe: short}, {own.recipe: short, own.predictionCol: "number"}])
    assert [model.getPredictionCol() for model in found] == ["prediction", "number"]
    assert len(built) == 1
    for model in found:
        model.release()
    assert len(list((tmp_path / "work").iterdir())) == 1  # the graph of both, until this process ends
