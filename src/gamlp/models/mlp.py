"""A multi-layer perceptron whose ReLU and dropout are one step."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_threshold = torch.ops.aten.threshold_backward  # of (a, b, t): a where b > t, else 0; the one fast select on processors


class ReluMask(torch.autograd.Function):
    """relu(z) where the mask keeps it, over `share`.

    What is above zero in the result was kept, so no mask is stored for backward.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, p: float, share: float) -> Tensor:
        out = _masked(z, _Mask(z, p)).relu_()
        if share != 1.0:
            out.div_(share)  # here and not by autograd, which would keep both
        ctx.save_for_backward(out)
        ctx.share = share
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return _threshold(grad if ctx.share == 1.0 else grad / ctx.share, out.detach(), 0), None, None


class Masked(torch.autograd.Function):
    """x where the mask keeps it, over the share that is kept: a linear map, and its own gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: _Mask) -> Tensor:
        ctx.mask = mask
        return _masked(x, mask).mul_(1 / mask.share)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return Masked.apply(grad, ctx.mask), None  # type: ignore[no-untyped-call]


class _Mask:
    """Random levels, those above `least` kept; a 64-bit random number decides on eight elements, or on four.

    Eight bits an element are enough where 256 p is whole; others have sixteen, and `share` is what these give exactly.
    """

    def __init__(self, like: Tensor, p: float) -> None:
        bits = 8 if (p * 256).is_integer() else 16
        drop = min(round(p * 2**bits), 2**bits - 1)
        each = 64 // bits
        numbers = torch.empty(-(-like.numel() // each), dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
        self.levels = numbers.view(torch.int8 if bits == 8 else torch.int16)[: like.numel()].view(like.shape)
        self.least = drop - 1 - 2 ** (bits - 1)
        self.share = kept_share(p)


def kept_share(p: float) -> float:
    """The exact share of elements that dropout by p keeps."""
    levels = 1 << 16
    return 1 - min(round(p * levels), levels - 1) / levels


def _masked(x: Tensor, mask: _Mask) -> Tensor:
    out = mask.levels.to(x.dtype)
    return _threshold.grad_input(x, out, mask.least, grad_input=out)  # type: ignore[no-any-return]


def relu_dropout(z: Tensor, p: float, training: bool) -> Tensor:
    """ReLU, then dropout while training."""
    if not training or p == 0.0 or _by_torch(p):
        return relu_mask(z, p, training)[0]
    result: Tensor = ReluMask.apply(z, p, kept_share(p))  # type: ignore[no-untyped-call]
    return result


def relu_mask(z: Tensor, p: float, training: bool) -> tuple[Tensor, float]:
    """ReLU and dropout but for its division by the share that is kept, with that share."""
    if not training or p == 0.0:
        return torch.relu(z), 1.0
    if _by_torch(p):
        return functional.dropout(torch.relu(z), p), 1.0
    return ReluMask.apply(z, p, 1.0), kept_share(p)  # type: ignore[no-untyped-call]


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """`functional.dropout` with a cheaper mask on processors."""
    if not training or p == 0.0:
        return x
    if _by_torch(p):
        return functional.dropout(x, p)
    result: Tensor = Masked.apply(x, _Mask(x, p))  # type: ignore[no-untyped-call]
    return result


def _by_torch(p: float) -> bool:
    """No mask of ours keeps nothing at all, and torch.compile cannot follow how one is drawn: it makes its own."""
    return not 0.0 < p < 1.0 or torch.compiler.is_compiling()


class MLP(nn.Module):
    """`layers` linear maps; between them batch norm (an option), ReLU and dropout.

    `initial_residual` α > 0: every layer from the third on reads (1 - α) h_(l-1) + α h_1, the last one too.
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
        return _linear(self.linear[-1], *self._hidden(h))

    def each_hop(self, h: Tensor) -> Tensor:
        """Of every hop by itself: `[b, hops, d]` → `[b, hops, outputs]`."""
        found: Tensor = self(h.flatten(0, 1))
        return found.view(*h.shape[:2], -1)

    def dot(self, h: Tensor, vector: Tensor) -> Tensor:
        """vector·MLP(h) `[b]`. The last map is never made: vector·(W h + b) = (Wᵀ vector)·h + vector·b."""
        last = self.linear[-1]
        assert isinstance(last, nn.Linear)
        h, share = self._hidden(h)
        return h @ (vector / share @ last.weight) + last.bias @ vector

    def _hidden(self, h: Tensor) -> tuple[Tensor, float]:
        """What the last map reads, times the share, and that share."""
        first, share = None, 1.0
        for layer, linear in enumerate(self.linear[:-1]):
            h = _linear(linear, self._with_first(h, first), share)
            if self.norms is not None:
                h = self.norms[layer](h)
            h, share = relu_mask(h, self.dropout, self.training)
            first = h if first is None else first
        return self._with_first(h, first), share

    def _with_first(self, h: Tensor, first: Tensor | None) -> Tensor:
        return h if first is None or first is h or not self.initial_residual else h.lerp(first, self.initial_residual)


FARTHEST = 10.0  # deviations


class InputNorm(nn.Module):
    """Every feature of every hop with mean 0 and variance 1: `[b, hops, d]` → `[b, hops, d]`, nothing is learned.

    At inference by the plain mean over the batches of training: what is read does not change as weights do. A value
    farther than FARTHEST deviations from the mean is read as that far: of a column that training rows hardly vary in,
    another row would be thousands away, and decide alone.
    """

    def __init__(self, hops: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(hops * width, affine=False, momentum=None)

    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(x.flatten(1)).clamp(-FARTHEST, FARTHEST)
        return normal.view_as(x)


@dataclass(frozen=True)
class MLPOptions:
    """What a model takes whose logits come from one MLP: keys of the recipe's section `model`."""

    hidden: int = 256
    layers: int = 3
    input_dropout: float = 0.0
    dropout: float = 0.5
    batch_norm: bool = False
    initial_residual: float = 0.0
    input_norm: bool = False

    def norm(self, hops: int, width: int) -> InputNorm | None:
        return InputNorm(hops, width) if self.input_norm else None

    def mlp(self, inputs: int, outputs: int) -> MLP:
        return MLP(
            inputs,
            self.hidden,
            outputs,
            self.layers,
            dropout=self.dropout,
            batch_norm=self.batch_norm,
            initial_residual=self.initial_residual,
        )


def _linear(linear: nn.Module, h: Tensor, share: float) -> Tensor:
    """Of h / share: the few weights are divided, not the many activations, nor their gradients."""
    assert isinstance(linear, nn.Linear)
    weight = linear.weight if share == 1.0 else linear.weight / share
    return functional.linear(h, weight, linear.bias)


class HopMLP(nn.Module):
    """Every hop its own linear map, batch norm (an option), ReLU, dropout: `[b, hops, d]` → `[b, hops, hidden]`."""

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
