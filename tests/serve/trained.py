"""Small trained runs that tests serve, and the hops of a new node written out with dense matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gamlp.graph import Graph, View
from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.run import train
from tests.conformance import dense

RECIPE: dict[str, Any] = {
    "training": {"epochs": 3},
    "model": {"hidden": 8},
    "propagation": {"hops": 3, "label_hops": 2, "scaling": "standard"},
}


def tables(folder: Path, *, weighted: bool = False, nodes: int = 40, seed: int = 0) -> None:
    """nodes.csv (a number, a category, a date with gaps, a label) and edges.csv."""
    random = np.random.default_rng(seed)
    rows = [
        f"n{i},{random.normal():.4f},{'uvw'[i % 3]},{'' if i % 9 == 4 else f'2024-{1 + i % 12:02d}-{1 + i % 28:02d}'},"
        f"{'xyz'[i % 3] if i % 4 else ''}"
        for i in range(nodes)
    ]
    (folder / "nodes.csv").write_text("\n".join(["id,size,colour,since,label", *rows]) + "\n")
    pairs = sorted({tuple(sorted(random.integers(0, nodes, 2).tolist())) for _ in range(4 * nodes)})
    weight = (lambda: f",{random.uniform(0.1, 3):.3f}") if weighted else (lambda: "")
    edges = [f"n{a},n{b}{weight()}" for a, b in pairs if a != b]
    (folder / "edges.csv").write_text("\n".join([f"src,dst{',weight' if weighted else ''}", *edges]) + "\n")


def trained_run(folder: Path, *, weighted: bool = False, recipe: dict[str, Any] = RECIPE, **options: Any) -> Path:
    """A run on such tables."""
    tables(folder, weighted=weighted)
    ingest(folder / "edges.csv", folder / "nodes.csv", folder / "graph", IngestOptions(**options))
    train(folder / "graph", recipe, folder / "run")
    return folder / "run"


def matrix_of(graph: Graph, view: View) -> np.ndarray:
    """A view as one dense matrix A[target, source]; edges of several relations are one where none has weights."""
    total = np.zeros((view.count, view.count))
    for name in view.relations:
        relation = graph.relations[name]
        for rows, neighbours, weights in relation.edges():
            values = np.ones(len(rows)) if weights is None else weights.astype(np.float64)
            for row, neighbour, value in zip(rows, neighbours, values):
                total[view.start(relation.target) + row, view.start(relation.source) + neighbour] += value
    return total if view.weighted(graph) else (total > 0).astype(float)


def new_hops(
    matrix: np.ndarray,
    stored: np.ndarray,
    first: np.ndarray,
    hears: dict[int, float],
    heard_by: dict[int, float],
    *,
    r: float,
    loops: bool,
) -> np.ndarray:
    """`[K + 1, d]`: X^(k)_v = d_v^(r-1) (Σ_u w_uv d_u^(-r) X^(k-1)_u + d_v^(-r) X^(k-1)_v), stored hops unchanged."""
    loop = 1.0 if loops else 0.0
    columns = matrix.sum(0) + loop
    row_sum, column_sum = loop + sum(hears.values()), loop + sum(heard_by.values())
    found = [first.astype(np.float64)]
    for k in range(stored.shape[1] - 1):
        total = np.zeros_like(found[0])
        for other, weight in hears.items():
            total += weight * (columns[other] ** -r if columns[other] > 0 else 1.0) * stored[other, k]
        if loops:
            total += column_sum**-r * found[-1]
        found.append(total * row_sum ** (r - 1) if row_sum > 0 else 0 * total)
    return np.stack(found)


def dense_hops(matrix: np.ndarray, first: np.ndarray, hops: int, r: float, loops: bool) -> np.ndarray:
    """Hops of all nodes of a view."""
    return dense.hops(dense.operator(matrix, r, loops), first, hops)
