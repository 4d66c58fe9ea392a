"""A small graph of several types in which one relation carries the answers, and recipes that train in a moment."""

from __future__ import annotations

import dataclasses

import numpy as np

from gamlp.recipe import Recipe
from tests.conformance.typed_graphs import TARGET, CaseRelation, TypedCase

CLASSES = 3
RECIPE = Recipe.of(
    {
        "propagation": {"hops": 2, "label_hops": 2},
        "relations": {"missing": "mean"},
        "model": {"hidden": 8, "layers": 2, "dropout": 0.0},
        "training": {"epochs": 6, "batch_size": 16, "patience": 0, "learning_rate": 0.02},
    }
)


def planted(papers: int = 60, *, seed: int = 0, widths: tuple[int, int] = (4, 3)) -> TypedCase:
    """Papers of noise, written by authors whose features are around their paper's class; citations by chance.

    Venues have no features, and every paper appears in one.
    """
    random = np.random.default_rng(seed)
    counts = {TARGET: papers, "author": 3 * papers, "venue": 5}
    classes = random.permutation(np.arange(papers) % CLASSES).astype(np.int32)
    centres = 2.0 * random.normal(size=(CLASSES, widths[1]))
    features = {
        TARGET: random.normal(size=(papers, widths[0])).astype(np.float32),
        "author": (random.normal(size=(3 * papers, widths[1])) + centres[np.repeat(classes, 3)]).astype(np.float32),
        "venue": None,
    }
    cites = [(int(a), int(b)) for a, b in random.integers(0, papers, (2 * papers, 2))]
    writes = [(author, author // 3) for author in range(3 * papers)]
    appears = [(paper, int(random.integers(5))) for paper in range(papers)]
    relations = [
        CaseRelation("cites", TARGET, TARGET, cites),
        CaseRelation("writes", "author", TARGET, writes),
        CaseRelation("appears-in", TARGET, "venue", appears),
    ]
    roles = random.permutation(np.array([1, 1, 2, 3], np.int8)[np.arange(papers) % 4])
    return TypedCase(counts, features, relations, classes, roles)


def relabelled(case: TypedCase, *, seed: int = 1) -> TypedCase:
    """Other labels for all rows but those that train."""
    random = np.random.default_rng(seed)
    labels = case.labels.copy()
    others = case.roles != 1
    labels[others] = (labels[others] + random.integers(1, CLASSES, int(others.sum()))) % CLASSES
    return dataclasses.replace(case, labels=labels)
