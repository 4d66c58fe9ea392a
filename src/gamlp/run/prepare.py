"""A graph and a recipe → hops of the rows to train on and to choose by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Place
from gamlp.models.shape import Part, Shape
from gamlp.progress import Progress, silent
from gamlp.propagation import (
    FeatureSignal,
    HopStore,
    LabelSignal,
    LocalEngine,
    Operator,
    Plan,
    Propagator,
    Statistics,
    feature_statistics,
)
from gamlp.recipe import Recipe
from gamlp.spark.session import SparkSettings
from gamlp.training.batches import HopRows
from gamlp.training.bundle import Bundle
from gamlp.training.checks import (
    check_fits,
    check_made,
    check_store,
    check_targets,
    check_trainable,
    check_width,
    valid_rows,
    width_of,
    with_classes,
)
from gamlp.training.typed import ready, reduced_from, views_of, with_features


@dataclass(frozen=True)
class Resources:
    """What a machine gives: none of it changes a recipe. `processes` train together, on shares of the rows."""

    memory: int | None = None
    threads: int | None = None
    device: str = "auto"
    processes: int = 1
    spark: SparkSettings | None = None
    blocks: int | None = None  # of rows, for tasks on Spark; None: by memory and cores

    def engine(self) -> Propagator:
        if self.spark is not None:
            from gamlp.spark.engine import SparkEngine

            return SparkEngine(blocks=self.blocks, memory=self.memory, settings=self.spark)
        return LocalEngine(memory=self.memory, threads=self.threads)


HERE = Resources()


@dataclass(frozen=True)
class Prepared:
    """Rows to train on and to choose by, as hops; `store` is where further rows are read from."""

    recipe: Recipe
    train: HopRows
    valid: HopRows | None
    store: HopStore
    shape: Shape
    classes: tuple[str, ...]
    many: bool
    statistics: Statistics | None = None
    reduced_from: str | None = None  # features of several types that were brought to fewer columns


def plan_of(recipe: Recipe, statistics: Statistics | None = None, *, labels: bool | None = None) -> Plan:
    """What a recipe asks to be propagated."""
    wanted = recipe.propagation
    features = FeatureSignal(
        hops=wanted.hops,
        operator=Operator(r=wanted.r, loops=wanted.loops),
        scaling=wanted.scaling,
        dtype=wanted.dtype,
        statistics=statistics,
        also=tuple(Operator(r=r, loops=wanted.loops) for r in wanted.also_r),
    )
    r = wanted.r if wanted.label_r is None else wanted.label_r
    label_signal = LabelSignal(
        hops=wanted.label_hops,
        operator=Operator(r=r, loops=wanted.loops),
        dtype=wanted.dtype,
        folds=wanted.folds,
        fold_seed=wanted.fold_seed,
    )
    subsets = recipe.relations.subsets
    return Plan(
        features=features,
        labels=label_signal if (recipe.labels_used if labels is None else labels) else None,
        rows=wanted.rows,
        subsets=subsets if isinstance(subsets, tuple) else None,
        apart=isinstance(subsets, tuple) and recipe.relations.apart == "yes",
    )


def prepare(
    graph: Graph,
    recipe: Recipe,
    folder: Path,
    *,
    valid_graph: Graph | None = None,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Prepared:
    """Propagate what training needs into `folder`; hops that are there already are used as they are."""
    check_trainable(graph)
    engine = resources.engine()
    reduced = reduced_from(graph, recipe)
    graph, recipe = ready(graph, recipe, folder, progress)
    if valid_graph is not None:
        return _prepare_two(graph, valid_graph, recipe, folder, engine, progress)
    if recipe.training.setting == "inductive":
        return _prepare_inductive(graph, recipe, folder, engine, progress)
    store = engine.propagate(graph, plan_of(recipe), folder / "hops", progress)
    return replace(from_store(store, recipe), reduced_from=reduced)


def _prepare_inductive(graph: Graph, recipe: Recipe, folder: Path, engine: Propagator, progress: Progress) -> Prepared:
    """Training rows on the graph of training nodes alone; the others on the whole graph."""
    assert graph.nodes.split is not None
    alone = _alone(graph, folder, engine, progress)
    statistics = feature_statistics(alone) if recipe.propagation.scaling == "standard" else None
    plan = plan_of(recipe, statistics)
    inner = engine.propagate(alone, plan.model_copy(update={"rows": "train"}), folder / "training-hops", progress)
    store = engine.propagate(graph, without_folds(plan), folder / "hops", progress)
    prepared = from_store(store, _without_crossfit(recipe))
    return replace(prepared, recipe=recipe, train=_rows(inner, recipe, "train"), statistics=statistics)


def _alone(graph: Graph, folder: Path, engine: Propagator, progress: Progress) -> Graph:
    """The graph of training nodes alone."""
    assert graph.nodes.split is not None
    return engine.induce(graph, graph.nodes.split.train, folder / "training-graph", progress)


def _prepare_two(
    graph: Graph, valid_graph: Graph, recipe: Recipe, folder: Path, engine: Propagator, progress: Progress
) -> Prepared:
    """Train on one graph, validate on another."""
    labels = graph.nodes.labels
    assert labels is not None
    valid_graph = with_classes(valid_graph, labels.classes)
    check_width(valid_graph, width_of(graph))
    if recipe.labels_used and not valid_graph.trainable:
        # Label hops of a graph without training labels are all zero (docs/method.md, section 5).
        recipe = recipe.changed({"model.beta": 0.0})
    if recipe.training.setting == "inductive" and graph.nodes.split is not None:
        graph = _alone(graph, folder, engine, progress)
    statistics = feature_statistics(graph) if recipe.propagation.scaling == "standard" else None
    plan = plan_of(recipe, statistics)
    inner = engine.propagate(graph, plan.model_copy(update={"rows": "train"}), folder / "training-hops", progress)
    store = engine.propagate(valid_graph, without_folds(plan), folder / "hops", progress)
    train = _rows(inner, recipe, "train")
    check_targets(train, labels)
    rows = valid_rows(valid_graph)
    valid = rows_of(store, recipe, rows)
    return Prepared(recipe, train, valid, store, _shape(inner, recipe), labels.classes, labels.many, statistics)


def from_store(store: HopStore, recipe: Recipe) -> Prepared:
    """Rows of a finished store; one that another plan made is refused."""
    check_store(store, plan_of(recipe))
    labels, split = store.labels, store.split
    if labels is None or split is None:
        lacks = "labels" if labels is None else "split"
        raise GamlpError(f"the store has no {lacks}", file=store.folder, hint="propagate a graph that has them")
    train = _rows(store, recipe, "train")
    check_targets(train, labels)
    valid = _rows(store, _without_crossfit(recipe), "valid")
    return Prepared(
        recipe, train, valid if len(valid) else None, store, _shape(store, recipe), labels.classes, labels.many
    )


def reopened(store: HopStore, inner: HopStore | None, recipe: Recipe, valid: str) -> Prepared:
    """What was prepared before, from its finished stores. `valid`: rows of the `split`, all `labelled`, or `none`.

    `inner` holds the training rows where they were propagated apart.
    """
    inner = store if inner is None else inner
    labels, split = inner.labels, store.split
    assert labels is not None and store.labels is not None
    train = _rows(inner, recipe, "train")
    known = store.labels.known()
    chosen: HopRows | None = None
    if valid == "labelled":
        chosen = rows_of(store, recipe, np.flatnonzero(known))
    elif valid == "split" and split is not None:
        chosen = rows_of(store, recipe, split.valid[known[split.valid]])
    return Prepared(recipe, train, chosen, store, _shape(inner, recipe), labels.classes, labels.many)


def prepare_split(
    graph: Graph,
    recipe: Recipe,
    features: HopStore,
    folder: Path,
    *,
    rows: str = "split",
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Prepared:
    """One of several splits of a graph: features come from a store that all splits share, labels from their own."""
    check_trainable(graph)
    graph, recipe = ready(graph, recipe, folder, progress)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    plan = plan_of(recipe)
    check_store(features, plan.model_copy(update={"labels": None}))
    store = features
    if plan.labels is not None:
        own = plan.model_copy(update={"features": None, "rows": rows})
        store = resources.engine().propagate(graph, own, folder, progress)
    known = labels.known()
    shared = rows_of(store, recipe, split.train[known[split.train]], features)
    train = _to_train_on(shared, recipe)
    check_targets(train, labels)
    valid = replace(shared, rows=split.valid[known[split.valid]])
    return Prepared(recipe, train, valid, store, _shape(features, recipe), labels.classes, labels.many)


def rows_of(store: HopStore, recipe: Recipe, rows: Array, features_from: HopStore | None = None) -> HopRows:
    """Chosen rows, as a trained model reads them: label hops from all training labels."""
    features = plan_of(recipe, labels=False).features
    assert features is not None
    label_hops = recipe.propagation.label_hops if recipe.labels_used else None
    views = views_of(recipe)
    if views is None:
        names = tuple(features.names)
        return HopRows(store, rows, recipe.propagation.hops, label_hops, False, features_from, names)
    found = (features_from or store).channels(views, apart=recipe.relations.apart == "yes")
    names = tuple(channel.signal for channel in found)
    return HopRows(store, rows, recipe.propagation.hops, label_hops, False, features_from, names, views)


def _rows(store: HopStore, recipe: Recipe, role: str) -> HopRows:
    labels, split = store.labels, store.split
    assert labels is not None and split is not None
    rows = split.rows(role)
    rows = rows[labels.known()[rows]]
    found = rows_of(store, recipe, rows)
    return _to_train_on(found, recipe) if role == "train" else found


def _to_train_on(rows: HopRows, recipe: Recipe) -> HopRows:
    """Cross-fitted, and some views a step, where the recipe says so."""
    crossfit = recipe.labels_used and recipe.propagation.folds > 1
    return replace(rows, crossfit=crossfit, sample=recipe.training.subset_sample if rows.views != ("",) else 0)


def _shape(store: HopStore, recipe: Recipe) -> Shape:
    labels = store.labels
    assert labels is not None
    label_hops = recipe.propagation.label_hops if recipe.labels_used else 0
    signals, views = store.manifest.signals, views_of(recipe)
    hops, classes = recipe.propagation.hops, len(labels.classes)
    if views is None:
        width = signals["features"].width
        return Shape(width, classes, hops, label_hops, 1 + len(recipe.propagation.also_r))
    channels = store.channels(views, apart=recipe.relations.apart == "yes")
    parts = tuple(Part(channel.view, channel.kind, signals[channel.signal].width) for channel in channels)
    width = max(part.width for part in parts)
    return Shape(width, classes, hops, label_hops, len(parts), parts, views if recipe.labels_used else ())


def hops_for(
    bundle: Bundle, graph: Graph, folder: Path | Place, resources: Resources = HERE, progress: Progress = silent
) -> HopStore:
    """Hops of another graph, as the bundle's model reads them."""
    graph = with_classes(graph, bundle.classes)
    check_made(graph, bundle)
    graph = with_features(graph, bundle.recipe, folder, progress)
    check_fits(graph, bundle)
    if bundle.recipe.labels_used and not graph.trainable:
        raise GamlpError(
            f"the model listens to known labels, and graph '{graph.name}' has no training rows",
            hint="give the graph labels with split 'train', or train with model.beta 0",
        )
    known = bundle.statistics
    statistics = None
    if known is not None:
        statistics = Statistics(mean=tuple(known["mean"].tolist()), deviation=tuple(known["deviation"].tolist()))
    plan = without_folds(plan_of(bundle.recipe, statistics)).model_copy(update={"rows": "all"})
    return resources.engine().propagate(graph, plan, folder, progress)


def without_folds(plan: Plan) -> Plan:
    """For rows that are not trained on: their label hops come from all training labels."""
    return (
        plan if plan.labels is None else plan.model_copy(update={"labels": plan.labels.model_copy(update={"folds": 0})})
    )


def _without_crossfit(recipe: Recipe) -> Recipe:
    return recipe.changed({"propagation.folds": 0}) if recipe.propagation.folds else recipe
