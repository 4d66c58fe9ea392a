"""An MLP first, propagation of its answers after: APPNP, and AP-GCN, where every node stops when it has enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.layers import InitialisedLinear, dropout
from gamlp.peers.message_passing.sparse import Matrix, adjacency, features_of
from gamlp.peers.tensors import GraphTensors
from gamlp.recipe import Recipe

ENOUGH = 0.99  # 1 - ε: a node halts where its chances of halting add up to this


class _LogitModel(nn.Module):
    """The MLP: dropout before every layer; its first layer alone decays."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1), shape.classes]
        self.layers = nn.ModuleList([InitialisedLinear(*pair) for pair in itertools.pairwise(widths)])
        self.dropout = settings.dropout

    def decayed(self) -> Iterator[nn.Parameter]:
        return self.layers[0].parameters()

    def logits(self, tensors: GraphTensors) -> Tensor:
        hidden = features_of(tensors)
        for index, layer in enumerate(self.layers):
            hidden = layer(dropout(hidden, self.dropout, self.training))
            if index + 1 < len(self.layers):
                hidden = functional.relu(hidden)
        assert isinstance(hidden, Tensor)
        return hidden


class APPNP(_LogitModel):
    """APPNP (Gasteiger et al., 2019): z ← (1 - α) Â z + α h, from z = h = MLP(x), `steps` times.

    Dropout on Â is drawn afresh for every step, as there (PyG's layer lets it pile up over steps). Options: steps,
    alpha, edge_dropout.
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe)
        options = options_of(recipe, {"steps": 10, "alpha": 0.1, "edge_dropout": 0.5})
        self.steps, self.alpha = options["steps"], float(options["alpha"])
        self.edge_dropout = float(options["edge_dropout"])

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        matrix, first = adjacency(tensors, "symmetric"), self.logits(tensors)
        found = first
        for _ in range(self.steps):
            found = (1 - self.alpha) * matrix.dropped(self.edge_dropout, self.training).times(
                found
            ) + self.alpha * first
        return tensors.asked(found)


class APGCN(_LogitModel):
    """AP-GCN (Spinelli et al., 2020): z^k = Â z^(k-1), and node i halts after K_i steps.

    h^k = σ(q · z^k + b) is its chance to halt, K_i the first k where h¹ + … + h^k ≥ 1 - ε (at most `steps`),
    p^k = h^k before and the rest R_i = 1 - h¹ - … - h^(K_i - 1) at K_i; its answer is
    1/K_i Σ_k p^k z^k + (1 - p^k) z^(k-1), and K_i + R_i costs `penalty`. The halting unit learns at every
    `every`-th training step. Options: steps, penalty, every, edge_dropout.
    """

    waited: Tensor

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe)
        options = options_of(recipe, {"steps": 10, "penalty": 0.005, "every": 5, "edge_dropout": 0.5})
        self.steps, self.every = max(1, options["steps"]), max(1, options["every"])
        self.weight, self.edge_dropout = float(options["penalty"]), float(options["edge_dropout"])
        self.halt = nn.Linear(shape.classes, 1)
        nn.init.constant_(self.halt.bias, -math.log(self.steps))  # σ(b) = 1 / (steps + 1): by then about all halt
        self.register_buffer("waited", torch.zeros((), dtype=torch.int64))
        self._cost: Tensor | None = None

    def penalty(self) -> Tensor:
        """Of the last forward's rows: penalty · mean(K + R)."""
        assert self._cost is not None
        return self.weight * self._cost

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        if self.training:
            self.waited += 1
        found, cost = self.halting(dropout(self.logits(tensors), self.dropout, self.training), tensors)
        self._cost = tensors.asked(cost).mean()
        return tensors.asked(found)

    def halting(self, logits: Tensor, tensors: GraphTensors) -> tuple[Tensor, Tensor]:
        """(answers of all nodes, K + R of all nodes)."""
        matrix, learns = adjacency(tensors, "symmetric"), not self.training or int(self.waited) % self.every == 0
        weight, bias = (one if learns else one.detach() for one in (self.halt.weight, self.halt.bias))
        count = len(logits)
        going = torch.ones(count, dtype=torch.bool)
        spent, steps, left = torch.zeros(count), torch.zeros(count), torch.zeros(count)
        found, now = torch.zeros_like(logits), logits
        for step in range(1, self.steps + 1):
            before, now = now, self._passed(matrix, now)
            probability = torch.sigmoid(functional.linear(now, weight, bias)).ravel()
            halts = going & ((spent + probability >= ENOUGH) | (step == self.steps))
            left = torch.where(halts, 1 - spent, left)
            share = torch.where(halts, 1 - spent, probability)[:, None]
            found = found + torch.where(going[:, None], share * now + (1 - share) * before, 0.0)
            steps = steps + going
            spent = torch.where(going, spent + probability, spent)
            going = going & ~halts
            if not bool(going.any()):
                break
        return found / steps[:, None], steps + left

    def _passed(self, matrix: Matrix, values: Tensor) -> Tensor:
        return matrix.dropped(self.edge_dropout, self.training).times(values)
