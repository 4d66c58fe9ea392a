"""`GAMLPClassifier`: an estimator of Spark ML, alone with `fit(nodes, edges)` or as a stage of a Pipeline."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError, MissingExtra

try:
    from pyspark import keyword_only
    from pyspark.ml.base import Estimator, Model, _FitMultipleIterator
except ImportError as error:
    raise MissingExtra("pyspark", "spark") from error

from gamlp.io import Place
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.spark.answers import AnswerColumns
from gamlp.spark.fit import Home, SharedGraphs, build, fitted, hops_of
from gamlp.spark.frames import GraphFrames, fit_frames, is_params, known_labels, transform_frames, unpacked_graph
from gamlp.spark.prediction import predictions
from gamlp.spark.saving import SavedParams
from gamlp.spark.summaries import EvaluationSummary, FitSummary
from gamlp.spark.tasks import spark_failure_as_error
from gamlp.spark.watch import FOR_EXECUTORS
from gamlp.spark.work_places import kept_after_exit, work_place
from gamlp.training import Bundle, bytes_of


class GAMLPClassifier(SavedParams, Estimator["GAMLPClassificationModel"]):
    """Trains GAMLP on a DataFrame of nodes and one of edges; all work is done by Spark's tasks.

    A Pipeline, CrossValidator or TrainValidationSplit hands on nodes alone: there edges are a parameter, and `nodes`
    too where the rows that are handed on are only some of the graph's. `explainParams()` tells of all parameters.
    """

    _input_kwargs: dict[str, Any]  # what keyword_only was given

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str = "features",
        labelCol: str = "label",
        idCol: str = "id",
        splitCol: str | None = None,
        srcCol: str = "src",
        dstCol: str = "dst",
        weightCol: str | None = None,
        edges: Any = None,
        nodes: Any = None,
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
        rawPredictionCol: str = "rawPrediction",
        predictedLabelCol: str = "predictedLabel",
        thresholds: list[float] | None = None,
        recipe: str | Path | dict[str, Any] | Recipe | None = None,
        trust: str | None = None,
        directed: bool = False,
        workDir: str | Path | None = None,
        numProcesses: int = 1,
        exchange: str | None = None,
        servers: int | None = None,
        executorWait: float = FOR_EXECUTORS,
        blocks: int | None = None,
        memory: int | str | None = None,
        seed: int = 0,
        featuresDtype: str = "float32",
        onBad: str = "stop",
    ) -> None:
        super().__init__()
        self._set(**self._input_kwargs)

    @keyword_only
    def setParams(self, **params: Any) -> GAMLPClassifier:
        """Set several parameters by name."""
        return self._set(**self._input_kwargs)

    def fit(  # type: ignore[override]
        self, dataset: Any, edges: Any = None, params: Any = None, *, progress: Progress = silent
    ) -> Any:
        """Build the graph in workDir, propagate, train and score; `params` go before the estimator's own.

        dataset: nodes; or an object with `vertices` and `edges`, such as a GraphFrame.
        edges: a DataFrame, or the name of a table. (default: the parameter `edges`)
        params: a map of parameters, or several for as many models; Spark ML gives them second.

        The graph and its hops stay in workDir, for `transform` of the same nodes, until `model.release()`, or until
        this process ends and the model was not saved.
        """
        if is_params(edges):
            edges, params = None, edges
        if isinstance(params, list | tuple):
            shared = SharedGraphs()
            return [self.copy(one)._fitted(dataset, edges, progress, shared) for one in params]
        return (self.copy(params) if params else self)._fitted(dataset, edges, progress)

    def fitMultiple(self, dataset: Any, paramMaps: Any) -> Any:
        """A model for each map of parameters, as CrossValidator asks for them; where recipes alone differ the graph is
        built once.
        """
        shared = SharedGraphs()

        def one(number: int) -> GAMLPClassificationModel:
            return self.copy(paramMaps[number])._fitted(dataset, None, silent, shared)

        return _FitMultipleIterator(one, len(paramMaps))

    def _fit(self, dataset: Any) -> GAMLPClassificationModel:
        return self._fitted(dataset, None, silent)

    def _fitted(
        self, dataset: Any, edges: Any, progress: Progress, shared: SharedGraphs | None = None
    ) -> GAMLPClassificationModel:
        frames = fit_frames(self, dataset, edges)
        spark = frames.nodes.sparkSession
        kind = dict(frames.nodes.dtypes).get(self.getLabelCol(), "string")
        place = work_place(spark, self)
        try:
            with spark_failure_as_error():
                found = fitted(spark, self, frames.nodes, frames.edges, place, progress, shared)
        except BaseException:
            place.remove()
            raise
        model = GAMLPClassificationModel()
        self._copyValues(model)
        valid = found.bundle.valid
        scores = {"valid": valid, "test": found.test}
        model._adopt({"labelType": kind, "scores": scores, "home": asdict(found.home)}, found.bundle)
        model._made, model._nodes = [place], frames.nodes
        return model


class GAMLPClassificationModel(SavedParams, Model):
    """A trained model: `transform(nodes, edges)` adds its prediction and its probabilities to nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._bundle: Bundle | None = None
        self._label_type, self._scores = "string", dict[str, dict[str, float]]()
        self._home: Home | None = None
        self._made: list[Place] = []
        self._nodes: Any = None  # of the fit, with its labels; a model that was loaded has none

    @property
    def bundle(self) -> Bundle:
        """The trained weights with their recipe: what `gamlp predict` reads too."""
        if self._bundle is None:
            raise GamlpError("an empty model", hint="fit one, or load one: GAMLPClassificationModel.load(PATH)")
        return self._bundle

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of classes, in the order of the probabilities."""
        return self.bundle.classes

    @property
    def numClasses(self) -> int:
        return len(self.classes)

    @property
    def numFeatures(self) -> int:
        return self.bundle.shape.features

    @property
    def hasSummary(self) -> bool:
        return self._bundle is not None

    @property
    def summary(self) -> FitSummary:
        """How training went; a model that was loaded knows it too."""
        return FitSummary.of(self.bundle, self._scores)

    def scores(self) -> dict[str, dict[str, float]]:
        """Score, loss and more of the fit's `valid` and `test` rows; empty where there were none."""
        return {part: dict(found) for part, found in self._scores.items()}

    def transform(  # type: ignore[override]
        self, dataset: Any, edges: Any = None, params: dict[Any, Any] | None = None, *, progress: Progress = silent
    ) -> Any:
        """Nodes with predictionCol, a number; probabilityCol and rawPredictionCol, vectors in the order of `classes`;
        and predictedLabelCol, in the label's own type. Arguments as of `fit`.

        Hops of the fit are used again where nodes and edges are the same; those of another graph are propagated here
        and now. Predictions are computed when Spark asks for them, from files in workDir that stay until `release`,
        or until this process ends.
        """
        if is_params(edges):
            edges, params = None, edges
        if params:
            return self.copy(params).transform(dataset, edges, progress=progress)
        return self._answered(transform_frames(self, dataset, edges, self._nodes), progress)

    def _transform(self, dataset: Any) -> Any:
        return self.transform(dataset)

    def evaluate(self, dataset: Any, edges: Any = None, *, progress: Progress = silent) -> EvaluationSummary:
        """Score rows that have a label; labels of the rows that are scored are not read for their predictions.

        Where edges are given, rows whose split is `train` lend their labels and are not scored.
        """
        from pyspark.sql import functions

        rows, edges = unpacked_graph(dataset, edges)
        if edges is None:
            found = scored = self._answered(transform_frames(self, rows, None, self._nodes), progress)
        else:
            frames = transform_frames(self, rows, edges)
            known = known_labels(self, rows)
            scored = found = self._answered(GraphFrames(known, frames.edges, rows), progress)
            if self.getLabelCol() in known.columns:
                split = functions.col("`" + self.getSplitCol().replace("`", "``") + "`")
                scored = found.where(functions.coalesce(functions.lower(split) != "train", functions.lit(True)))
        return EvaluationSummary.of(found, scored, self._columns)

    @property
    def _columns(self) -> AnswerColumns:
        return AnswerColumns(self.bundle, self._label_type, self)

    def _answered(self, frames: GraphFrames, progress: Progress) -> Any:
        self._columns.check_free(frames.rows.columns)
        _ = self._columns.thresholds  # wrong ones are refused before anything is built
        spark = frames.rows.sparkSession
        place = work_place(spark, self)
        try:
            with spark_failure_as_error():
                graph = build(
                    spark, self, frames.nodes, frames.edges, place / "graph", bundle=self.bundle, progress=progress
                )
                store = hops_of(self, self.bundle, self._home, graph, place / "hops", progress)
                found = predictions(spark, self.bundle, store, graph)
        except BaseException:
            place.remove()
            raise
        self._made.append(place)
        return self._columns.added(frames.rows, found, f"gamlp_{uuid.uuid4().hex[:8]}")

    def copy(self, extra: dict[Any, Any] | None = None) -> GAMLPClassificationModel:
        """The same model with other parameters; its files are released with either."""
        made: GAMLPClassificationModel = super().copy(extra)
        return made

    def release(self) -> None:
        """Remove the files of the fit and of all transforms: frames that were not read yet can be read no more."""
        while self._made:
            self._made.pop().remove()

    def _content(self) -> tuple[dict[str, Any], bytes | None]:
        home = None if self._home is None else asdict(self._home)
        if self._home is not None:
            kept_after_exit(Place.of(self._home.place))
        return {"labelType": self._label_type, "scores": self._scores, "home": home}, bytes_of(self.bundle)

    def _adopt(self, content: dict[str, Any], bundle: Bundle | None) -> None:
        self._bundle, self._label_type, self._scores = bundle, content["labelType"], content["scores"]
        self._home = None if content["home"] is None else Home(**content["home"])
