"""What anybody could do with the same graph: scikit-learn and LightGBM on columns, GCN, GraphSAGE, one GAMLP recipe.

Each gives probabilities of all nodes and says what it chose by validation rows. Settings of each are what a careful
person would try, not more; docs/results/defaults.md tells them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from gamlp.arrays import Array
from gamlp.peers import Task, Workspace, labelled, prepare_task, recipe_for, run
from gamlp.recipe import Recipe
from gamlp.run import Resources
from gamlp.training import HopRows

if TYPE_CHECKING:
    from defaults import Case

Answer = tuple[Array, str]  # probabilities [n, c], what was chosen
# Rows of P = D^-1 (A + I) sum to one: the mean of a node and its neighbours. Several relations are one graph, and
# features of each type of nodes are columns of their own.
HOPS = {
    "propagation": {"hops": 2, "r": 0.0, "scaling": "none"},
    "relations": {"subsets": "one", "missing": "none"},
    "model": {"beta": 0.0},
}
STRENGTHS = [10.0**power for power in range(-3, 4)]  # C of logistic regression
LEAVES = (1, 20)  # least rows in a leaf: LightGBM's own is 20, and 20 rows of a class need fewer
ROUNDS, PATIENCE = 300, 30
SPARSE = 0.2  # share of values that are not zero, below which nobody standardises for a network
_CHUNK = 4096  # rows


def answer(name: str, case: Case) -> Answer:
    """Of the contestant of this name."""
    kind, _, what = name.partition("-")
    if kind in ("lr", "lightgbm"):
        return {"lr": logistic, "lightgbm": boosted}[kind](_columns(case, what), case)
    known: dict[str, Callable[[], Answer]] = {
        "majority": lambda: majority(case),
        "gcn": lambda: message_passing(case, "gcn"),
        "graphsage": lambda: message_passing(case, "graphsage"),
        "plain": lambda: _peer(case, Recipe(), "one GAMLP, recipe untouched"),
        "shipped": lambda: _peer(case, Recipe.of(case.about["shipped"]), case.about["shipped"]),
    }
    return known[name]()


@dataclass(frozen=True)
class Columns:
    """Numbers of every node, read some rows at a time."""

    read: Callable[[Array], Array]
    count: int
    case: Case

    @cached_property
    def parts(self) -> dict[str, tuple[Array, Array]]:
        """Columns and labels of the rows that train and of those that validate."""
        labels = self.case.graph.nodes.labels
        assert labels is not None
        rows = {part: labelled(self.case.graph, part) for part in ("train", "valid")}
        return {part: (self.read(some), np.asarray(labels.values[some])) for part, some in rows.items()}

    def chunks(self) -> Iterator[Array]:
        for start in range(0, self.count, _CHUNK):
            yield self.read(np.arange(start, min(self.count, start + _CHUNK)))


def _columns(case: Case, what: str) -> Columns:
    """X, or [X, PX, P²X] side by side."""
    nodes = case.graph.nodes
    if what == "x":
        assert nodes.features is not None
        return Columns(nodes.features.read, nodes.count, case)
    prepared, _ = prepare_task(Task(case.graph), Recipe.of(HOPS), _workspace(case))
    every: HopRows = replace(prepared.train, rows=np.arange(nodes.count), crossfit=False)
    return Columns(lambda rows: every.gather(rows)[0].reshape(len(rows), -1).astype(np.float32), nodes.count, case)


def _workspace(case: Case) -> Workspace:
    return Workspace(case.work / "hops", Resources(threads=case.threads, device="cpu"), probabilities=True)


def _best(case: Case, answers: Iterator[tuple[Array, Callable[[], Array], str]]) -> Answer:
    """The best by its probabilities of validation rows, of equals by their loss; all nodes are asked of it alone."""
    rows = labelled(case.graph, "valid")
    best, found = (-np.inf, -np.inf), None
    for valid, everywhere, said in answers:
        every = np.zeros((case.graph.nodes.count, valid.shape[1]), np.float32)
        every[rows] = valid
        scores = case.score(every, "valid")
        if (rank := (scores[case.key], -scores["loss"])) > best:
            best, found = rank, (everywhere, said)
    assert found is not None
    return found[0](), found[1]


def logistic(columns: Columns, case: Case) -> Answer:
    """scikit-learn's logistic regression, one of STRENGTHS, columns as they are or standardised by training rows."""
    return _best(case, _logistic(columns))


def _logistic(columns: Columns) -> Iterator[tuple[Array, Callable[[], Array], str]]:
    (train, targets), (valid, _) = columns.parts["train"], columns.parts["valid"]
    for scaled in (False, True):
        mean = train.mean(0) if scaled else np.zeros(train.shape[1], np.float32)
        scale = train.std(0) if scaled else np.ones(train.shape[1], np.float32)
        scale[scale == 0] = 1
        own, basis = (train - mean) / scale, None
        if own.shape[0] < own.shape[1]:
            # Weights lie in the span of the training rows: the same minimum in as many columns as rows.
            basis = np.linalg.svd(own, full_matrices=False)[2].T
            own = own @ basis
        models: list[LogisticRegression] = []
        for strength in STRENGTHS:
            models = _fitted(own, targets, strength, models)
            weights, offset = _linear(models)
            weights = (weights if basis is None else basis @ weights) / scale[:, None]
            offset = offset - mean @ weights
            how = _Linear(weights, offset, columns)
            yield how.probabilities(valid), how.everywhere, f"C {strength:g}{', standardised' if scaled else ''}"


def _fitted(x: Array, targets: Array, strength: float, before: list[LogisticRegression]) -> list[LogisticRegression]:
    """One model, or one for each class where a node may have many; each starts where the last ended."""
    each = [targets] if targets.ndim == 1 else list(targets.T)
    models = before or [LogisticRegression(max_iter=500, warm_start=True) for _ in each]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [model.set_params(C=strength).fit(x, own) for model, own in zip(models, each)]


def _linear(models: list[LogisticRegression]) -> tuple[Array, Array]:
    return np.concatenate([model.coef_ for model in models]).T, np.concatenate([model.intercept_ for model in models])


@dataclass(frozen=True)
class _Linear:
    weights: Array
    offset: Array
    columns: Columns

    def probabilities(self, x: Array) -> Array:
        targets = self.columns.parts["train"][1]
        scores = x @ self.weights + self.offset
        if targets.ndim == 2:
            return np.asarray(1 / (1 + np.exp(-scores)))
        if scores.shape[1] == 1:  # scikit-learn has one score for two classes
            scores = np.concatenate([np.zeros_like(scores), scores], 1)
        odds = np.exp(scores - scores.max(1, keepdims=True))
        return _spread(odds / odds.sum(1, keepdims=True), np.unique(targets), self.columns.case)

    def everywhere(self) -> Array:
        return np.concatenate([self.probabilities(x) for x in self.columns.chunks()])


def _spread(probabilities: Array, present: Array, case: Case) -> Array:
    """Of the classes that training rows have; the others get none."""
    labels = case.graph.nodes.labels
    assert labels is not None
    out = np.zeros((len(probabilities), len(labels.classes)), np.float32)
    out[:, present] = probabilities
    return out


def boosted(columns: Columns, case: Case) -> Answer:
    """LightGBM's own settings, rounds by validation (ROC-AUC where that is the metric, else log-loss), LEAVES by it."""
    return _best(case, _boosted(columns, case))


def _boosted(columns: Columns, case: Case) -> Iterator[tuple[Array, Callable[[], Array], str]]:
    import lightgbm

    (train, targets), (valid, true) = columns.parts["train"], columns.parts["valid"]
    labels = case.graph.nodes.labels
    assert labels is not None
    classes, several = len(labels.classes), targets.ndim == 1 and len(labels.classes) > 2
    loss = "multi_logloss" if several else "auc" if case.metric == "roc_auc" else "binary_logloss"
    how = {"objective": "multiclass", "num_class": classes} if several else {"objective": "binary"}
    each = [(targets, true)] if targets.ndim == 1 else list(zip(targets.T, true.T))
    for leaf in LEAVES:
        settings = {**how, "metric": loss, "min_data_in_leaf": leaf, "num_threads": case.threads, "verbosity": -1}
        boosters = []
        for own, other in each:
            data = lightgbm.Dataset(train, own, params={"min_data_in_leaf": leaf, "verbosity": -1})
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            sets = [lightgbm.Dataset(valid, other, reference=data)]
            boosters.append(lightgbm.train(settings, data, ROUNDS, valid_sets=sets, callbacks=[stop]))
        told = f"leaves of {leaf}, {'/'.join(str(one.best_iteration) for one in boosters)} rounds"
        found = _Trees(boosters, columns, targets.ndim == 2)
        yield found.probabilities(valid), found.everywhere, told


@dataclass(frozen=True)
class _Trees:
    boosters: list[Any]
    columns: Columns
    multi_label: bool

    def probabilities(self, x: Array) -> Array:
        found = [np.asarray(booster.predict(x)) for booster in self.boosters]  # of the best round
        if self.multi_label:
            return np.stack(found, 1)
        return found[0] if found[0].ndim == 2 else np.stack([1 - found[0], found[0]], 1)

    def everywhere(self) -> Array:
        return np.concatenate([self.probabilities(x) for x in self.columns.chunks()])


def message_passing(case: Case, name: str) -> Answer:
    """The general recipe of a peer, none of a dataset's; standardised features are tried where they are dense.

    On graphs of several types both are R-GCN: a weight for each relation, and one for the node itself.
    """
    features = case.graph.nodes.features
    assert features is not None
    recipe = recipe_for("r-gcn" if case.graph.heterogeneous else name)
    if case.metric != "accuracy":
        recipe = recipe.changed({"training.metric": case.metric})
    some = features.read(slice(0, _CHUNK))
    dense = np.count_nonzero(some) >= SPARSE * some.size
    found = []
    for scaling in (recipe.propagation.scaling, *(["standard"] if dense else [])):
        changed = recipe.changed({"propagation.scaling": scaling})
        probabilities, said = _peer(case, changed, f"{recipe.model.name}, features scaled by {scaling}")
        found.append((case.valid_score(probabilities), probabilities, said))
    _, probabilities, said = max(found, key=lambda one: one[0])
    return probabilities, said


def _peer(case: Case, recipe: Recipe, said: str) -> Answer:
    report = run(Task(case.graph), recipe, case.seed, _workspace(case))
    assert report.probabilities is not None
    return report.probabilities, said


def majority(case: Case) -> Answer:
    """Shares of the classes among training rows, for every node."""
    labels = case.graph.nodes.labels
    assert labels is not None
    shares = labels.hot(labelled(case.graph, "train")).mean(0)
    return np.tile(shares, (case.graph.nodes.count, 1)), "shares of the classes"
