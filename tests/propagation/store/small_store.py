"""A graph and an engine for tests of the hop store."""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.graph import Graph, Split
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan

Array = np.ndarray[Any, Any]
NODES, WIDTH, CLASSES = 60, 11, 4
BOTH = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2))
ENGINE = LocalPropagator(threads=2)


def make_graph(seed: int = 0, train: int = 20) -> Graph:
    random = np.random.default_rng(seed)
    split = Split.of(NODES, train=np.arange(train), valid=np.arange(30, 40), test=np.arange(40, 50))
    return Graph.from_arrays(
        random.integers(0, NODES, (2, 200)),
        random.normal(size=(NODES, WIDTH)),
        random.integers(0, CLASSES, NODES),
        split=split,
        name="small",
    )
