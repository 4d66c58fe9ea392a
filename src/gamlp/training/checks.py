"""What is refused before training or prediction begins, each in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, UNKNOWN, Graph, Labels, fingerprint, told_apart, view_name
from gamlp.io import mapped_rows, row_ranges
from gamlp.models import is_solved, labels_used
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, Operator, Plan
from gamlp.recipe import Recipe
from gamlp.training.batches import HopRows
from gamlp.training.bundle import Bundle
from gamlp.training.typed import reduced_from

_ROWS = 1 << 20  # labels and roles looked at at a time
_TRAIN, _VALID = ROLES.index("train"), ROLES.index("valid")
_LACKING = {"features": "propagate them too", "labels": "propagate them too, or set model.beta to 0"}


def check_trainable(graph: Graph, recipe: Recipe | None = None) -> None:
    """Labels, training rows, and features where the recipe says that none are to be made: what is lacking is told."""
    nodes = graph.nodes
    if recipe is not None and recipe.features.structural == "none":
        check_features(graph)
    if nodes.labels is None:
        raise GamlpError(f"graph '{graph.name}' has no labels", hint="ingest a label column")
    if nodes.split is None:
        raise GamlpError(f"graph '{graph.name}' has no split", hint="ingest a split column, or let ingest make one")
    if not nodes.split.count("train"):
        raise GamlpError(f"graph '{graph.name}' has no training rows", hint="mark some rows 'train' in its split")
    if recipe is not None:
        _check_steps(recipe)


def _check_steps(recipe: Recipe) -> None:
    """Refuse what belongs to training in steps for a model that is solved."""
    asked = [
        ("consistency", "null", recipe.consistency is not None and recipe.consistency.weight > 0),
        ("training.stages", "1", recipe.training.stages > 1),
        ("training.ema", "0", recipe.training.ema > 0),
    ]
    for name, without, wanted in asked:
        if wanted and is_solved(recipe):
            raise GamlpError(
                f"model '{recipe.model.name}' is solved at once, and '{name}' belongs to training in steps",
                hint=f"leave it out: --set {name}={without}",
            )


def resolve_unlabelled(graph: Graph, recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe without what reads rows without labels, where the training graph has none; and that, in a sentence.

    Done twice it changes nothing.
    """
    labels, split = graph.nodes.labels, graph.nodes.split
    if not recipe.reads_unlabelled or labels is None or split is None:
        return recipe, []
    inductive = recipe.training.setting == "inductive"
    trained = sum(np.count_nonzero(labels.known_at(rows)) for rows in split.parts("train"))
    if (split.count("train") if inductive else graph.nodes.count) <= trained:
        said = "consistency and stages read rows without labels, and the training graph has none: they are left out"
        return recipe.changed({"consistency": None, "training.stages": 1}), [said]
    if inductive and recipe.training.stages > 1 and labels_used(recipe):
        raise GamlpError(
            "stages with hops of labels are trained in the transductive setting",
            hint="set model.beta to 0, training.stages to 1 or training.setting to transductive",
        )
    return recipe, []


def check_features(graph: Graph) -> None:
    """Refuse a graph of one relation that has none."""
    if graph.nodes.features is None and not graph.heterogeneous:
        raise GamlpError(
            f"graph '{graph.name}' has no features",
            hint="give its nodes some, or let them be made of its edges: --set features.structural=auto",
        )


def check_width(graph: Graph, width: int) -> None:
    """Features of another width are refused; of a graph without any `check_fits` tells: they may yet be made."""
    if graph.nodes.features is not None:
        check_same_width(graph, width)


def check_same_width(graph: Graph, width: int) -> None:
    """Features of another width, or none, are refused."""
    if width_of(graph) != width:
        raise GamlpError(
            f"graph '{graph.name}' has {width_of(graph)} features where the model expects {width}",
            hint="give the same columns as in training",
        )


def check_fits(graph: Graph, bundle: Bundle) -> None:
    """Features of other widths, types or relations than the model was trained on are refused."""
    parts = bundle.shape.parts
    one_relation = not isinstance(bundle.recipe.relations.subsets, tuple)
    if one_relation:
        if graph.heterogeneous:
            raise GamlpError(f"graph '{graph.name}' has several relations, and the model was trained on one")
        check_same_width(graph, bundle.shape.features)
        return
    for node_type, width in dict.fromkeys((part.node_type, part.width) for part in parts):
        node_types = graph.node_types if node_type is None else [node_type]
        for name in node_types:
            nodes = graph.node_types.get(name)
            found = 0 if nodes is None or nodes.features is None else nodes.features.width
            if found != width and not (node_type is None and found == 0):
                raise GamlpError(
                    f"graph '{graph.name}' has {found} features of {name} where the model expects {width}",
                    hint="give the same types and columns as in training",
                )


def check_made(graph: Graph, bundle: Bundle) -> None:
    """What is made for one graph means nothing on another: embeddings, and columns of a basis of its own."""
    wanted, report = bundle.recipe.relations, bundle.report
    if not bundle.shape.parts or "structure" not in report or not graph.heterogeneous:
        return  # what is made of the edges of one relation is made by original ids, and holds on other graphs
    lacking = any(nodes.features is None or not nodes.features.width for nodes in graph.node_types.values())
    elsewhere = fingerprint.structure(graph) != report["structure"]
    embedded = elsewhere and wanted.missing == "complex" and lacking
    basis, own = report.get("reduced_from"), reduced_from(graph, bundle.recipe)
    # Where training saw a store alone, its features are not known: the edges tell the graph.
    reduced = basis != own if basis is not None else elsewhere and own is not None
    if embedded or reduced:
        raise GamlpError(
            f"features that were made for the graph of training mean nothing on graph '{graph.name}'",
            hint="train with relations.missing mean or none, and relations.reduce 0, to predict on other graphs",
        )


def width_of(graph: Graph) -> int:
    """Number of features."""
    return 0 if graph.nodes.features is None else graph.nodes.features.width


def with_classes(graph: Graph, classes: tuple[str, ...]) -> Graph:
    """The graph with its labels numbered as in training; a class that training never saw is told."""
    labels = graph.nodes.labels
    if labels is None or labels.classes == classes:
        return graph
    number = {name: index for index, name in enumerate(classes)}
    if labels.multi_label:
        used = labels.values.max(0) > 0
        _refuse_unseen(graph, [name for name, seen in zip(labels.classes, used) if seen and name not in number])
        values: Array = np.zeros((graph.nodes.count, len(classes)), np.int8)
        for column, name in enumerate(labels.classes):
            if name in number:
                values[:, number[name]] = labels.values[:, column]
        values[~labels.known()] = UNKNOWN
    else:
        used = np.bincount(labels.values[labels.known()], minlength=len(labels.classes)) > 0
        _refuse_unseen(graph, [name for name, seen in zip(labels.classes, used) if seen and name not in number])
        table = np.array([*(number.get(name, UNKNOWN) for name in labels.classes), UNKNOWN], np.int32)
        values = table[labels.values]  # -1 finds the last entry
    return graph.with_targets(labels=Labels(values, classes, labels.class_type))


def _refuse_unseen(graph: Graph, unseen: list[str]) -> None:
    if unseen:
        raise GamlpError(
            f"graph '{graph.name}' has class '{unseen[0]}' which training never saw",
            hint="drop those labels, or train with them",
        )


def valid_rows(graph: Graph) -> Array:
    """Of a graph given to validate on: its validation rows, or all labelled rows but those that a model may listen to.

    Training rows of that graph are heard through label hops: validated by them, a model would hear the answer.
    """
    counts = np.zeros(3, np.int64)
    for _, known, roles in _targets(graph):
        counts += [np.count_nonzero(known & chosen) for chosen in (True, roles == _VALID, roles != _TRAIN)]
    labelled, valid, unheard = counts.tolist()
    if not labelled:
        raise GamlpError(f"graph '{graph.name}' has no labels to validate by", hint="ingest a label column")

    def chosen(roles: Array) -> Array | bool:
        return roles == _VALID if valid else roles != _TRAIN if unheard else True

    return mapped_rows(begin + np.flatnonzero(known & chosen(roles)) for begin, known, roles in _targets(graph))


def _targets(graph: Graph) -> Iterator[tuple[int, Array, Array]]:
    """Some rows at a time: the first one, which have labels, and their roles."""
    labels, split = graph.nodes.labels, graph.nodes.split
    for begin, end in row_ranges(0 if labels is None else graph.nodes.count, _ROWS):
        assert labels is not None
        known = Labels(labels.values[begin:end], labels.classes).known()
        yield begin, known, np.zeros(end - begin, np.int8) if split is None else np.asarray(split.roles[begin:end])


def check_unheard(graph: Graph) -> None:
    """Of a graph given to validate on by a model that listens to labels: refused where it hears all that there are."""
    if graph.nodes.split is None:
        return
    labelled = False
    for _, known, roles in _targets(graph):
        if (known & (roles != _TRAIN)).any():
            return
        labelled = labelled or bool(known.any())
    if labelled:
        raise GamlpError(
            f"every labelled row of graph '{graph.name}' is one to train on, and a model that listens to labels would "
            "hear the answers that it is validated by",
            hint="mark some of them 'valid', or leave labels out with --set model.beta=0",
        )


def check_targets(train: HopRows, labels: Labels) -> None:
    if not len(train):
        raise GamlpError("no training row has a label", file=train.store.folder, hint="mark labelled rows 'train'")
    if not labels.multi_label and len(present := train.label_counts.present) < 2:
        raise GamlpError(
            f"every training row is '{labels.classes[present[0]]}'", hint="training needs at least two classes"
        )


def check_store(store: HopStore, wanted: Plan) -> None:
    """Whether a store holds what the recipe reads: the same operator, scaling and labels, and as deep."""
    views: list[str] = [*told_apart(wanted.directions)] or [""]
    if wanted.subsets is None:
        if store.manifest.views.keys().isdisjoint(views) and views != [""]:
            raise GamlpError(
                f"the store tells no directions apart, and the recipe reads {' and '.join(views)}",
                file=store.folder,
                hint="propagate again, or set propagation.directions to in",
            )
    else:
        views = [view_name(subset) for subset in wanted.subsets]
        for view in views:
            if view not in store.manifest.views:
                raise GamlpError(
                    f"the store has no hops on the relations {view}, which the recipe reads",
                    file=store.folder,
                    hint="propagate again, or list the store's subsets in relations.subsets",
                )
    for view in views:
        _check_view(store, wanted, view)


def _check_view(store: HopStore, wanted: Plan, view: str) -> None:
    at = f"@{view}" if view else ""
    read: list[tuple[str, FeatureSignal | LabelSignal, Operator]] = []
    if wanted.features is not None and view:
        channels = store.channels([view], separate_types=wanted.separate_types)
        names = [channel.signal for channel in channels] or [f"features{at}"]
        read += [(name, wanted.features, wanted.features.operator) for name in names]
    elif wanted.features is not None:
        read += [(name, wanted.features, operator) for name, operator in wanted.features.names.items()]
    if wanted.labels is not None:
        read.append((f"labels{at}", wanted.labels, wanted.labels.operator))
    for name, signal, operator in read:
        _check_signal(store, name, signal, operator)
    if wanted.labels is None or wanted.labels.folds < 2:
        return
    if f"crossfit{at}" not in store.manifest.signals:
        raise GamlpError(
            "the store has no cross-fitted labels", file=store.folder, hint="make them: gamlp propagate --label-folds"
        )
    settings = store.manifest.signals[f"crossfit{at}"].settings
    for key in ("folds", "fold_seed"):
        if settings.get(key) != (asked_for := getattr(wanted.labels, key)):
            raise GamlpError(
                f"the store's cross-fitted labels have {key} {settings.get(key)}, not {asked_for} as in the recipe",
                file=store.folder,
                hint="propagate again, or change the recipe's propagation",
            )


def _check_signal(store: HopStore, name: str, signal: FeatureSignal | LabelSignal, operator: Operator) -> None:
    if name not in store.manifest.signals:
        plain = name.partition("@")[0]
        if plain not in _LACKING:  # of a further operator
            raise GamlpError(
                f"the store has no hops of features with r {operator.r}, which propagation.also_r asks for",
                file=store.folder,
                hint="give the graph instead of a store",
            )
        raise GamlpError(
            f"the store has no hops of {name}, which the recipe reads", file=store.folder, hint=_LACKING[plain]
        )
    entry = store.manifest.signals[name]
    if entry.hops < signal.hops:
        raise GamlpError(
            f"the store holds {entry.hops} hops of {name}, and the recipe reads {signal.hops}",
            file=store.folder,
            hint="propagate further, or read fewer",
        )
    asked = {"operator": operator.model_dump()}
    if isinstance(signal, FeatureSignal):
        asked["scaling"] = signal.scaling  # type: ignore[assignment]
    for key, value in asked.items():
        if entry.settings[key] != value:
            raise GamlpError(
                f"the store's {name} have {key} {_told(entry.settings[key])}, not {_told(value)} as in the recipe",
                file=store.folder,
                hint="propagate again, or change the recipe's propagation",
            )


def _told(value: Any) -> str:
    return ", ".join(f"{key} {part}" for key, part in value.items()) if isinstance(value, dict) else str(value)
