"""An MLP first, propagation of its answers after: APPNP, and AP-GCN, where every node stops when it has enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.message_passing.layers import InitialisedLinear, dropout
from gamlp.peers.message_passing.reach import LayerReach, RowReach, reach
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

    def logits(self, reached: RowReach) -> Tensor:
        """Of the nodes that the first step reads."""
        hidden, nodes = reached.features, reached.nodes
        for index, layer in enumerate(self.layers):
            hidden = layer(dropout(hidden, self.dropout, self.training, nodes if index else reached.drawn))
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
        reached = reach(tensors, "symmetric", self.steps)
        found = first = self.logits(reached)
        for near in reached.layers:
            matrix = near.matrix.dropped(self.edge_dropout, self.training, near.entries)
            first = near.kept(first)
            found = (1 - self.alpha) * matrix.times(found) + self.alpha * first
        return reached.asked(tensors, found)


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
        reached = reach(tensors, "symmetric", self.steps)
        logits = dropout(self.logits(reached), self.dropout, self.training, reached.nodes)
        found, cost = self.halting(logits, reached)
        self._cost = reached.asked(tensors, cost).mean()
        return reached.asked(tensors, found)

    def halting(self, logits: Tensor, reached: RowReach) -> tuple[Tensor, Tensor]:
        """(answers, K + R) of the nodes that the last step answers for."""
        learns = not self.training or int(self.waited) % self.every == 0
        weight, bias = (one if learns else one.detach() for one in (self.halt.weight, self.halt.bias))
        share = self.edge_dropout if self.training else 0.0
        found: tuple[Tensor, Tensor] = _Halting.apply(  # type: ignore[no-untyped-call]
            logits, weight, bias, reached.layers, share
        )
        return found


class _Halting(torch.autograd.Function):
    """(answers, K + R) in one go: some two hundred small steps of autograd took longer than the products did.

    z^k is the same whoever halts: halting is looked at in the nodes that are answered for alone. With c^k = p^k while
    i goes on, plus 1 - p^(k+1) while it still does one step later, the answer is 1/K Σ_k c^k z^k. Backwards, of the
    answers' gradient g and the costs' r: p^k has g · (z^k - z^(k-1)) / K; p at K_i and R are 1 less all h before, so
    that h^k has p^k's less p^K's less r before K_i and nothing from there on; z^k has c^k g / K, q h' of its halting,
    and Âᵀ of z^(k+1)'s.
    """

    @staticmethod
    def forward(
        context: Any, logits: Tensor, weight: Tensor, bias: Tensor, layers: tuple[LayerReach, ...], share: float
    ) -> tuple[Tensor, Tensor]:
        places = _places(layers)  # of the nodes answered for, among those that each step knows
        own, now = [_at(logits, places[0])], logits.detach()
        count = len(own[0])
        going, spent, taken = np.ones(count, bool), np.zeros(count, np.float32), np.zeros(count, np.float32)
        left, found, halting, matrices = np.zeros(count, np.float32), torch.zeros_like(own[0]), [], []
        for step, near in enumerate(layers, 1):
            matrices.append(near.matrix.dropped(share, True, near.entries))
            now = matrices[-1].times(now)
            own.append(_at(now, places[step]))
            chance = torch.sigmoid(functional.linear(own[-1], weight, bias)).ravel().numpy()
            halts = going & ((spent + chance >= ENOUGH) if step < len(layers) else True)
            part = np.where(halts, 1 - spent, chance)
            halting.append((chance, part, going, halts))
            mine = torch.from_numpy((part * going)[:, None])
            found.addcmul_(own[-1], mine)
            found.addcmul_(own[-2], torch.from_numpy(going[:, None].astype(np.float32)) - mine)
            left[halts] = part[halts]
            taken += going
            spent = np.where(going, spent + chance, spent)
            going = going & ~halts
            if not going.any():
                break
        context.steps, context.places = torch.from_numpy(taken), places
        context.own, context.halting, context.matrices = own, halting, matrices
        context.save_for_backward(weight)
        return found.div_(context.steps[:, None]), torch.from_numpy(taken + left)

    @staticmethod
    def backward(context: Any, gradient: Tensor, of_cost: Tensor) -> Any:
        (weight,) = context.saved_tensors
        own, spread = context.own, gradient / context.steps[:, None]
        cost, unit = of_cost.numpy(), torch.zeros_like(weight)
        of_bias, last = torch.zeros(1), np.zeros(len(gradient), np.float32)  # last: p's gradient at K_i
        of_parts = [torch.linalg.vecdot(spread, now - before).numpy() for before, now in itertools.pairwise(own)]
        for of_part, (_, _, _, halts) in zip(of_parts, context.halting):
            last[halts] = of_part[halts]
        found, later = None, np.zeros(len(gradient), np.float32)  # later: 1 - p^(k+1) while still going
        for step in range(len(context.halting), 0, -1):
            chance, part, going, halts = context.halting[step - 1]
            of_chance = (of_parts[step - 1] - last - cost) * (going & ~halts) * chance * (1 - chance)
            raised = torch.from_numpy(of_chance[:, None])
            unit += raised.t() @ own[step]
            of_bias += raised.sum()
            here = torch.from_numpy((part * going + later)[:, None]) * spread + raised * weight
            matrix = context.matrices[step - 1]
            found = matrix.transposed.times(_added(found, here, context.places[step], matrix.shape[0]))
            later = (1 - part) * going
        here = torch.from_numpy(later[:, None]) * spread
        size = context.matrices[0].shape[1]
        return _added(found, here, context.places[0], size), unit, of_bias, None, None


def _places(layers: tuple[LayerReach, ...]) -> list[Tensor | None]:
    """Of the last step's nodes, before the first step and after each."""
    found: list[Tensor | None] = [None]
    for near in reversed(layers):
        last = found[-1]
        found.append(near.own if last is None else last if near.own is None else near.own[last])
    return found[::-1]


def _at(values: Tensor, places: Tensor | None) -> Tensor:
    return values.detach() if places is None else values.detach().index_select(0, places)


def _added(whole: Tensor | None, values: Tensor, places: Tensor | None, count: int) -> Tensor:
    """Values in their places, on top of what is there."""
    if whole is None:
        whole = torch.zeros(count, values.shape[1])
    return whole.add_(values) if places is None else whole.index_add_(0, places, values)
