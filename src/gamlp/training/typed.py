"""Graphs made ready: features where there are none, and a recipe whose views are settled."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest, fingerprint, told_apart, total_width, view_name, view_of
from gamlp.io import Place, Ranges, State, TakeTally, tally_here
from gamlp.models import Part, Shape, labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import (
    Propagator,
    Reach,
    choose_subsets,
    structural_schema,
    structural_words,
    with_structural_features,
)
from gamlp.recipe import Recipe, RelationsSettings


def resolve_relations(graph: Graph, recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe as it fits a graph, and what was changed or left out, in sentences; done twice it changes nothing.

    Of several relations it lists its subsets; of one, it says whether features are made and directions told apart.
    """
    if not graph.heterogeneous:
        if isinstance(recipe.relations.subsets, tuple):
            raise GamlpError(
                f"graph '{graph.name}' has one relation, and the recipe lists subsets of several",
                hint="leave relations.subsets out",
            )
        return _resolve_one_relation(graph, recipe)
    if recipe.propagation.directions != "in":
        raise GamlpError(
            "directions are told apart on graphs of one relation alone", hint="set propagation.directions to in"
        )
    if recipe.training.setting == "inductive":
        raise GamlpError("the inductive setting reads graphs of one relation", hint="set training.setting transductive")
    if recipe.propagation.also_r:
        raise GamlpError(
            "further operators are read on graphs of one relation alone", hint="leave propagation.also_r empty"
        )
    wanted = recipe.propagation
    label_r = wanted.r if wanted.label_r is None else wanted.label_r
    reach = Reach(wanted.hops, wanted.label_hops if labels_used(recipe) else 0, max(wanted.r, label_r) > 0)
    chosen = choose_subsets(graph, recipe.relations, reach)
    subsets = [list(view_of(graph, subset).relation_pairs) for subset in chosen.subsets]
    changes = {"relations.subsets": subsets, "relations.separate_types": _separate_types(graph, recipe)}
    notes = list(chosen.notes)
    if recipe.relations.missing == "complex" and all(nodes.features is None for nodes in graph.node_types.values()):
        notes.append(f"graph '{graph.name}' has no features: ComplEx embeddings of its relations are made")
    return recipe.changed(changes), notes


def _resolve_one_relation(graph: Graph, recipe: Recipe) -> tuple[Recipe, list[str]]:
    notes: list[str] = []
    if recipe.propagation.directions != "in":
        if not graph.relation.directed:
            notes.append(
                f"edges of graph '{graph.name}' lead both ways: propagation.directions "
                f"{recipe.propagation.directions} is left aside"
            )
            recipe = recipe.changed({"propagation.directions": "in"})
        elif recipe.propagation.also_r:
            raise GamlpError(
                "further operators are read in one direction alone",
                hint="leave propagation.also_r empty, or set propagation.directions to in",
            )
    if recipe.features.structural == "auto" and graph.nodes.features is None:
        recipe = recipe.changed({"features.structural": "alone"})
        made = structural_words(structural_schema(graph, recipe.features))
        notes.append(f"graph '{graph.name}' has no features: they are made of its edges ({made})")
    return recipe, notes


def _separate_types(graph: Graph, recipe: Recipe) -> str:
    """One signal for all types where their features have one width as they are given, and what is made has it too."""
    wanted = recipe.relations
    if wanted.separate_types != "auto":
        return wanted.separate_types
    widths = {nodes.features.width for nodes in graph.node_types.values() if nodes.features is not None}
    if len(widths) != 1:
        return "yes"
    width = widths.pop()
    width = min(width, wanted.reduce) if wanted.reduce else width
    from gamlp.graph.features import made_width

    embedded = wanted.missing == "complex" and any(nodes.features is None for nodes in graph.node_types.values())
    return "yes" if embedded and made_width(graph, wanted) != width else "no"


@dataclass(frozen=True)
class CompletedWork:
    """Features that are made for a graph's types, as one range of a tally: they are kept `beside`, and found there.

    Another process opens the graph's folder.
    """

    graph: Graph
    wanted: RelationsSettings
    beside: Place
    progress: Progress = silent

    def __call__(self, ranges: Ranges) -> State:
        from gamlp.graph.features import completed

        made = completed(self.graph, self.wanted, self.beside, self.progress)
        return {"types": np.array(len(made.node_types))}

    def __reduce__(self) -> tuple[Any, ...]:
        assert self.graph.folder is not None
        return _opened_work, (Place.of(self.graph.folder).resolved(), self.wanted, self.beside.resolved())


def _opened_work(folder: Place, wanted: RelationsSettings, beside: Place) -> CompletedWork:
    return CompletedWork(Graph.open(folder), wanted, beside)


def _is_its_folder(graph: Graph) -> bool:
    """Whether the graph is what its folder holds: one of earlier nodes alone, say, is not."""
    if graph.folder is None:
        return False
    held = Graph.open(graph.folder)
    return fingerprint.structure(held) == fingerprint.structure(graph) and fingerprint.inputs(
        held
    ) == fingerprint.inputs(graph)


def with_features(
    graph: Graph,
    recipe: Recipe,
    beside: Path | Place,
    engine: Propagator,
    progress: Progress = silent,
    take: TakeTally = tally_here,
) -> Graph:
    """Features for types that have none, and narrower ones; kept with the graph, or `beside` where that cannot be.

    The recipe is one that was resolved for a graph: `auto` in it means that the graph had features. `take` has them
    made elsewhere; the default, here.
    """
    if not graph.heterogeneous and recipe.features.structural != "alone":
        return graph
    from gamlp.graph.features import FOLDER, completed, is_complete

    place = Place.of(beside)
    if graph.folder is not None:
        own = Place.of(graph.folder)
        if own.local is None or os.access(own.local, os.W_OK):
            place = own
    if graph.heterogeneous:
        if not is_complete(graph, recipe.relations) and _is_its_folder(graph):
            work = CompletedWork(graph, recipe.relations, place, progress)
            for _ in take(work, [(0, 1)], "features that are made"):
                pass
        return completed(graph, recipe.relations, place, progress)
    return with_structural_features(graph, recipe.features, engine, place / FOLDER, Place.of(beside) / FOLDER, progress)


def reduced_from(graph: Graph, recipe: Recipe) -> str | None:
    """Changes with the features that are brought to fewer columns: the basis is made from them; None: none are."""
    wide = [
        node_type
        for node_type, nodes in graph.node_types.items()
        if nodes.features is not None and 0 < recipe.relations.reduce < nodes.features.width
    ]
    return (
        digest([[node_type, fingerprint.features(graph, node_type)] for node_type in wide])
        if graph.heterogeneous and wide
        else None
    )


def prepare_graph(
    graph: Graph,
    recipe: Recipe,
    beside: Path | Place,
    engine: Propagator,
    progress: Progress = silent,
    take: TakeTally = tally_here,
) -> tuple[Graph, Recipe]:
    """Both; a graph of one relation that has features stays as it is."""
    recipe, _ = resolve_relations(graph, recipe)
    return with_features(graph, recipe, beside, engine, progress, take), recipe


def views_of(recipe: Recipe) -> tuple[str, ...] | None:
    """Names of a settled recipe's views; None on a graph of one relation, unless directions are told apart."""
    subsets = recipe.relations.subsets
    if isinstance(subsets, tuple):
        return tuple(view_name(subset) for subset in subsets)
    return told_apart(recipe.propagation.directions) or None


def expected_shape(graph: Graph, recipe: Recipe) -> Shape:
    """What a model will be built for, known before anything is propagated; widths that are to be made are guessed."""
    labels = graph.nodes.labels
    assert labels is not None
    label_hops = recipe.propagation.label_hops if labels_used(recipe) else 0
    channels = 1 + len(recipe.propagation.also_r)
    features = graph.nodes.features
    width = 1 if features is None else features.width
    recipe, _ = resolve_relations(graph, recipe)
    if not graph.heterogeneous:
        if recipe.features.structural == "alone":
            width = total_width(structural_schema(graph, recipe.features))
        found = views_of(recipe) or ()
        sides = tuple(Part(view, None, width) for view in found)
        heard = found if label_hops else ()
        return Shape(
            width, len(labels.classes), recipe.propagation.hops, label_hops, max(channels, len(sides)), sides, heard
        )
    assert isinstance(recipe.relations.subsets, tuple)
    views = [view_of(graph, subset) for subset in recipe.relations.subsets]
    node_types = (
        [None]
        if recipe.relations.separate_types == "no"
        else [*dict.fromkeys(node_type for view in views for node_type in view.types)]
    )
    parts = tuple(
        Part(view.name, node_type, width)
        for node_type in node_types
        for view in views
        if node_type is None or node_type in view.types
    )
    names = tuple(view.name for view in views) if label_hops else ()
    return Shape(width, len(labels.classes), recipe.propagation.hops, label_hops, len(parts), parts, names)
