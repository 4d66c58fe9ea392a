"""Neighbours that disagree: a class that shows only in how a node differs from those around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Labels, Split
from tests.training.small import prepared_in, trained

PLACES, EACH = 120, 8
SETTINGS: dict[str, Any] = {
    "propagation__r": 0.0,
    "model__beta": 0.0,
    "model__hidden": 16,
    "training__epochs": 60,
    "training__batch_size": 200,
}


def bipartite() -> Graph:
    """Places far apart; at each, two classes on its two sides, and edges from one side to the other alone.

    A node's features are where its place is, and a small step to its side: the step alone tells its class, and
    X^(0) - X^(1) is the step. No mixture of hops with weights from 0 that sum to one is rid of the place.
    """
    random = np.random.default_rng(0)
    place, side = np.repeat(np.arange(PLACES), EACH), np.tile(np.arange(EACH) % 2, PLACES)
    step = np.array([1.0, -0.5, 0.5]) * (2 * side - 1)[:, None]
    features = 5 * random.normal(size=(PLACES, 3))[place] + step + 0.2 * random.normal(size=(len(place), 3))
    one, other = np.nonzero((place[:, None] == place) & (side[:, None] != side))
    roles = random.choice(np.array([1, 2, 3], np.int8), len(place), p=[0.4, 0.4, 0.2])
    labels = Labels(side.astype(np.int32), ("left", "right"))
    return Graph.from_arrays(np.stack([one, other]), features.astype(np.float32), labels, split=Split(roles))


@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_high_pass_finds_what_differs_from_neighbours(attention: str, tmp_path: Path) -> None:
    scores = []
    for high_pass in (False, True):
        folder = tmp_path / str(high_pass)
        prepared = prepared_in(folder, bipartite(), model__attention=attention, model__high_pass=high_pass, **SETTINGS)
        scores.append(trained(prepared).valid["score"])
    without, with_it = scores
    assert with_it > 0.9 and with_it > without + 0.2  # 0.96 and 1.00 against 0.55 and 0.53; chance is 0.5
