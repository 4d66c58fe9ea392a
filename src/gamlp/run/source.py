"""What training starts from: a graph folder, a dataset's name or a store; and a recipe that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets import data_folder, find_dataset, is_dataset, open_or_load
from gamlp.graph.ingest import IngestReport
from gamlp.io import Place, is_url
from gamlp.models import check_operators, labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe, published_recipe, shipped_names
from gamlp.training import Origin, resolve_as_of, resolve_relations, resolve_unlabelled, with_columns


@dataclass(frozen=True)
class Source:
    """What is trained on: a graph, or the hops of one."""

    name: str
    origin: Origin | None
    graph: Graph | None = None
    store: HopStore | None = None
    ingested: IngestReport | None = None  # of tables that were read just now

    @property
    def opened(self) -> Graph:
        if self.graph is None:
            raise GamlpError("is a store where a graph is expected", file=self.name, hint="give the graph folder")
        return self.graph


def open_source(place: str, data_dir: str | Path | None = None, seed: int = 0, progress: Progress = silent) -> Source:
    """A graph folder, a dataset by name, or a store; behind a URL too."""
    found = Place.of(place)
    if (found / "store.json").exists() or (found / "plan.json").exists():
        store = HopStore.open(found)
        behind = store.manifest.graph_folder
        known = store.manifest.graph if behind is None and is_dataset(store.manifest.graph) else behind
        return Source(place, None if known is None else Origin(graph=known), store=store)
    graph = open_or_load(place, data_dir, seed, progress)
    if is_url(place) or Path(place).is_dir():
        return Source(place, Origin(graph=found.resolved().url), graph)
    dataset = find_dataset(place)
    raw = data_folder(data_dir) if dataset.raw or dataset.plugin is not None else None
    origin = Origin(graph=dataset.name, data_dir=None if raw is None else str(raw.resolve()), seed=seed)
    return Source(dataset.name, origin, graph)  # ogbn-papers100M is called ogbn-papers100m


def as_source(given: Source | Graph | str | Path) -> Source:
    """What a person gives to train on: opened where it is a place or a name."""
    if isinstance(given, Source):
        return given
    if isinstance(given, Graph):
        origin = None if given.folder is None else Origin(graph=Place.of(given.folder).resolved().url)
        return Source(given.name, origin, given)
    return open_source(str(given))


def default_recipe(source: Source) -> str | None:
    """The shipped recipe of a dataset that is called by its name: as published, or else as it was searched for."""
    if (dataset := _called(source)) is None:
        return None
    searched = (f"{dataset}-jk", f"{dataset}-recursive")
    return published_default(source) or next((name for name in searched if name in shipped_names()), None)


def published_default(source: Source) -> str | None:
    """The recipe of a dataset that is called by its name, where its settings are published."""
    return None if (dataset := _called(source)) is None else published_recipe(dataset)


def _called(source: Source) -> str | None:
    """The name by which a dataset was called; None of any other graph."""
    return source.name if source.origin is not None and source.origin.graph == source.name else None


def resolve_recipe(source: Source, recipe: Recipe, valid: Graph | None = None) -> tuple[Recipe, list[str]]:
    """The recipe as it will be used: what it leaves open is taken from a store; and what was changed, in sentences."""
    check_one_model(recipe)
    notes: list[str] = []
    if source.store is not None:
        if valid is not None or recipe.training.setting == "inductive" or recipe.propagation.as_of_split:
            asked = "a validation graph" if valid is not None else "training.setting inductive"
            asked = "propagation.as_of_split true" if recipe.propagation.as_of_split else asked
            raise GamlpError(
                f"{asked} needs the graph: the rows of a store have seen each other", file=source.name,
                hint="give the graph folder instead",
            )  # fmt: skip
        recipe = _as_stored(recipe, source.store)
    else:
        for resolve in (resolve_unlabelled, resolve_as_of, resolve_relations):
            recipe, more = resolve(source.opened, recipe)
            notes += more
    if valid is not None and source.graph is not None and (source.graph.columns or valid.columns):
        notes += with_columns(valid, source.graph.columns)[1]
    if valid is not None and labels_used(recipe) and not valid.trainable:
        recipe = recipe.changed({"model.beta": 0.0})
        notes.append(
            f"the label branch is off (model.beta 0): graph '{valid.name}' has no training labels to listen to"
        )
    return recipe, notes


def check_one_model(recipe: Recipe) -> None:
    """Refuse what is done around a model by a peer, and by no saved model; and hops that the model would not read."""
    check_operators(recipe)
    for asked, what, method in (
        (recipe.smoothing is not None, "Correct & Smooth ('smoothing')", "correct-and-smooth"),
        (recipe.training.reuse > 0, "label reuse ('training.reuse')", "label-reuse"),
    ):
        if asked:
            raise GamlpError(
                f"{what} needs the whole graph around a model, and a saved model is one alone",
                hint=f"leave it out, or measure the method: gamlp run DATASET --model {method}",
            )


def check_one_stage(recipe: Recipe, where: str) -> None:
    """Refuse stages where models are trained in one."""
    if recipe.training.stages > 1:
        raise GamlpError(f"{where} trains in one stage", hint="set training.stages to 1, or use gamlp train --stages")


def _as_stored(recipe: Recipe, store: HopStore) -> Recipe:
    signals = store.manifest.signals
    found: dict[str, Any] = {}
    if channels := store.channels():
        entry = signals[channels[0].signal]
        found |= {"hops": entry.hops, "scaling": entry.settings["scaling"], "dtype": entry.dtype}
        found |= {"r": entry.settings["operator"]["r"], "loops": entry.settings["operator"]["loops"]}
    if labels := store.channels(signal="labels"):
        entry = signals[labels[0].signal]
        found |= {"label_hops": entry.hops, "label_r": entry.settings["operator"]["r"]}
    if crossfit := store.channels(signal="crossfit"):
        settings = signals[crossfit[0].signal].settings  # stores of the first release do not say these
        found |= {key: settings[key] for key in ("folds", "fold_seed") if key in settings}
    mentioned = recipe.propagation.model_fields_set
    changes = {f"propagation.{key}": value for key, value in found.items() if key not in mentioned}
    if (made := store.manifest.structural) is not None:
        changes["features"] = made.model_dump(mode="json") | {"structural": "alone"}
    directions = [view.direction for view in store.manifest.views.values() if view.direction is not None]
    if directions:
        changes["propagation.directions"] = "both" if len(directions) == 2 else directions[0]
    elif store.manifest.views and not isinstance(recipe.relations.subsets, tuple):
        changes["relations.subsets"] = [view.relation_pairs for view in store.manifest.views.values()]
        changes["relations.separate_types"] = "yes" if any(channel.node_type for channel in channels) else "no"
    if not labels and "beta" not in recipe.model.model_fields_set:
        changes["model.beta"] = 0.0
    return recipe.changed(changes)
