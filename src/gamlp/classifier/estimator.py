"""NodeClassifier: fit / predict / score, for people who live in Python."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from gamlp.arrays import Array
from gamlp.classifier.choosing import asked_of, chosen_run, leaderboard_frame
from gamlp.classifier.given import Given, check_names, is_tables, predicting, without_drawn_split
from gamlp.classifier.matrices import WrongInput, is_matrix
from gamlp.classifier.page import classifier_html
from gamlp.classifier.rows import ScoredHops, hop_weights, number_type, split_of, with_split
from gamlp.errors import GamlpError
from gamlp.explanation import Explanation, explain_model
from gamlp.graph import Graph, Split, class_values, fingerprint, random_split
from gamlp.graph.ingest import states_schema
from gamlp.io import parse_size
from gamlp.models import HopWeights
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import Resources, batch_probabilities, check_one_model, hops_for, prepare, train_stages
from gamlp.training import (
    STAGES,
    Bundle,
    NoFolder,
    check_trainable,
    check_width,
    choose_device,
    matched,
    score_of,
    with_classes,
)
from gamlp.tune import AskedChoice, Leaderboard

FRACTIONS = (0.6, 0.2, 0.2)  # train, valid, test where a graph has no split: as ingest does
_PYTHON = "python"  # where a bundle's report keeps what only this file asks for


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify nodes, with scikit-learn's manners: the constructor stores, `fit` trains, results end with underscores.

    Without a recipe, `fit` tries several models and keeps the best by validation rows: `preset` is 'fast' (one model),
    'default' or 'best' (with a search, until `time_limit`: seconds, '30m', '2h'), `metric` what is best ('roc_auc' …).
    `leaderboard()` shows them. With a recipe, that model is trained and nothing is chosen.

    `seed` draws the split of a graph that has none, and trains where the recipe names no seeds. `memory` is bytes or
    '4GiB'. Hops go to `folder`, or to a temporary one that lives as long as the estimator. `trust` names the model of
    one's own that the recipe may have.

    >>> edges, x, y = [[0, 1, 3, 4], [1, 2, 4, 5]], np.eye(6), ["ant", "ant", "ant", "bee", "bee", "bee"]
    >>> model = NodeClassifier({"training": {"epochs": 30}}).fit((edges, x, y), train=[0, 1, 3, 4])
    >>> model.predict(rows=[2, 5]).tolist()
    ['ant', 'bee']
    """

    _own: ScoredHops | None  # of the graph trained on
    leaderboard_: Leaderboard | None  # None where there was one model and no choice

    def __init__(
        self,
        recipe: Recipe | str | Path | dict[str, Any] | None = None,
        *,
        preset: str | None = None,
        time_limit: float | str | None = None,
        metric: str | None = None,
        seed: int = 0,
        memory: int | str | None = None,
        threads: int | None = None,
        device: str = "auto",
        folder: str | Path | None = None,
        trust: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.recipe = recipe
        self.preset = preset
        self.time_limit = time_limit
        self.metric = metric
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.device = device
        self.folder = folder
        self.trust = trust
        self.progress = progress

    def fit(
        self,
        graph: Any,
        y: Any = None,
        *,
        edges: Any = None,
        train: Any = None,
        valid: Any = None,
        test: Any = None,
        **columns: Any,
    ) -> NodeClassifier:
        """Train on frames, `fit(nodes, edges)`; on a graph of any library; or on arrays, `fit(x, y, edges=edges)`.

        Frames are read as `Graph.from_frames` reads them, which says what `columns` there are (id=, label= …); predict
        knows them then. A graph is a Graph, PyG's, networkx' or (edge_index, x, y); `y` replaces its labels. `train`,
        `valid` and `test` (row numbers or masks) replace the split. Several seeds: the best by validation stays.
        """
        given, names = Given.of(graph, y, edges).checked(self, fitting=True), check_names(columns)
        asked = asked_of(self.recipe, self.preset, self.time_limit, self.metric)
        recipe = Recipe.of(self.recipe, trust=self.trust)
        check_one_model(recipe)
        if self.metric is not None:
            recipe = recipe.changed({"training.metric": self.metric})
        if "seeds" not in recipe.training.model_fields_set:
            recipe = recipe.changed({"training.seeds": [self.seed]})
        if given.matrix and given.edges is None and "beta" not in recipe.model.model_fields_set:
            recipe = recipe.changed({"model.beta": 0.0})  # no neighbour has a label to listen to
        kept: dict[str, Any] = {}
        graph = given.graph(names, self.seed)
        if given.frames:
            chosen = train is not None or valid is not None or test is not None
            kept["frames"] = {"names": names, "seed": self.seed, "chosen": chosen}
        if train is not None or valid is not None or test is not None:
            graph = with_split(graph, split_of(graph.nodes.count, train=train, valid=valid, test=test))
        elif graph.nodes.split is None and graph.nodes.labels is not None:
            kept["drawn"] = {"seed": self.seed, "graph": fingerprint.everything(graph), "by": "id"}
            graph = with_split(graph, random_split(graph.nodes.labels, graph.nodes.ids, FRACTIONS, self.seed))
        check_trainable(graph, recipe)
        assert graph.nodes.labels is not None
        kept["numbers"] = number_type(given.raw_labels(), graph.nodes.labels.classes)
        place, end = self._place()
        try:
            if asked is None:
                self._train(graph, recipe, place, kept)
            else:
                self._choose(graph, asked, place, kept)
        except BaseException:
            if end is not None:
                end()
            raise
        if (before := getattr(self, "_end", None)) is not None:
            before()  # the hops of an earlier fit
        self._end = end
        return self

    def _train(self, graph: Graph, recipe: Recipe, place: Path, kept: dict[str, Any]) -> None:
        resources, progress = self._resources(), self.progress or silent
        prepared = prepare(graph, recipe, place, resources=resources, progress=progress)
        stages = train_stages(prepared, graph, place / STAGES, lambda _: NoFolder(), resources, progress=progress)
        for note in stages.words:
            warnings.warn(note, UserWarning, stacklevel=3)
        end = stages.ends[stages.kept]
        self._keep(*end.result, end.prepared.store, graph, kept)

    def _choose(self, graph: Graph, asked: AskedChoice, place: Path, kept: dict[str, Any]) -> None:
        """Several models, of which the best by validation rows stays."""
        choose_device(self.device)
        chosen = chosen_run(graph, asked, place, self.seed, self._resources(), self.progress or silent)
        for note in chosen.notes:
            warnings.warn(note, UserWarning, stacklevel=3)
        self._keep(chosen.bundles, chosen.best, chosen.store, graph, kept)
        self.leaderboard_ = chosen.leaderboard

    def _keep(
        self, bundles: Mapping[int, Bundle], best: int, store: HopStore, graph: Graph, kept: dict[str, Any]
    ) -> None:
        """The best seed's bundle, what it is asked with, and every seed's report."""
        bundle = bundles[best]
        self._adopt(replace(bundle, report={**bundle.report, _PYTHON: kept}))
        self.reports_ = {seed: one.report for seed, one in bundles.items()}
        self.split_ = graph.nodes.split
        self._own = ScoredHops(store, graph)
        self._own_nodes = fingerprint.inputs(graph), fingerprint.training_labels(graph)

    def leaderboard(self) -> Any:
        """The models that `fit` tried, best first: a frame of pandas, or a list of dicts where pandas is missing.

        Columns: name, title, valid with its error, test, seconds, parameters, bytes, state, simple, why, chosen.
        """
        check_is_fitted(self)
        if self.leaderboard_ is None:
            what = "one model was trained, and none was compared with it"
            raise GamlpError(what, hint="fit without a recipe, by another preset than 'fast'")
        return leaderboard_frame(self.leaderboard_)

    def _adopt(self, bundle: Bundle) -> None:
        self.bundle_ = bundle
        self.leaderboard_ = None
        numbers = bundle.report.get(_PYTHON, {}).get("numbers")
        self.classes_ = np.array(bundle.classes)
        if numbers is not None:
            self.classes_ = np.array([int(name) for name in bundle.classes]).astype(numbers)
        elif not bundle.multi_label:
            self.classes_ = np.array(class_values(bundle.classes, bundle.class_type))
        self.n_features_in_ = bundle.shape.features
        self._own = None

    def predict(self, graph: Any = None, rows: Any = None, *, edges: Any = None, train: Any = None) -> Array:
        """Classes `[rows]` as they were given, or 0 and 1 `[rows, classes]` where a node has many labels.

        Of the graph trained on, or of another with the same features: `predict(nodes, edges)` of frames, a graph, or
        `predict(x, edges=edges)`. `rows`: numbers or a mask; None is all.
        `train`: rows of a graph without a split whose labels the model may listen to.
        """
        with self._hops(graph, rows, edges, train) as (hops, rows):
            chosen = self._chosen(hops, hops.rows(rows))
        if not self.bundle_.multi_label:
            return self.classes_[chosen]
        return chosen.astype(self.bundle_.report.get(_PYTHON, {}).get("numbers") or chosen.dtype, copy=False)

    def predict_proba(self, graph: Any = None, rows: Any = None, *, edges: Any = None, train: Any = None) -> Array:
        """Probabilities `[rows, classes]`, float32, in the order of `classes_`; many labels: one for each."""
        with self._hops(graph, rows, edges, train) as (hops, rows):
            asked = hops.rows(rows)
            found = np.empty((len(asked), len(self.bundle_.classes)), np.float32)
            for part, probabilities in self._batch_probabilities(hops, asked):
                found[part] = probabilities
        return found

    def score(
        self, graph: Any = None, y: Any = None, *, rows: Any = None, edges: Any = None, train: Any = None
    ) -> float:
        """Accuracy, or micro-F1 of many labels: of test rows, or of all labelled rows where the graph has no split.

        `y`: labels of features alone, `score(x, y)` as scikit-learn has it; beside frames, their edges; beside a graph,
        rows.
        """
        if y is not None and rows is None and not (is_matrix(graph) and not is_tables(graph)):
            y, rows = None, y
        with self._hops(graph, rows, edges, train, y) as (hops, rows):
            asked = hops.rows_to_score(rows)
            chosen = self._chosen(hops, asked)
            assert hops.labels is not None
            true = hops.labels.values[asked]
        if not self.bundle_.multi_label:
            return float((chosen == true).mean())
        return score_of(int((chosen & true).sum()), int((chosen ^ true).sum()), len(true), multi_label=True)

    def hop_weights(self, graph: Any = None, rows: Any = None, *, edges: Any = None, train: Any = None) -> HopWeights:
        """Every node's weights over hops, tensors `[rows, hops]` for features and for labels."""
        with self._hops(graph, rows, edges, train) as (hops, rows):
            return hop_weights(self.bundle_, hops, hops.rows(rows), choose_device(self.device))

    def explain(self, ids: Any = (), graph: Any = None, edges: Any = None, *, train: Any = None) -> Explanation:
        """How far the model listens, by degree and by class; and why the nodes of these ids got their labels.

        `ids`: as the tables have them, or row numbers of a graph of arrays. It shows itself in notebooks, and writes
        JSON, CSV and pictures: `explain(["anna"]).write(Path("anna.svg"))`.
        """
        wanted = [ids] if isinstance(ids, str | int | np.integer) else list(ids)
        with self._hops(graph, None, edges, train) as (hops, _):
            texts = [str(one) for one in wanted]
            return explain_model(self.bundle_, hops.store, hops.graph, texts, choose_device(self.device))

    def save(self, path: str | Path) -> Path:
        """Write a bundle: one file without code, that the command line reads too."""
        check_is_fitted(self)
        return self.bundle_.save(path)

    @classmethod
    def load(cls, path: str | Path, trust: str | None = None) -> NodeClassifier:
        """From a bundle or a run folder; it predicts on graphs it is given. `trust` names a model of your own code."""
        path = Path(path)
        bundle = Bundle.load(path / "bundle.safetensors" if path.is_dir() else path, trust)
        loaded = cls(bundle.recipe)
        loaded._adopt(bundle)
        loaded.leaderboard_ = Leaderboard.read(path) if path.is_dir() else None
        return loaded

    def _repr_html_(self) -> str:
        """For notebooks."""
        return classifier_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": classifier_html(self)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bundle_")

    def __getstate__(self) -> dict[str, Any]:
        """Pickled, a fitted one keeps its weights and not its hops: as if it had been loaded."""
        state = dict(super().__getstate__())
        state.pop("_end", None)
        return {**state, "_own": None} if "_own" in state else state

    @contextmanager
    def _hops(self, source: Any, rows: Any, edges: Any, train: Any, y: Any = None) -> Iterator[tuple[ScoredHops, Any]]:
        """(hops, rows asked for): those of the fit where nodes are the same, others only as long as they are read."""
        check_is_fitted(self)
        if source is None:
            if train is not None or edges is not None:
                what = "'train' names rows of a graph" if train is not None else "edges are given without nodes"
                raise WrongInput(f"{what}, and none is given", hint="give the graph too")
            if self._own is None:
                raise GamlpError("a loaded classifier has no graph of its own", hint="give one, as in predict(graph)")
            yield self._own, rows
            return
        if is_tables(source) and edges is None:
            edges, rows = rows, None
        graph, notes = matched(
            self._other(Given.of(source, y, edges).checked(self, fitting=False)), self.bundle_, say_unnamed=False
        )
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=4)
        check_width(graph, self.bundle_.shape.features)
        graph = self._with_known_split(with_classes(graph, self.bundle_.classes), train)
        if self._own is not None and self._same(graph):
            yield ScoredHops(self._own.store, graph), rows
            return
        with tempfile.TemporaryDirectory(prefix="gamlp-", dir=self.folder) as place:
            store = hops_for(self.bundle_, graph, Path(place), self._resources(), self.progress or silent)
            yield ScoredHops(store, graph), rows

    def _other(self, given: Given) -> Graph:
        """A graph that was not trained on; of frames the columns are called as those of training were."""
        if not given.frames:
            return given.graph({}, self.seed)
        known = self.bundle_.report.get(_PYTHON, {}).get("frames") or {"names": {}, "seed": self.seed, "chosen": False}
        fitted = any(column.state is not None for schema in self.bundle_.columns.values() for column in schema)
        schema = states_schema(self.bundle_.columns) if fitted else None
        graph = given.graph(predicting(known["names"], given.source, schema), known["seed"])
        return without_drawn_split(graph) if known["chosen"] else graph

    def _with_known_split(self, graph: Graph, train: Any) -> Graph:
        labels = graph.nodes.labels
        if train is not None:
            split = split_of(graph.nodes.count, train=train)
            rest = np.zeros(0, np.int64) if labels is None else np.flatnonzero(labels.known() & (split.roles == 0))
            return with_split(graph, Split.of(graph.nodes.count, train=split.train, valid=[], test=rest))
        drawn = self.bundle_.report.get(_PYTHON, {}).get("drawn")
        if (
            drawn is None
            or labels is None
            or graph.nodes.split is not None
            or drawn["graph"] != fingerprint.everything(graph)
        ):
            return graph
        if drawn.get("by") != "id":  # drawing it now would give other rows, and let training rows test
            raise GamlpError(
                "the split of this model was drawn by an earlier version of gamlp, and cannot be drawn again",
                hint="fit again, or say which rows train: train=...",
            )
        return with_split(graph, random_split(labels, graph.nodes.ids, FRACTIONS, drawn["seed"]))

    def _same(self, graph: Graph) -> bool:
        nodes, labels = self._own_nodes
        if self.bundle_.recipe.propagation.rows != "all" or fingerprint.inputs(graph) != nodes:
            return False
        return not graph.trainable or fingerprint.training_labels(graph) == labels

    def _batch_probabilities(self, hops: ScoredHops, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Probabilities a batch at a time, with the places of their rows."""
        begin, size = 0, self.bundle_.recipe.training.batch_size
        for _, probabilities in batch_probabilities(self.bundle_, hops.store, rows, size, choose_device(self.device)):
            yield slice(begin, begin + len(probabilities)), probabilities
            begin += len(probabilities)

    def _chosen(self, hops: ScoredHops, rows: Array) -> Array:
        """Class numbers `[rows]`, or 0 and 1 `[rows, classes]` where a node has many labels."""
        multi_label = self.bundle_.multi_label
        chosen = np.empty(
            (len(rows), len(self.bundle_.classes)) if multi_label else len(rows), np.int8 if multi_label else np.int64
        )
        for part, probabilities in self._batch_probabilities(hops, rows):
            chosen[part] = probabilities > 0.5 if multi_label else probabilities.argmax(1)
        return chosen

    def _resources(self) -> Resources:
        memory = parse_size(self.memory) if isinstance(self.memory, str) else self.memory
        return Resources(memory, self.threads, self.device)

    def _place(self) -> tuple[Path, weakref.finalize[Any, Any] | None]:
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            return Path(self.folder), None
        place = tempfile.mkdtemp(prefix="gamlp-")
        return Path(place), weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
