"""A multi-layer perceptron whose ReLU and dropout are one step."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 1 << 16  # a 64-bit random number decides on four elements


class ReluDropout(torch.autograd.Function):
    """relu(z) ∘ mask / (1 - p). What is above zero in the result was kept, so no mask is stored for backward."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, p: float) -> Tensor:
        keep, share = _kept(z, p)
        out = z.relu() if ctx.needs_input_grad[0] else z.relu_()
        out.mul_(keep).mul_(1 / share)
        ctx.save_for_backward(out)
        ctx.share = share
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, out, 0).mul_(1 / ctx.share), None


def _kept(z: Tensor, p: float) -> tuple[Tensor, float]:
    """A boolean mask, and the exact share of ones that is expected in it."""
    drop = min(round(p * _LEVELS), _LEVELS - 1)
    numbers = torch.empty((z.numel() + 3) // 4, dtype=torch.int64, device=z.device).random_(-(1 << 63), None)
    levels = numbers.view(torch.int16)[: z.numel()].view(z.shape)
    return levels >= drop - _LEVELS // 2, 1 - drop / _LEVELS


def relu_dropout(z: Tensor, p: float, training: bool) -> Tensor:
    """ReLU, then dropout while training."""
    if not training or p == 0.0:
        return torch.relu(z)
    result: Tensor = ReluDropout.apply(z, p)  # type: ignore[no-untyped-call]
    return result


class MLP(nn.Module):
    """`layers` linear maps; between them batch norm (an option), ReLU and dropout.

    `initial_residual` α > 0: hidden layer l reads (1 - α) h_(l-1) + α h_1.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        layers: int,
        *,
        dropout: float = 0.0,
        batch_norm: bool = False,
        initial_residual: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [inputs, *([hidden] * (layers - 1)), outputs]
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers - 1)) if batch_norm else None
        self.dropout = dropout
        self.initial_residual = initial_residual

    def forward(self, h: Tensor) -> Tensor:
        first = None
        for layer, linear in enumerate(self.linear[:-1]):
            if first is not None and self.initial_residual:
                h = torch.lerp(h, first, self.initial_residual)
            h = linear(h)
            if self.norms is not None:
                h = self.norms[layer](h)
            h = relu_dropout(h, self.dropout, self.training)
            first = h if first is None else first
        result: Tensor = self.linear[-1](h)
        return result


class HopMLP(nn.Module):
    """Every hop its own linear map, then batch norm (an option), ReLU, dropout: `[b, hops, d]` → `[b, hops, hidden]`."""

    def __init__(self, hops: int, width: int, hidden: int, *, dropout: float, batch_norm: bool) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(hops, width, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(hops, 1, hidden).uniform_(-bound, bound))
        self.norm = nn.BatchNorm1d(hops * hidden) if batch_norm else None
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        h = torch.baddbmm(self.bias, x.transpose(0, 1), self.weight).transpose(0, 1).contiguous()
        if self.norm is not None:
            h = self.norm(h.flatten(1)).view_as(h)
        return relu_dropout(h, self.dropout, self.training)
