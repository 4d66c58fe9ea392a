"""Small graphs that can be learned, recipes that train in a moment, and what the tests of training ask of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gamlp.graph import Graph, Labels, Split
from gamlp.propagation import HopStore, LocalPropagator
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.run.resources import Resources
from gamlp.training.batches import HopRows
from gamlp.training.loop import Fitted, Machine
from gamlp.training.rows import Prepared, plan_of
from gamlp.training.seeds import fit_prepared

Array = np.ndarray[Any, Any]
NODES, WIDTH, CLASSES = 60, 6, 3
ONE_THREAD = Resources(threads=1, device="cpu")
RECIPE = Recipe.of(
    {
        "propagation": {"hops": 2, "label_hops": 2},
        "model": {"hidden": 8, "layers": 2},
        "training": {"epochs": 6, "batch_size": 16, "patience": 0, "learning_rate": 0.02},
    }
)


def make_graph(seed: int = 0, *, nodes: int = NODES, multi_label: bool = False, name: str = "small") -> Graph:
    """Neighbours of the same class mostly, features around the class's centre; half train, a quarter validate."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, CLASSES, nodes)
    classes[:CLASSES] = np.arange(CLASSES)
    ends = random.integers(0, nodes, (2, 6 * nodes))
    edges = ends[:, (classes[ends[0]] == classes[ends[1]]) | (random.random(ends.shape[1]) < 0.15)]
    features = random.normal(size=(nodes, WIDTH)) + 1.5 * random.normal(size=(CLASSES, WIDTH))[classes]
    roles = random.permutation(np.arange(nodes) % 4)
    roles = np.array([1, 1, 2, 3], np.int8)[roles]
    roles[:CLASSES] = 1
    values = classes.astype(np.int32)
    if multi_label:
        hot = np.eye(CLASSES, dtype=np.int8)[classes]
        values = np.maximum(hot, (random.random(hot.shape) < 0.15).astype(np.int8))
    labels = Labels(values, tuple(f"class {index}" for index in range(CLASSES)))
    return Graph.from_arrays(edges, features.astype(np.float32), labels, split=Split(roles), name=name)


def others_redrawn(graph: Graph, seed: int) -> Graph:
    """Everything about nodes that do not train is new: features, labels, and each edge that touches one of them."""
    random = np.random.default_rng(seed)
    nodes = graph.nodes
    assert nodes.split is not None and nodes.labels is not None and nodes.features is not None
    train = nodes.split.roles == 1
    rows, neighbours, _ = next(iter(graph.relation.edges()))
    inside = train[rows] & train[neighbours]
    new = random.integers(0, NODES, (2, int(random.integers(0, 200))))
    new = new[:, ~(train[new[0]] & train[new[1]])]
    features, labels = np.array(nodes.features.values), nodes.labels.values.copy()
    features[~train] = random.normal(size=(int((~train).sum()), WIDTH)) * 100
    labels[~train] = random.integers(-1, CLASSES, int((~train).sum()))
    labels[np.flatnonzero(nodes.split.roles == 2)[0]] = 0  # one validation label stays known
    edges = np.concatenate([np.stack([rows[inside], neighbours[inside]]), new], 1)
    return Graph.from_arrays(edges, features, Labels(labels, nodes.labels.classes), split=nodes.split, name=graph.name)


def with_nodes(graph: Graph, **changes: Any) -> Graph:
    return replace(graph, node_types={"node": replace(graph.nodes, **changes)}, checksums={})


def with_labels(graph: Graph, values: Array) -> Graph:
    assert graph.nodes.labels is not None
    return with_nodes(graph, labels=Labels(values, graph.nodes.labels.classes))


def relabelled(graph: Graph, rows: Array, seed: int = 0) -> Graph:
    """Every one of these rows has another label than before."""
    assert graph.nodes.labels is not None
    values = graph.nodes.labels.values.copy()
    values[rows] = (values[rows] + np.random.default_rng(seed).integers(1, CLASSES, len(rows))) % CLASSES
    return with_labels(graph, values)


def rows_of_role(graph: Graph, *roles: str) -> Array:
    assert graph.nodes.split is not None
    return graph.nodes.split.rows(*roles)


def prepared_in(folder: Path, graph: Graph, recipe: Recipe = RECIPE, **changes: Any) -> Prepared:
    """Hops of the graph in the folder; `changes` of the recipe with `__` for the dot."""
    # A model of one's own that a test names is one it trusts.
    trust = changes.get("model__name")
    changed = recipe.changed({key.replace("__", "."): value for key, value in changes.items()}, trust=trust)
    return prepare(graph, changed, folder, resources=ONE_THREAD)


def trained(prepared: Prepared, seed: int = 0, **machine: Any) -> Fitted:
    return fit_prepared(prepared, seed, Machine(**machine))


def store_of(graph: Graph, folder: Path, recipe: Recipe = RECIPE) -> HopStore:
    return LocalPropagator(threads=1).propagate(graph, plan_of(recipe), folder)


def hop_rows(store: HopStore, role: str, recipe: Recipe = RECIPE) -> HopRows:
    assert store.split is not None
    return HopRows(store, store.split.rows(role), recipe.propagation.hops, recipe.propagation.label_hops)


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Bit by bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())
