"""What a recipe reads of a store of hops: rows to train on, rows to choose by, and the shape of their hops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import FeatureSchema, Labels, Split
from gamlp.io import mapped_rows
from gamlp.models import Part, Shape, check_labels, check_operators, labels_used
from gamlp.propagation import HopStore, Plan, Statistics
from gamlp.recipe import Recipe
from gamlp.training.batches import HopRows, UnlabelledRows
from gamlp.training.checks import check_store, check_targets
from gamlp.training.teacher import read_teacher
from gamlp.training.typed import views_of
from gamlp.training.unlabelled import Beside, Taught


@dataclass(frozen=True)
class Prepared:
    """Rows to train on and to choose by, as hops; `store` is where further rows are read from."""

    recipe: Recipe
    train: HopRows
    valid: HopRows | None
    store: HopStore
    shape: Shape
    classes: tuple[str, ...]
    multi_label: bool
    statistics: dict[str, Statistics] | None = None  # of `standard` scaling, by node type
    columns: Mapping[str, FeatureSchema] = field(default_factory=dict)  # of features, by node type that has names
    reduced_from: str | None = None  # features of several types that were brought to fewer columns
    warm: str | None = None  # the place of a bundle whose weights training starts from
    stage: int = 0
    teacher: str | None = None  # of a later stage: the folder of what the model of the stage before said


def plan_of(recipe: Recipe, statistics: dict[str, Statistics] | None = None, *, labels: bool | None = None) -> Plan:
    """What a recipe asks to be propagated."""
    check_operators(recipe)
    if labels is None:
        check_labels(recipe)
    return Plan.of(recipe, statistics, labels=labels_used(recipe) if labels is None else labels)


def from_store(store: HopStore, recipe: Recipe) -> Prepared:
    """Rows of a finished store; one that another plan made is refused."""
    check_store(store, plan_of(recipe))
    labels, split = store.labels, store.split
    if labels is None or split is None:
        lacks = "labels" if labels is None else "split"
        raise GamlpError(f"the store has no {lacks}", file=store.folder, hint="propagate a graph that has them")
    train = role_rows(store, recipe, "train")
    check_targets(train, labels)
    valid = role_rows(store, without_crossfit(recipe), "valid")
    return Prepared(
        recipe, train, valid if len(valid) else None, store, shape_of(store, recipe), labels.classes,
        labels.multi_label, kept_statistics(store), kept_columns(store),
    )  # fmt: skip


def kept_statistics(store: HopStore) -> dict[str, Statistics] | None:
    """What `standard` scaling went by; None: nothing was scaled so, or an older gamlp did not keep it."""
    return store.manifest.statistics or None


def kept_columns(store: HopStore) -> dict[str, FeatureSchema]:
    """Names and types of the features' columns, of node types that have names."""
    return {node_type: tuple(columns) for node_type, columns in store.manifest.columns.items()}


def reopened(store: HopStore, inner: HopStore | None, recipe: Recipe, valid: str) -> Prepared:
    """What was prepared before, from its finished stores. `valid`: rows of the `split`, all `labelled`, or `none`.

    `inner` holds the training rows where they were propagated apart.
    """
    inner = store if inner is None else inner
    labels, split = inner.labels, store.split
    assert labels is not None and store.labels is not None
    train = role_rows(inner, recipe, "train")
    chosen: HopRows | None = None
    if valid == "labelled":
        chosen = rows_of(store, recipe, np.flatnonzero(store.labels.known()))
    elif valid == "split" and split is not None:
        chosen = rows_of(store, recipe, labelled_rows(store.labels, split, "valid"))
    return Prepared(recipe, train, chosen, store, shape_of(inner, recipe), labels.classes, labels.multi_label)


def rows_of(store: HopStore, recipe: Recipe, rows: Array, features_from: HopStore | None = None) -> HopRows:
    """Chosen rows, as a trained model reads them: label hops from all training labels."""
    features = plan_of(recipe, labels=False).features
    assert features is not None
    label_hops = recipe.propagation.label_hops if labels_used(recipe) else None
    views = views_of(recipe)
    if views is None:
        names = tuple(features.names)
    else:
        found = (features_from or store).channels(views, separate_types=recipe.relations.separate_types == "yes")
        names = tuple(channel.signal for channel in found)
    return HopRows(
        store, rows, recipe.propagation.hops, label_hops, False, features_from, names, views or ("",),
        label_factor=1.0 if label_hops is None else label_factor(store, recipe),
    )  # fmt: skip


def label_factor(store: HopStore, recipe: Recipe) -> float:
    """With `label_scale: size`, nodes ÷ labels that were propagated: a hop of labels then sums to about one a row."""
    if recipe.model.label_scale != "size":
        return 1.0
    entry = next(entry for name, entry in store.manifest.signals.items() if name.partition("@")[0] == "labels")
    labelled = entry.settings.get("labelled")  # those that a teacher gave are among them
    if labelled is None:
        labels, split = store.labels, store.split
        assert labels is not None and split is not None
        labelled = np.count_nonzero(labels.known_at(split.train))
    return store.manifest.nodes / max(1, labelled)


def unlabelled_rows(prepared: Prepared) -> UnlabelledRows:
    """Rows of the training graph that have hops and are not trained on, as a trained model reads them."""
    train = prepared.train
    common = {one.name: getattr(train, one.name) for one in fields(train)}
    found = UnlabelledRows(**common | {"crossfit": False, "chunk": 0})  # drawn row by row
    rows = np.arange(train.store.manifest.nodes)
    for signal in found.signals:
        rows = rows if signal.rows is None else np.intersect1d(rows, signal.rows, assume_unique=True)
    rows = np.setdiff1d(rows, train.rows, assume_unique=True)
    if not len(rows):
        raise GamlpError(
            "consistency and stages read rows without labels, and the training graph has none",
            hint="leave out consistency and training.stages, or set training.setting to transductive",
        )
    return replace(found, rows=rows)


def beside_of(prepared: Prepared) -> Beside | None:
    """What a training step reads beside labelled rows; None: nothing."""
    wanted = prepared.recipe.consistency
    if wanted is not None and not wanted.weight:
        wanted = None
    if wanted is None and prepared.teacher is None:
        return None
    rows = unlabelled_rows(prepared)
    taught = None
    if prepared.teacher is not None:
        said = read_teacher(prepared.teacher, prepared.train.store.manifest.nodes)
        sure = replace(rows, rows=np.asarray(said.numbers))
        taught = Taught(sure, said, prepared.recipe.training.distillation) if len(sure) else None
    return Beside(rows, wanted, taught)


def role_rows(store: HopStore, recipe: Recipe, role: str) -> HopRows:
    labels, split = store.labels, store.split
    assert labels is not None and split is not None
    found = rows_of(store, recipe, labelled_rows(labels, split, role))
    return to_train_on(found, recipe) if role == "train" else found


def labelled_rows(labels: Labels, split: Split, role: str) -> Array:
    """Row numbers of a part of the split that have labels; of many, in a mapped file."""
    return mapped_rows(rows[labels.known_at(rows)] for rows in split.parts(role))


def to_train_on(rows: HopRows, recipe: Recipe) -> HopRows:
    """Cross-fitted, some views a step, shuffled by chunks, where the recipe says so."""
    crossfit = labels_used(recipe) and recipe.propagation.folds > 1
    sample = recipe.training.subset_sample if rows.views != ("",) else 0
    return replace(rows, crossfit=crossfit, sample=sample, chunk=recipe.training.chunk)


def shape_of(store: HopStore, recipe: Recipe) -> Shape:
    labels = store.labels
    assert labels is not None
    label_hops = recipe.propagation.label_hops if labels_used(recipe) else 0
    signals, views = store.manifest.signals, views_of(recipe)
    hops, classes = recipe.propagation.hops, len(labels.classes)
    if views is None:
        width = signals["features"].width
        return Shape(width, classes, hops, label_hops, 1 + len(recipe.propagation.also_r))
    channels = store.channels(views, separate_types=recipe.relations.separate_types == "yes")
    parts = tuple(Part(channel.view, channel.node_type, signals[channel.signal].width) for channel in channels)
    width = max(part.width for part in parts)
    return Shape(width, classes, hops, label_hops, len(parts), parts, views if labels_used(recipe) else ())


def without_folds(plan: Plan) -> Plan:
    """For rows that are not trained on: their label hops come from all training labels."""
    return (
        plan if plan.labels is None else plan.model_copy(update={"labels": plan.labels.model_copy(update={"folds": 0})})
    )


def without_crossfit(recipe: Recipe) -> Recipe:
    return recipe.changed({"propagation.folds": 0}) if recipe.propagation.folds else recipe
