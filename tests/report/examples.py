"""Contents to look at: a small graph with answers whose counts can be written down by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.graph import Graph, Ids, Labels, Split
from gamlp.recipe import Recipe
from gamlp.report import SeedScores, Timings, content_of_probabilities

Array = np.ndarray[Any, Any]
SCRIPT = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
RECIPE = Recipe.of({})


def graph_of(nodes: int = 40, classes: int = 3, *, multi_label: bool = False, seed: int = 0, **names: Any) -> Graph:
    """Random edges and labels; half of the nodes are test rows. `class_names` and `ids` name them."""
    random = np.random.default_rng(seed)
    values = random.integers(0, classes, nodes).astype(np.int32)
    if multi_label:
        values = (random.random((nodes, classes)) < 0.4).astype(np.int8)
    labels = Labels(values, names.get("class_names") or tuple(f"class {index}" for index in range(classes)))
    roles = np.where(np.arange(nodes) % 2, 3, 1).astype(np.int8)
    edges = random.integers(0, nodes, (2, 3 * nodes))
    graph = Graph.from_arrays(edges, random.normal(size=(nodes, 2)), labels, split=Split(roles), name="example")
    if (ids := names.get("ids")) is not None:
        known = replace(graph.nodes, ids=Ids(nodes, pa.array(ids)))
        graph = replace(graph, node_types={"node": known}, checksums={})
    return graph


def probabilities_of(graph: Graph, seed: int = 0) -> Array:
    """Probabilities that are right more often than not."""
    random = np.random.default_rng(seed + 100)
    labels = graph.nodes.labels
    assert labels is not None
    if labels.multi_label:
        return np.clip(0.5 * labels.values + 0.6 * random.random(labels.values.shape), 0, 1).astype(np.float32)
    probabilities = random.random((graph.nodes.count, len(labels.classes))).astype(np.float32)
    probabilities[np.arange(len(probabilities)), labels.values] += 0.4
    return np.asarray(probabilities / probabilities.sum(1, keepdims=True), np.float32)


def content_of(graph: Graph, seeds: int = 2, **given: Any) -> dict[str, Any]:
    """Everything a page can show, but weights over hops."""
    scores = [
        SeedScores(seed, {"score": 0.7 + 0.1 * seed, "loss": 0.5}, {"score": 0.6 + 0.1 * seed, "loss": 0.4}, 3, 5, 1.5)
        for seed in range(seeds)
    ]
    lines = [
        {"seed": seed, "epoch": epoch, "loss": 2 / epoch, "valid_loss": 2.5 / epoch, "valid_score": 1 - 1 / (epoch + 1)}
        for seed in range(seeds)
        for epoch in range(1, 31)
    ]
    given = {"lines": lines, "timings": Timings(0.5, 3.0, 0.02, 50 << 20), "parameters": 1234} | given
    return content_of_probabilities(
        graph, {seed: probabilities_of(graph, seed) for seed in range(seeds)}, scores, RECIPE, **given
    )
