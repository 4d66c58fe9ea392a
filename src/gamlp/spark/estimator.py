"""`GAMLPClassifier().fit(nodes, edges).transform(nodes, edges)`, in Spark ML's manner."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gamlp.errors import GamlpError, MissingExtra

try:
    from pyspark import __version__ as pyspark_version
    from pyspark import keyword_only
    from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter
except ImportError as error:
    raise MissingExtra("pyspark", "spark") from error

from gamlp.io import Place, Trust, check_trusted, is_url
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.spark.fit import Home, build, fitted, hops_of, work_place
from gamlp.spark.params import GAMLPParams
from gamlp.spark.prediction import bytes_of, loaded, predictions
from gamlp.spark.tasks import spark_failure_as_error
from gamlp.training import Bundle

_METADATA, _BUNDLE = "metadata/part-00000", "bundle.safetensors"


class _Saved(GAMLPParams):
    """Saved as a folder or under a fsspec URL: parameters as Spark ML's JSON and, of a model, its bundle; no code."""

    def save(self, path: str | Path) -> None:
        """Write to a new folder; `write().overwrite().save(path)` replaces one."""
        self.write().save(str(path))

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        return _Reader(cls)

    @classmethod
    def load(cls, path: str | Path, trust: Trust = None) -> Any:
        """What `save` wrote. A model of your own code is built, and a URL of another store asked, only where `trust`
        names it.
        """
        return _Reader(cls, trust).load(str(path))

    def _content(self) -> tuple[dict[str, Any], bytes | None]:
        """What metadata says beside the parameters, and the bundle."""
        return {}, None

    def _adopt(self, content: dict[str, Any], bundle: Bundle | None) -> None:
        """Take in what `_content` gave."""


class GAMLPClassifier(_Saved):
    """Trains GAMLP on a DataFrame of nodes and one of edges; all work is done by Spark's tasks.

    It has parameters, `fit`, `copy` and `save` as Spark ML's estimators do, but no place in a Pipeline, whose stages
    see one DataFrame. `explainParams()` tells of all parameters.
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
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
        recipe: str | Path | dict[str, Any] | Recipe | None = None,
        trust: str | None = None,
        directed: bool = False,
        workDir: str | Path | None = None,
        numProcesses: int = 1,
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

    def fit(
        self, nodes: Any, edges: Any, params: dict[Any, Any] | None = None, *, progress: Progress = silent
    ) -> GAMLPClassificationModel:
        """Build the graph in workDir, propagate, train and score; `params` go before the estimator's own.

        The graph and its hops stay in workDir, for `transform` of the same nodes; `model.release()` removes them.
        """
        if params:
            return self.copy(params).fit(nodes, edges, progress=progress)
        spark = nodes.sparkSession
        kind = dict(nodes.dtypes).get(self.getLabelCol(), "string")
        place = work_place(spark, self)
        try:
            with spark_failure_as_error():
                found = fitted(spark, self, nodes, edges, place, progress)
        except BaseException:
            place.remove()
            raise
        model = GAMLPClassificationModel()
        self._copyValues(model)
        valid = found.bundle.valid
        scores = {"valid": valid, "test": found.test}
        model._adopt({"labelType": kind, "scores": scores, "home": asdict(found.home)}, found.bundle)
        model._made = [place]
        return model


class GAMLPClassificationModel(_Saved):
    """A trained model: `transform(nodes, edges)` adds its prediction and its probabilities to nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._bundle: Bundle | None = None
        self._label_type, self._scores = "string", dict[str, dict[str, float]]()
        self._home: Home | None = None
        self._made: list[Place] = []

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

    def scores(self) -> dict[str, dict[str, float]]:
        """Score, loss and more of the fit's `valid` and `test` rows; empty where there were none."""
        return {part: dict(found) for part, found in self._scores.items()}

    def transform(
        self, nodes: Any, edges: Any, params: dict[Any, Any] | None = None, *, progress: Progress = silent
    ) -> Any:
        """`nodes` with predictionCol, in the label's own type, and probabilityCol, a vector in the order of `classes`.

        Hops of the fit are used again where nodes and edges are the same; those of another graph are propagated here
        and now. Predictions are computed when Spark asks for them, from files in workDir that stay until `release`.
        """
        if params:
            return self.copy(params).transform(nodes, edges, progress=progress)
        for name in (self.getPredictionCol(), self.getProbabilityCol()):
            if name in nodes.columns:
                raise GamlpError(f"nodes have a column '{name}' already", hint="drop it, or choose another name")
        spark = nodes.sparkSession
        place = work_place(spark, self)
        try:
            with spark_failure_as_error():
                graph = build(spark, self, nodes, edges, place / "graph", bundle=self.bundle, progress=progress)
                store = hops_of(self, self.bundle, self._home, graph, place / "hops", progress)
                found = predictions(spark, self.bundle, store, graph)
        except BaseException:
            place.remove()
            raise
        self._made.append(place)
        return self._joined(nodes, found)

    def _joined(self, nodes: Any, found: Any) -> Any:
        from pyspark.ml.functions import array_to_vector
        from pyspark.sql import functions

        key = f"gamlp_{uuid.uuid4().hex[:8]}"
        probabilities = array_to_vector(functions.col("probabilities").cast("array<double>"))
        found = found.select(
            functions.col("id").alias(key),
            functions.col("label").cast(self._label_type).alias(self.getPredictionCol()),
            probabilities.alias(self.getProbabilityCol()),
        )
        kind = dict(found.dtypes)[key]
        return nodes.join(found, nodes[self.getIdCol()].cast(kind) == functions.col(key), "left").drop(key)

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
        return {"labelType": self._label_type, "scores": self._scores, "home": home}, bytes_of(self.bundle)

    def _adopt(self, content: dict[str, Any], bundle: Bundle | None) -> None:
        self._bundle, self._label_type, self._scores = bundle, content["labelType"], content["scores"]
        self._home = None if content["home"] is None else Home(**content["home"])


class _Writer(MLWriter):
    """The bundle first and the metadata last, so that what has metadata is whole."""

    def __init__(self, instance: _Saved) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        place = Place.of(path)
        content, bundle = self.instance._content()
        if place.exists() or place.names():
            if not self.shouldOverwrite:
                raise GamlpError("already exists", file=path, hint="write().overwrite().save(PATH) replaces it")
            place.remove()
        if bundle is not None:
            (place / _BUNDLE).put(bundle)
        text = DefaultParamsWriter._get_metadata_to_save(self.instance, _Version(), extraMetadata=content)  # type: ignore[arg-type]
        (place / _METADATA).put((text + "\n").encode())


class _Version:
    """All that Spark's own writer asks a session for."""

    version = pyspark_version


class _Reader(MLReader[Any]):
    def __init__(self, kind: type[_Saved], trust: Trust = None) -> None:
        super().__init__()
        self.kind, self.trust = kind, trust

    def load(self, path: str) -> Any:
        place = Place.of(path)
        try:
            found = json.loads((place / _METADATA).read())
            kind = found["class"].rpartition(".")[2]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise GamlpError(f"holds no saved {self.kind.__name__}", file=path) from error
        if kind != self.kind.__name__:
            raise GamlpError(f"holds a {kind}, no {self.kind.__name__}", file=path, hint=f"use {kind}.load")
        made = self.kind()
        try:
            bundle = loaded((place / _BUNDLE).read(), self.trust) if (place / _BUNDLE).exists() else None
            made._resetUid(found["uid"])
            DefaultParamsReader.getAndSetParams(made, found)  # type: ignore[type-var]
            self._check_places(made, found, path)
            made._adopt(found, bundle)
        except (KeyError, TypeError, AttributeError) as error:
            raise GamlpError("damaged or foreign metadata", file=path, hint="save the model again") from error
        return made

    def _check_places(self, made: _Saved, found: dict[str, Any], path: str) -> None:
        """Trust is a person's, never a file's; a URL of another store than the one that was typed needs it too."""
        made.clear(made.trust)
        if isinstance(self.trust, str):
            made.setTrust(self.trust)
        store = urlsplit(path)[:2]
        for url in (made.getWorkDir(), (found.get("home") or {}).get("place")):
            if url is not None and is_url(url) and urlsplit(url)[:2] != store:
                check_trusted(url, self.trust, f"its files are at '{url}', which is asked only when you name it", path)
