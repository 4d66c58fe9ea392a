"""A small graph of several types, dense, and plain loops over its nodes, for tests of peers by type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gamlp.peers.tensors import TypedRelation, TypedShape, TypedTensors

CLASSES = 3
COUNTS = {"paper": 6, "author": 5, "type": 4, "a.b": 0}  # names that a torch module would refuse as its own
WIDTHS = {"paper": 5, "author": 3, "type": 0, "a.b": 2}  # a type without features, and one without nodes
RELATIONS = {
    "writes": TypedRelation("author", "paper", "written"),
    "written": TypedRelation("paper", "author", "writes"),
    "cites": TypedRelation("paper", "paper", "cited"),
    "cited": TypedRelation("paper", "paper", "cites"),
    "of": TypedRelation("type", "paper", "has"),
    "has": TypedRelation("paper", "type", "of"),
    "never": TypedRelation("author", "paper", "not by"),  # without edges
    "not by": TypedRelation("paper", "author", "never"),
    "from nowhere": TypedRelation("a.b", "paper", "to nowhere"),
    "to nowhere": TypedRelation("paper", "a.b", "from nowhere"),
    "likes": TypedRelation("author", "paper"),  # without a reverse
    "read by": TypedRelation("paper", "author"),
}
ALONE = 4  # a paper that hears nothing


@dataclass(frozen=True)
class Small:
    """By dense matrices: `near[relation][i, j]`, whether target i hears source j."""

    shape: TypedShape
    near: dict[str, Tensor]
    x: dict[str, Tensor | None]

    def view(self, rows: Tensor | None = None, sparse: bool = False) -> TypedTensors:
        edges = {name: matrix.nonzero().T.flip(0) for name, matrix in self.near.items()}
        weights = {name: m[m != 0] for name, m in self.near.items() if bool((m[m != 0] != 1).any())}
        x = {
            node_type: value.to_sparse_csr() if sparse and value is not None else value
            for node_type, value in self.x.items()
        }
        return TypedTensors(self.shape, x, edges, weights, rows)

    def without(self, *names: str) -> Small:
        """These relations left out wholly."""
        relations = {name: relation for name, relation in self.shape.relations.items() if name not in names}
        near = {name: matrix for name, matrix in self.near.items() if name not in names}
        return replace(self, shape=replace(self.shape, relations=relations), near=near)

    def permuted(self, seed: int) -> tuple[Small, dict[str, Tensor]]:
        """Every type's nodes in another order, and that order."""
        draw = torch.Generator().manual_seed(seed)
        order = {node_type: torch.randperm(count, generator=draw) for node_type, count in self.shape.counts.items()}
        near = {
            name: self.near[name][order[relation.target]][:, order[relation.source]]
            for name, relation in self.shape.relations.items()
        }
        x = {node_type: None if value is None else value[order[node_type]] for node_type, value in self.x.items()}
        return replace(self, near=near, x=x), order


def small() -> Small:
    random = np.random.default_rng(5)
    near: dict[str, Any] = {}
    for name, relation in RELATIONS.items():
        if name in ("never", "not by"):
            matrix = np.zeros((COUNTS[relation.target], COUNTS[relation.source]))
        elif relation.reverse in near:
            matrix = near[relation.reverse].T
        else:
            matrix = random.random((COUNTS[relation.target], COUNTS[relation.source])) < 0.5
            if relation.target == "paper":
                matrix[ALONE] = False
        near[name] = matrix
    near["cited"][ALONE], near["cites"][:, ALONE] = False, False
    x: dict[str, Tensor | None] = {}
    for node_type, width in WIDTHS.items():
        values = random.normal(size=(COUNTS[node_type], width)) * (random.random((COUNTS[node_type], width)) < 0.7)
        x[node_type] = torch.from_numpy(values.astype(np.float32)) if width else None
    tensors = {name: torch.from_numpy(np.asarray(matrix, np.float32)) for name, matrix in near.items()}
    return Small(TypedShape("paper", CLASSES, dict(WIDTHS), dict(COUNTS), dict(RELATIONS)), tensors, x)


def first_states(model: Any, small: Small) -> dict[str, Tensor]:
    """x W + b, or the learnt table."""
    found = {}
    for node_type, layer in zip(small.shape.counts, model.first.maps):
        x = small.x[node_type]
        found[node_type] = layer.weight if x is None else x @ layer.weight.T + layer.bias
    return found


def neighbours(small: Small, name: str, node: int) -> list[int]:
    return [int(j) for j in small.near[name][node].nonzero().ravel()]


def softmaxed(values: list[Tensor]) -> list[Tensor]:
    raised = [value.exp() for value in values]
    return [one / torch.stack(raised).sum() for one in raised]


def leaky(value: Tensor) -> Tensor:
    return value if value > 0 else 0.2 * value


def stacked(rows: list[Tensor], width: int) -> Tensor:
    return torch.stack(rows) if rows else torch.zeros(0, width)
