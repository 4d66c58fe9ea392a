"""NodeClassifier: fit / predict / score, for people who live in Python."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import weights_of_rows
from gamlp.graph import ROLES, Graph, Labels, Split, as_graph, class_values, fingerprint, random_split
from gamlp.io import parse_size
from gamlp.models import HopWeights
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, row_numbers
from gamlp.recipe import Recipe
from gamlp.run import Resources, batch_probabilities, check_one_model, hops_for, prepare
from gamlp.training import (
    Bundle,
    check_trainable,
    check_width,
    choose_device,
    matched,
    rows_of,
    score_of,
    train_seeds,
    with_classes,
)

FRACTIONS = (0.6, 0.2, 0.2)  # train, valid, test where a graph has no split: as ingest does
_PYTHON = "python"  # where a bundle's report keeps what only this file asks for


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """GAMLP with scikit-learn's manners: the constructor stores, `fit` trains, results end with an underscore.

    `seed` draws the split of a graph that has none, and trains where the recipe names no seeds. `memory` is bytes or
    '4GiB'. Hops go to `folder`, or to a temporary one that lives as long as the estimator. `trust` names the model of
    one's own that the recipe may have.

    >>> edges, x, y = [[0, 1, 3, 4], [1, 2, 4, 5]], np.eye(6), ["ant", "ant", "ant", "bee", "bee", "bee"]
    >>> model = NodeClassifier({"training": {"epochs": 30}}).fit((edges, x, y), train=[0, 1, 3, 4])
    >>> model.predict(rows=[2, 5]).tolist()
    ['ant', 'bee']
    """

    _own: ScoredHops | None  # of the graph trained on

    def __init__(
        self,
        recipe: Recipe | str | Path | dict[str, Any] | None = None,
        *,
        seed: int = 0,
        memory: int | str | None = None,
        threads: int | None = None,
        device: str = "auto",
        folder: str | Path | None = None,
        trust: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.recipe = recipe
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.device = device
        self.folder = folder
        self.trust = trust
        self.progress = progress

    def fit(
        self, graph: Any, y: Any = None, *, train: Any = None, valid: Any = None, test: Any = None
    ) -> NodeClassifier:
        """Train on a Graph, PyG's `Data` or (edge_index, x, y); `y` replaces the labels.

        `train`, `valid` and `test` (row numbers or masks) replace the split. Several seeds: the best by validation
        stays.
        """
        recipe = Recipe.of(self.recipe, trust=self.trust)
        check_one_model(recipe)
        if "seeds" not in recipe.training.model_fields_set:
            recipe = recipe.changed({"training.seeds": [self.seed]})
        source = graph
        kept: dict[str, Any] = {}
        graph = as_graph(graph, y)
        if train is not None or valid is not None or test is not None:
            graph = with_split(graph, split_of(graph.nodes.count, train=train, valid=valid, test=test))
        elif graph.nodes.split is None and graph.nodes.labels is not None:
            kept["drawn"] = {"seed": self.seed, "graph": fingerprint.everything(graph), "by": "id"}
            graph = with_split(graph, random_split(graph.nodes.labels, graph.nodes.ids, FRACTIONS, self.seed))
        check_trainable(graph, recipe)
        assert graph.nodes.labels is not None
        kept["numbers"] = number_type(raw_labels(source, y), graph.nodes.labels.classes)
        place, end = self._place()
        try:
            self._train(graph, recipe, place, kept)
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
        with closing(resources.open_engine()) as engine:
            bundles, chosen = train_seeds(prepared, engine.fit, progress=progress)
        best = bundles[chosen]
        self._adopt(replace(best, report={**best.report, _PYTHON: kept}))
        self.reports_ = {seed: bundle.report for seed, bundle in bundles.items()}
        self.split_ = graph.nodes.split
        self._own = ScoredHops(prepared.store, graph.nodes.labels, graph.nodes.split)
        self._own_nodes = fingerprint.inputs(graph), fingerprint.training_labels(graph)

    def _adopt(self, bundle: Bundle) -> None:
        self.bundle_ = bundle
        numbers = bundle.report.get(_PYTHON, {}).get("numbers")
        self.classes_ = np.array(bundle.classes)
        if numbers is not None:
            self.classes_ = np.array([int(name) for name in bundle.classes]).astype(numbers)
        elif not bundle.multi_label:
            self.classes_ = np.array(class_values(bundle.classes, bundle.class_type))
        self.n_features_in_ = bundle.shape.features
        self._own = None

    def predict(self, graph: Any = None, rows: Any = None, *, train: Any = None) -> Array:
        """Classes `[rows]` as they were given, or 0 and 1 `[rows, classes]` where a node has many labels.

        Of the graph trained on, or of another with the same features. `rows`: numbers or a mask; None is all.
        `train`: rows of a graph without a split whose labels the model may listen to.
        """
        with self._hops(graph, train) as hops:
            chosen = self._chosen(hops, hops.rows(rows))
        return chosen if self.bundle_.multi_label else self.classes_[chosen]

    def predict_proba(self, graph: Any = None, rows: Any = None, *, train: Any = None) -> Array:
        """Probabilities `[rows, classes]`, float32, in the order of `classes_`; many labels: one for each."""
        with self._hops(graph, train) as hops:
            asked = hops.rows(rows)
            found = np.empty((len(asked), len(self.bundle_.classes)), np.float32)
            for part, probabilities in self._batch_probabilities(hops, asked):
                found[part] = probabilities
        return found

    def score(self, graph: Any = None, rows: Any = None, *, train: Any = None) -> float:
        """Accuracy, or micro-F1 of many labels: of test rows, or of all labelled rows where the graph has no split."""
        with self._hops(graph, train) as hops:
            asked = hops.rows_to_score(rows)
            chosen = self._chosen(hops, asked)
            assert hops.labels is not None
            true = hops.labels.values[asked]
        if not self.bundle_.multi_label:
            return float((chosen == true).mean())
        return score_of(int((chosen & true).sum()), int((chosen ^ true).sum()), len(true), multi_label=True)

    def hop_weights(self, graph: Any = None, rows: Any = None, *, train: Any = None) -> HopWeights:
        """Every node's weights over hops, tensors `[rows, hops]` for features and for labels."""
        with self._hops(graph, train) as hops:
            return hop_weights(self.bundle_, hops, hops.rows(rows), choose_device(self.device))

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
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bundle_")

    def __getstate__(self) -> dict[str, Any]:
        """Pickled, a fitted one keeps its weights and not its hops: as if it had been loaded."""
        state = dict(super().__getstate__())
        state.pop("_end", None)
        return {**state, "_own": None} if "_own" in state else state

    @contextmanager
    def _hops(self, source: Any, train: Any) -> Iterator[ScoredHops]:
        """Hops to read from: those of the fit where the nodes are the same, others only as long as they are read."""
        check_is_fitted(self)
        if source is None:
            if train is not None:
                raise GamlpError("'train' names rows of a graph, and none is given", hint="give the graph too")
            if self._own is None:
                raise GamlpError("a loaded classifier has no graph of its own", hint="give one, as in predict(graph)")
            yield self._own
            return
        graph, notes = matched(as_graph(source), self.bundle_, say_unnamed=False)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=4)
        check_width(graph, self.bundle_.shape.features)
        graph = self._with_known_split(with_classes(graph, self.bundle_.classes), train)
        labels, split = graph.nodes.labels, graph.nodes.split
        if self._own is not None and self._same(graph):
            yield ScoredHops(self._own.store, labels, split)
            return
        with tempfile.TemporaryDirectory(prefix="gamlp-", dir=self.folder) as place:
            store = hops_for(self.bundle_, graph, Path(place), self._resources(), self.progress or silent)
            yield ScoredHops(store, labels, split)

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


def rows_among(count: int, rows: Any, name: str = "rows") -> Array:
    """Row numbers, in the order given, or a mask of all nodes.

    >>> rows_among(3, [True, False, True]).tolist(), rows_among(3, [2, 0]).tolist()
    ([0, 2], [2, 0])
    """
    if hasattr(rows, "detach"):
        rows = rows.detach().cpu()
    values = np.asarray(rows)
    if values.dtype == bool:
        if values.shape != (count,):
            raise GamlpError(f"the mask '{name}' has shape {values.shape} for {count} nodes", hint="one value a node")
        return np.flatnonzero(values)
    numbers = row_numbers(values)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        wrong = numbers[(numbers < 0) | (numbers >= count)][0]
        raise GamlpError(f"'{name}' has row {wrong} of {count} nodes", hint=f"rows count from 0 to {count - 1}")
    return numbers


def split_of(count: int, *, train: Any = None, valid: Any = None, test: Any = None) -> Split:
    """A split from row numbers or masks; a row of two parts is refused.

    >>> split_of(4, train=[0, 3], test=[False, True, False, False]).roles.tolist()
    [1, 3, 0, 1]
    """
    roles = np.zeros(count, np.int8)
    for role, rows in enumerate((train, valid, test), start=1):
        numbers = np.zeros(0, np.int64) if rows is None else rows_among(count, rows, ROLES[role])
        if (taken := numbers[roles[numbers] > 0]).size:
            before = ROLES[int(roles[taken[0]])]
            raise GamlpError(f"row {taken[0]} is in '{before}' and in '{ROLES[role]}'", hint="give a row one part")
        roles[numbers] = role
    return Split(roles)


def with_split(graph: Graph, split: Split) -> Graph:
    """The graph with another split, held in memory."""
    return replace(graph.with_targets(split=split), folder=None)


def number_type(given: Any, classes: tuple[str, ...]) -> str | None:
    """The numpy type in which class numbers were given; None where classes have names.

    >>> number_type(np.array([3, 5], np.int16), ("3", "5")), number_type(["ant"], ("ant",))
    ('int16', None)
    """
    if given is None or isinstance(given, Labels):
        return None
    kind = str(getattr(given, "dtype", None) or np.asarray(given).dtype).removeprefix("torch.").lower()
    if kind.startswith(("int", "uint", "bool")):
        return kind
    if kind.startswith(("float", "bfloat")):  # whole numbers, NaN where unknown
        return "int64"
    if kind == "object" and all(name.lstrip("-").isdigit() for name in classes):
        texts = any(isinstance(value, str | bytes) for value in np.asarray(given, object).ravel())
        return None if texts else "int64"
    return None


def raw_labels(source: Any, y: Any) -> Any:
    """Labels as a person gave them: beside the graph, in a tuple or in PyG's `Data`; a Graph's own have names."""
    if y is not None:
        return y
    if isinstance(source, tuple):
        return source[2] if len(source) == 3 else None
    return None if isinstance(source, Graph) else getattr(source, "y", None)


@dataclass(frozen=True)
class ScoredHops:
    """Hops of a graph's nodes, with the labels and the split to score by."""

    store: HopStore
    labels: Labels | None
    split: Split | None

    @property
    def count(self) -> int:
        return self.store.manifest.nodes

    def rows(self, rows: Any) -> Array:
        return np.arange(self.count) if rows is None else rows_among(self.count, rows)

    def rows_to_score(self, rows: Any) -> Array:
        """Labelled test rows, or all labelled rows of a graph without a split; rows asked for must be labelled."""
        if self.labels is None:
            raise GamlpError("the graph has no labels to score by", hint="give y, or predict instead")
        known = self.labels.known()
        if rows is not None:
            asked = self.rows(rows)
            if not known[asked].all():
                raise GamlpError(f"node {asked[~known[asked]][0]} has no label to score by", hint="leave it out")
        else:
            asked = np.flatnonzero(known) if self.split is None else self.split.test[known[self.split.test]]
        if not len(asked):
            raise GamlpError("there are no labelled test rows", hint="say which: score(rows=...)")
        return asked


def hop_weights(bundle: Bundle, hops: ScoredHops, rows: Array, device: torch.device) -> HopWeights:
    """Every row's weights over hops, on the CPU."""
    size, source = bundle.recipe.training.batch_size, rows_of(hops.store, bundle.recipe, rows)
    found = weights_of_rows(bundle.model().to(device), source, size=size, device=device)
    if found is None:
        raise GamlpError(f"model '{bundle.recipe.model.name}' tells no hop weights", hint="give it a hop_weights(x, y)")
    return found
