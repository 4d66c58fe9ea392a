"""A search over directions, on edges and labels alone: trials share the features that were made of edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Labels, Split
from gamlp.recipe import Choice, Recipe
from gamlp.tune.search import Search
from tests.training.small import ONE_THREAD

pytest.importorskip("optuna")
BASE = {
    "propagation": {"hops": 1, "label_hops": 1},
    "features": {"width": 8, "rounds": 1},
    "model": {"hidden": 8, "layers": 1},
    "training": {"epochs": 10, "patience": 0},
}


def _graph() -> Graph:
    """A node's class is the class of those it leads to; those that lead to it are of any."""
    rng, count = np.random.default_rng(1), 90
    classes = np.arange(count) % 3
    sources = np.repeat(np.arange(count), 3)
    targets = (rng.integers(0, count // 3, len(sources)) * 3 + classes[sources]) % count
    strangers = rng.permutation(count)
    edges = np.stack([np.concatenate([sources, strangers]), np.concatenate([targets, np.arange(count)])])
    labels = Labels(classes.astype(np.int32), ("a", "b", "c"))
    roles = np.array([1, 1, 2, 3], np.int8)[np.arange(count) % 4]
    return Graph.from_arrays(edges, None, labels, split=Split(roles), directed=True, name="arrows")


def test_every_direction_is_tried_on_features_that_were_made_once(tmp_path: Path) -> None:
    space = {"propagation.directions": Choice(choices=["in", "out", "both"])}
    graph = _graph()
    search = Search((graph,), Recipe.of(BASE), space, tmp_path / "study", resources=ONE_THREAD, confirm=1)
    assert len(search.run(6).trials) == 6
    made = list((tmp_path / "study" / "made").glob("*.npy"))
    assert len(made) == 1, "one file of features for all trials"
    views = {path.name.partition("-")[0] for path in (tmp_path / "study" / "hops").glob("features-*/features*")}
    assert {"features", "features@in", "features@out"} <= views, "each of the three was tried"
