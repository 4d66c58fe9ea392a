"""A graph and a recipe → hops of the rows to train on and to choose by."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.features import fitted_on, written
from gamlp.io import Place, TakeTally, tally_here
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, Plan, Propagator, Statistics, feature_statistics, propagate_as_of
from gamlp.recipe import Recipe
from gamlp.run.resources import LOCAL, Resources
from gamlp.training import (
    Bundle,
    Prepared,
    check_fits,
    check_made,
    check_same_width,
    check_store,
    check_targets,
    check_trainable,
    check_unheard,
    from_store,
    kept_columns,
    kept_statistics,
    matched,
    plan_of,
    prepare_graph,
    reduced_from,
    resolve_as_of,
    resolve_unlabelled,
    role_rows,
    rows_of,
    shape_of,
    to_train_on,
    valid_rows,
    width_of,
    with_classes,
    with_columns,
    with_features,
    without_crossfit,
    without_folds,
)

_STAGED = "the model of a later stage listened to labels that its teacher gave on the graph of training;"


def prepare(
    graph: Graph,
    recipe: Recipe,
    folder: Path | Place,
    *,
    valid_graph: Graph | None = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Prepared:
    """Propagate what training needs into `folder`; hops that are there already are used as they are."""
    check_trainable(graph, recipe)
    recipe, _ = resolve_as_of(graph, resolve_unlabelled(graph, recipe)[0])
    apart = recipe.training.setting == "inductive" or recipe.propagation.as_of_split
    if apart and graph.nodes.split is not None:
        graph = written(fitted_on(graph, graph.nodes.split.train), folder)
    given, reduced, columns = graph, reduced_from(graph, recipe), graph.columns  # before features are made or reduced
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, folder)
        graph, recipe = prepare_graph(graph, recipe, folder, engine, progress, take)
        parts = given.earlier if recipe.propagation.as_of_split else ()
        earlier = {
            part: with_features(given.as_of(part), recipe, folder / "as-of" / part, engine, progress) for part in parts
        }
        if valid_graph is not None:
            graph = earlier.get("train", graph)
            prepared = _prepare_two(graph, valid_graph, recipe, folder, engine, progress)
        elif recipe.training.setting == "inductive":
            prepared = _prepare_inductive(graph, recipe, folder, engine, progress)
        elif earlier:
            prepared = _prepare_as_of(graph, earlier, recipe, folder, engine, progress)
        else:
            prepared = from_store(engine.propagate(graph, plan_of(recipe), folder / "hops", progress), recipe)
    return replace(prepared, reduced_from=reduced, columns=columns)


def _prepare_inductive(
    graph: Graph, recipe: Recipe, folder: Path | Place, engine: Propagator, progress: Progress
) -> Prepared:
    """Training rows on the graph of training nodes alone; the others on the whole graph."""
    assert graph.nodes.split is not None
    alone = _alone(graph, recipe, folder, engine, progress)
    statistics = _statistics(alone, recipe)
    plan = plan_of(recipe, statistics)
    inner = engine.propagate(alone, _rows_to_train(plan, recipe), folder / "training-hops", progress)
    store = engine.propagate(graph, without_folds(plan), folder / "hops", progress)
    prepared = from_store(store, without_crossfit(recipe))
    return replace(prepared, recipe=recipe, train=role_rows(inner, recipe, "train"), statistics=statistics)


def _rows_to_train(plan: Plan, recipe: Recipe) -> Plan:
    """Training rows of the graph that is trained on, and those without labels where they are read too."""
    return plan.model_copy(update={"rows": "all" if recipe.reads_unlabelled else "train"})


def _prepare_as_of(
    graph: Graph,
    earlier: dict[str, Graph],
    recipe: Recipe,
    folder: Path | Place,
    engine: Propagator,
    progress: Progress,
) -> Prepared:
    """Rows of a split by time, each on the graph as of the end of its own part; nothing is taken from later rows."""
    assert graph.nodes.split is not None
    # Features that are made of edges differ between the graphs: what scales them is that of training rows as of then.
    statistics = _statistics(earlier["train"], recipe, graph.nodes.split.train)
    plan = plan_of(recipe, statistics)
    return from_store(propagate_as_of(engine, graph, earlier, plan, folder / "hops", progress), recipe)


def _statistics(graph: Graph, recipe: Recipe, rows: Array | None = None) -> dict[str, Statistics] | None:
    """What `standard` scaling goes by where hops of several graphs must agree, by node type.

    `rows`: of the target, whose features alone are looked at.
    """
    if recipe.propagation.scaling != "standard":
        return None
    have = [node_type for node_type, nodes in graph.node_types.items() if nodes.features is not None]
    return {
        node_type: feature_statistics(replace(graph, target=node_type), rows if node_type == graph.target else None)
        for node_type in have
    }


def _alone(graph: Graph, recipe: Recipe, folder: Path | Place, engine: Propagator, progress: Progress) -> Graph:
    """The graph of training nodes alone; features that are made of edges are made of its own."""
    assert graph.nodes.split is not None
    alone = engine.induce(graph, graph.nodes.split.train, folder / "training-graph", progress)
    return with_features(alone, recipe, folder, engine, progress)


def _prepare_two(
    graph: Graph, valid_graph: Graph, recipe: Recipe, folder: Path | Place, engine: Propagator, progress: Progress
) -> Prepared:
    """Train on one graph, validate on another."""
    labels = graph.nodes.labels
    assert labels is not None
    valid_graph, _ = with_columns(with_classes(valid_graph, labels.classes), graph.columns)
    valid_graph = written(valid_graph, folder)
    valid_graph = with_features(valid_graph, recipe, folder, engine, progress)
    check_same_width(valid_graph, width_of(graph))
    if labels_used(recipe) and not valid_graph.trainable:
        # Label hops of a graph without training labels are all zero (docs/method.md, section 5).
        recipe = recipe.changed({"model.beta": 0.0})
    if labels_used(recipe):
        check_unheard(valid_graph)
    if recipe.training.setting == "inductive" and graph.nodes.split is not None:
        graph = _alone(graph, recipe, folder, engine, progress)
    by_time = recipe.propagation.as_of_split and graph.nodes.split is not None
    statistics = _statistics(graph, recipe, graph.nodes.split.train if by_time and graph.nodes.split else None)
    plan = plan_of(recipe, statistics)
    inner = engine.propagate(graph, _rows_to_train(plan, recipe), folder / "training-hops", progress)
    store = engine.propagate(valid_graph, without_folds(plan), folder / "hops", progress)
    train = role_rows(inner, recipe, "train")
    check_targets(train, labels)
    rows = valid_rows(valid_graph)
    valid = rows_of(store, recipe, rows)
    return Prepared(
        recipe, train, valid, store, shape_of(inner, recipe), labels.classes, labels.multi_label, statistics
    )


def prepare_split(
    graph: Graph,
    recipe: Recipe,
    features: HopStore,
    folder: Path,
    *,
    rows: str = "split",
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Prepared:
    """One of several splits of a graph: features come from a store that all splits share, labels from their own."""
    check_trainable(graph, recipe)
    recipe, _ = resolve_unlabelled(graph, recipe)
    with closing(resources.open_engine()) as engine:
        graph, recipe = prepare_graph(graph, recipe, folder, engine, progress)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    plan = plan_of(recipe)
    check_store(features, plan.model_copy(update={"labels": None}))
    store = features
    if plan.labels is not None:
        own = plan.model_copy(update={"features": None, "rows": rows})
        store = propagate(graph, own, folder, resources, progress)
    known = labels.known()
    shared = rows_of(store, recipe, split.train[known[split.train]], features)
    train = to_train_on(shared, recipe)
    check_targets(train, labels)
    valid = replace(shared, rows=split.valid[known[split.valid]])
    return Prepared(
        recipe, train, valid, store, shape_of(features, recipe), labels.classes, labels.multi_label,
        kept_statistics(features), kept_columns(features),
    )  # fmt: skip


def propagate(
    graph: Graph,
    plan: Plan,
    folder: str | Path | Place,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> HopStore:
    """Run a plan over a graph into a store."""
    with closing(resources.open_engine()) as engine:
        return engine.propagate(graph, plan, folder, progress)


def hops_for(
    bundle: Bundle, graph: Graph, folder: Path | Place, resources: Resources = LOCAL, progress: Progress = silent
) -> HopStore:
    """Hops of another graph, as the bundle's model reads them: columns by name, scaled as those of training were."""
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, folder)
        graph, plan, _ = as_model_reads(bundle, graph, folder, engine, progress, take)
        return engine.propagate(graph, plan, folder, progress)


def as_model_reads(
    bundle: Bundle,
    graph: Graph,
    folder: Path | Place,
    engine: Propagator,
    progress: Progress = silent,
    take: TakeTally = tally_here,
) -> tuple[Graph, Plan, list[str]]:
    """Another graph and what is to be propagated of it for a bundle's model; and what a person should know of it.

    `folder`: where features are kept that are made for it, if the graph has no folder of its own.
    """
    graph, notes = matched(with_classes(graph, bundle.classes), bundle)
    graph = written(graph, folder)
    check_made(graph, bundle)
    graph = with_features(graph, bundle.recipe, folder, engine, progress, take)
    check_fits(graph, bundle)
    if labels_used(bundle.recipe) and not graph.trainable:
        raise GamlpError(
            f"the model listens to known labels, and graph '{graph.name}' has no training rows",
            hint="give the graph labels with split 'train', or train with model.beta 0",
        )
    if bundle.report.get("stage") and labels_used(bundle.recipe):
        notes = [*notes, f"{_STAGED} graph '{graph.name}' has true labels alone: answers may be weaker there"]
    plan = without_folds(plan_of(bundle.recipe, bundle.statistics)).model_copy(update={"rows": "all"})
    return graph, plan, notes
