"""Splits at random, by a seed: by fractions or by a number of nodes a class."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import ROLES, Labels, Split

_TRAIN, _VALID, _TEST = (ROLES.index(name) for name in ("train", "valid", "test"))


def random_split(labels: Labels, fractions: Sequence[float], seed: int, stratified: bool = True) -> Split:
    """Labelled nodes into train, valid and test by fractions of the whole, or of every class (`stratified`).

    Fractions may add up to less than one: the rest has no role. A class with few nodes trains before it
    validates or tests. Nodes with many labels have no one class and are split as a whole.
    """
    check_fractions(fractions)
    generator = np.random.default_rng(seed)
    roles = np.zeros(len(labels.values), np.int8)
    for members in _strata(labels, stratified and not labels.multi_label):
        members = generator.permutation(members)
        cuts = np.rint(np.cumsum(fractions) * len(members)).astype(int)
        if len(members) and fractions[0] > 0:
            cuts = np.maximum(cuts, 1)  # rounding must not leave a small class without training nodes
        for role, start, stop in zip((_TRAIN, _VALID, _TEST), [0, *cuts], cuts):
            roles[members[start:stop]] = role
    return Split(roles)


def per_class_split(labels: Labels, train: int, valid: int, seed: int) -> Split:
    """`train` nodes of each class, then `valid` of each, at random; the other labelled nodes test."""
    if labels.multi_label:
        raise GamlpError("nodes with many labels cannot be split by class", hint="split by fractions")
    generator = np.random.default_rng(seed)
    roles = np.zeros(len(labels.values), np.int8)
    for members in _strata(labels, True):
        members = generator.permutation(members)
        roles[members[:train]] = _TRAIN
        roles[members[train : train + valid]] = _VALID
        roles[members[train + valid :]] = _TEST
    return Split(roles)


def check_fractions(fractions: Sequence[float]) -> None:
    """Refuse fractions that are not three numbers of at least 0 that add up to at most 1."""
    fits = len(fractions) == 3 and all(0 <= part <= 1 for part in fractions) and 0 < sum(fractions) <= 1 + 1e-9
    if not fits:
        shown = ", ".join(f"{part:g}" for part in fractions)
        raise GamlpError(
            f"a split needs three fractions that add up to at most 1, not {shown}",
            hint="write for example 0.6,0.2,0.2",
        )


def classes_without_training(labels: Labels, split: Split) -> list[str]:
    """Names of classes that no training node has, though some labelled node does."""
    count = len(labels.classes)
    if labels.multi_label:
        seen: Array = np.asarray((labels.values[split.train] > 0).any(0))
    else:
        known = labels.values[split.train]
        seen = np.bincount(known[known >= 0], minlength=count) > 0
    return [name for name, has in zip(labels.classes, seen) if not has]


def _strata(labels: Labels, by_class: bool) -> list[Array]:
    known = np.flatnonzero(labels.known())
    if not by_class:
        return [known]
    classes = labels.values[known]
    order = np.argsort(classes, kind="stable")
    bounds = np.searchsorted(classes[order], np.arange(len(labels.classes) + 1))
    return [known[order[start:stop]] for start, stop in pairwise(bounds)]
