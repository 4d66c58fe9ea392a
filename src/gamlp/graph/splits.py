"""Splits at random, by a seed: by fractions, which stays as it is when rows come and go, or by a number a class."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import ROLES, Ids, Labels, Split
from gamlp.graph.id_hash import hash_key, id_hashes

_TRAIN, _VALID, _TEST = (ROLES.index(name) for name in ("train", "valid", "test"))
_IDS = 1 << 20  # hashed at a time: 8 bytes each


def random_split(labels: Labels, ids: Ids, fractions: Sequence[float], seed: int) -> Split:
    """Labelled nodes into train, valid and test by fractions; which part a node is in depends on its id and the seed.

    So rows that are added, removed or put in another order move no node from one part to another, and a node that has
    trained a model is never among those that test the next one. Every class has the fractions but for chance: exact
    ones, or a training node for every class however small, cannot be had without moving nodes.
    Fractions may add up to less than one: the rest has no role.
    """
    check_fractions(fractions)
    roles = np.zeros(len(labels.values), np.int8)
    known = labels.known()
    for begin in range(0, len(roles), _IDS):
        rows = begin + np.flatnonzero(known[begin : begin + _IDS])
        roles[rows] = roles_by_id(ids.take(rows), fractions, seed)
    return Split(roles)


def roles_by_id(ids: Any, fractions: Sequence[float], seed: int) -> Array:
    """int8 roles of ids: the hash of an id is a number from 0 to 1, and the fractions cut that line in parts."""
    numbers = (id_hashes(ids, hash_key(seed, "split")) >> np.uint64(11)) * 2.0**-53
    cuts = np.cumsum(fractions)
    if cuts[-1] > 1 - 1e-9:
        cuts[-1] = 1.0  # rounding must leave no node without a role
    place = np.searchsorted(cuts, numbers, side="right")
    return np.asarray([_TRAIN, _VALID, _TEST, 0], np.int8)[place]


def per_class_split(labels: Labels, train: int, valid: int, seed: int) -> Split:
    """`train` nodes of each class, then `valid` of each, at random; the other labelled nodes test.

    The protocol of benchmarks, whose rows never change: with other rows it is drawn anew.
    """
    if labels.multi_label:
        raise GamlpError("nodes with many labels cannot be split by class", hint="split by fractions")
    generator = np.random.default_rng(seed)
    roles = np.zeros(len(labels.values), np.int8)
    for members in _members(labels):
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


def _members(labels: Labels) -> list[Array]:
    """Rows of every class."""
    known = np.flatnonzero(labels.known())
    classes = labels.values[known]
    order = np.argsort(classes, kind="stable")
    bounds = np.searchsorted(classes[order], np.arange(len(labels.classes) + 1))
    return [known[order[start:stop]] for start, stop in pairwise(bounds)]
