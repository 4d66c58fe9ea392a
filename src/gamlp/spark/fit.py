"""What the estimator does on Spark: graphs from DataFrames, training in tasks, scores, hops to predict by."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph, fingerprint
from gamlp.graph.ingest import states_schema
from gamlp.io import Place
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import (
    Resources,
    RowsOfPart,
    check_one_model,
    check_one_stage,
    evaluate_rows,
    hops_for,
    prepare,
    propagate,
)
from gamlp.spark.ingest import spark_graph
from gamlp.spark.params import GAMLPParams
from gamlp.spark.work_places import work_place
from gamlp.training import (
    Bundle,
    NoFolder,
    Prepared,
    SeedFiles,
    by_time,
    check_trainable,
    check_width,
    from_store,
    matched,
    plan_of,
    prepare_graph,
    train_seeds,
    with_classes,
)


@dataclass(frozen=True)
class Home:
    """Where the hops of a fit lie, and of which graph they are. `labels` are the training labels they were made of."""

    place: str
    nodes: str
    labels: str

    def store_of(self, graph: Graph, bundle: Bundle) -> HopStore | None:
        """The hops, if they are still there and those of this graph."""
        place = Place.of(self.place) / "hops"
        if bundle.recipe.propagation.rows != "all" or fingerprint.inputs(graph) != self.nodes:
            return None
        if graph.trainable and labels_used(bundle.recipe) and fingerprint.training_labels(graph) != self.labels:
            return None
        return HopStore.open(place, copies=False) if (place / "store.json").exists() else None


@dataclass(frozen=True)
class Fit:
    """A trained bundle with its scores, and the home of its hops."""

    bundle: Bundle
    home: Home
    test: dict[str, float] = field(default_factory=dict)


def resources_of(params: GAMLPParams) -> Resources:
    return Resources(
        memory=params.getMemory(),
        device="cpu",
        processes=params.getNumProcesses(),
        engine="spark",
        settings={"executor_wait": params.getExecutorWait()}
        | ({} if params.getBlocks() is None else {"blocks": params.getBlocks()}),
    )


def build(
    spark: Any,
    params: GAMLPParams,
    nodes: Any,
    edges: Any,
    place: Place,
    *,
    bundle: Bundle | None = None,
    progress: Progress = silent,
) -> Graph:
    """The graph of two DataFrames, written by tasks; columns are fitted, or encoded by the states of a bundle."""
    options = params.graph_options(nodes.columns, fit=bundle is None, name="nodes")
    known = [] if bundle is None else [column for one in bundle.columns.values() for column in one]
    given = {name.strip() for name in params.getFeaturesCol().split(",")}
    # Columns that are missing are told later, as those of every other graph are.
    if bundle is not None and any(one.state is not None for one in known) and {one.name for one in known} <= given:
        options = replace(options, schema=states_schema(bundle.columns))
    try:
        spark_graph(spark, edges, nodes, place, options, blocks=params.getBlocks(), progress=progress)
    except GamlpError as error:
        if error.hint is None and error.column in (params.getSrcCol(), params.getDstCol()):  # an end that is no node
            hint = "give all nodes; or name them with setNodes, and the edges with setEdges, and give some"
            raise GamlpError(error.problem, file=error.file, column=error.column, hint=hint) from None
        raise
    return Graph.open(place)


def recipe_of(params: GAMLPParams) -> Recipe:
    """The recipe as it will be used."""
    recipe = Recipe.of(params.getRecipe(), trust=params.getTrust())
    check_one_model(recipe)
    check_one_stage(recipe, "the estimator for DataFrames")
    if "seeds" not in recipe.training.model_fields_set:
        recipe = recipe.changed({"training.seeds": [params.getSeed()]})
    given = {"training.exchange": params.getExchange(), "training.servers": params.getServers()}
    if changes := {name: value for name, value in given.items() if value is not None}:
        recipe = recipe.changed(changes)
    return recipe


class SharedGraphs:
    """Graphs of one table for several sets of parameters: those that differ in the recipe alone have the same graph."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[object, ...], Graph] = {}

    def graph_of(self, params: GAMLPParams, make: Callable[[], Graph]) -> Graph:
        """The graph; it is made once, however many ask at the same time."""
        key = (
            repr(params.graph_options([], fit=True, name="")), params.getBlocks(), params.getSplitCol(),
            id(params.getEdges()), id(params.getNodes()),
        )  # fmt: skip
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


def fitted(
    spark: Any,
    params: GAMLPParams,
    nodes: Any,
    edges: Any,
    place: Place,
    progress: Progress = silent,
    shared: SharedGraphs | None = None,
) -> Fit:
    """Graph, hops and training, all in tasks; of several seeds the best by validation."""
    recipe = recipe_of(params)
    if shared is None:
        graph = build(spark, params, nodes, edges, place / "graph", progress=progress)
    else:
        beside = partial(work_place, spark, params)
        graph = shared.graph_of(params, lambda: build(spark, params, nodes, edges, beside() / "graph"))
    resources = resources_of(params)
    prepared = _prepared(graph, recipe, resources, place, progress)
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, place)
        bundles, best = train_seeds(prepared, engine.fit, TaskFolder(place), take=take, progress=progress)
    bundle = bundles[best]
    home = Home(place.resolved().url, fingerprint.inputs(graph), fingerprint.training_labels(graph))
    return Fit(bundle, home, _test_scores(bundle, prepared.store, resources))


def _prepared(graph: Graph, recipe: Recipe, resources: Resources, place: Place, progress: Progress) -> Prepared:
    if recipe.training.setting == "transductive" and not by_time(graph, recipe):
        check_trainable(graph, recipe)
        with closing(resources.open_engine()) as engine:
            graph, recipe = prepare_graph(graph, recipe, place, engine, progress, partial(engine.tally, place))
        return from_store(propagate(graph, plan_of(recipe), place / "hops", resources, progress), recipe)
    return prepare(graph, recipe, place.local or place, resources=resources, progress=progress)


@dataclass(frozen=True)
class TaskFolder(NoFolder):
    """Where tasks leave checkpoints and results of a seed, until it is trained."""

    place: Place

    def files(self, seed: int, member: int | None = None) -> SeedFiles:
        name = f"seed-{seed}" if member is None else f"seed-{seed}-model-{member}"
        return SeedFiles(checkpoint=self.place / f"{name}.checkpoint", job=self.place / name)

    def keep(self, seed: int, bundle: Bundle, member: int | None = None) -> None:
        checkpoint = self.files(seed, member).checkpoint
        assert isinstance(checkpoint, Place)
        checkpoint.remove()


def _test_scores(bundle: Bundle, store: HopStore, resources: Resources) -> dict[str, float]:
    """Of labelled test rows whose hops were kept; none where there are no such rows."""
    found = evaluate_rows({0: bundle}, store, RowsOfPart("test", kept_alone=True), resources)
    return dict(found["seeds"][0]) if found["rows"] else {}


def hops_of(
    params: GAMLPParams, bundle: Bundle, home: Home | None, graph: Graph, place: Place, progress: Progress = silent
) -> HopStore:
    """Hops of the graph: those of the fit where it is the same one, else propagated into `place`."""
    graph, notes = matched(graph, bundle)
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    check_width(graph, bundle.shape.features)
    graph = with_classes(graph, bundle.classes)
    kept = None if home is None else home.store_of(graph, bundle)
    return kept or hops_for(bundle, graph, place, resources_of(params), progress)
