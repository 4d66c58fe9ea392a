"""Small graphs whose best answer is known, and a portfolio that is tried on them in a second or two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from gamlp.recipe import Recipe
from gamlp.tune.candidates import Candidate, Role

QUICK: dict[str, Any] = {
    "propagation": {"r": 0.0, "loops": False, "folds": 2},
    "training": {"epochs": 40, "patience": 15, "learning_rate": 0.03},
}


def candidate(name: str, order: int, role: Role = "other", **changes: Any) -> Candidate:
    """One with a quick training; keys of changes have `__` for a dot."""
    recipe = Recipe.of(QUICK).changed({key.replace("__", "."): value for key, value in changes.items()})
    return Candidate(name, name, order, role, (), recipe)


def portfolio() -> tuple[Candidate, ...]:
    small = {"model__hidden": 16, "model__layers": 2, "model__dropout": 0.0}
    gamlp = {"propagation__hops": 1, "model__beta": 0.0, **small}
    labels = {"propagation__hops": 1, "propagation__label_hops": 2, "model__beta": 1.0, **small}
    return (
        candidate("majority", 0, "simple", propagation__hops=0, model__name="majority"),
        candidate("logistic-features", 10, "simple", propagation__hops=0, model__name="logistic"),
        candidate("logistic-hops", 20, "simple", propagation__hops=1, model__name="logistic"),
        candidate("mlp", 30, propagation__hops=0, model__name="mlp", **small),
        candidate("gamlp", 40, "reference", **gamlp),
        candidate("gamlp-labels", 50, **labels),
        candidate("sign", 60, propagation__hops=1, model__name="sign", **small),
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small portfolio instead of the shipped one."""
    monkeypatch.setattr("gamlp.tune.choosing.load_candidates", portfolio)
    monkeypatch.setattr("gamlp.tune.portfolio.LEAST", 1e6)  # a test is no matter of how fast the machine is
    monkeypatch.setattr("gamlp.tune.choosing.pace_for", lambda graph: {})


def planted(kind: str, nodes: int = 900, seed: int = 0, valid: float = 0.4) -> Graph:
    """Two classes by the sign of a score: own features times those of neighbours (`opposed`: hops must be told apart).

    `features`: of own features alone; `noise`: of nothing that is there.
    """
    random = np.random.default_rng(seed)
    edges = random.integers(nodes, size=(2, 3 * nodes))
    edges = edges[:, edges[0] != edges[1]]
    features = random.normal(size=(nodes, 6)).astype(np.float32)
    heard = np.zeros(nodes)
    for one, other in (edges, edges[::-1]):
        np.add.at(heard, other, features[one, 0])
    score = {
        "opposed": features[:, 0] * heard,
        "features": features[:, 0] - features[:, 1],
        "noise": random.normal(size=nodes) - 0.3,
    }[kind]
    labels = (score > 0).astype(np.int64)
    roles = random.choice([1, 2, 3], p=[0.8 - valid, valid, 0.2], size=nodes).astype(np.int8)
    return Graph.from_arrays(edges, features, labels, split=Split(roles), name=kind)
