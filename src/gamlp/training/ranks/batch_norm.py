"""Batch normalisation over the rows of all ranks; torch has it on GPUs alone.

Statistics of a rank's own rows would be those of a smaller batch: the same recipe would train another model on two
ranks than on one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gamlp.training.ranks.world import World


class SharedBatchNorm1d(nn.BatchNorm1d):
    """nn.BatchNorm1d, with the mean and variance of the global batch while it trains; the same weights and buffers.

    `counted` says whether this rank's rows belong to the batch: one that owns none of it passes a row for form's sake.
    """

    world: World
    counted: bool

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        normal, mean, variance, count = _Normalise.apply(  # type: ignore[no-untyped-call]
            input, self.eps, self.counted, self.world
        )
        self._remember(mean, variance, float(count))
        if self.affine:
            shape = (1, -1, 1) if input.dim() == 3 else (1, -1)
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal  # type: ignore[no-any-return]

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: float) -> None:
        """Running mean and unbiased variance; without momentum the plain mean over batches."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        step = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), step)
        self.running_var.lerp_((variance * (count / max(1.0, count - 1))).to(self.running_var.dtype), step)


class _Normalise(torch.autograd.Function):
    """x̂ = (x - μ) / √(σ² + ε) with μ, σ² over all ranks; dx = (dx̂ - mean dx̂ - x̂ · mean(dx̂ · x̂)) / √(σ² + ε)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, counted: bool, world: World) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = x if counted else x[:0]
        over, shape = ((0, 2), (1, -1, 1)) if x.dim() == 3 else ((0,), (1, -1))
        own = torch.full((1,), rows.numel() / max(1, x.shape[1]), dtype=x.dtype, device=x.device)
        count, total = torch.split(world.total(torch.cat([own, rows.sum(over)])), [1, x.shape[1]])
        mean = total / count
        # Two passes: Σx² - nμ² loses the variance of features that are far from zero.
        variance = world.total((rows - mean.view(shape)).square().sum(over)) / count
        scale = (variance + eps).rsqrt().view(shape)
        normal = (x - mean.view(shape)) * scale
        ctx.save_for_backward(normal, scale, count)
        ctx.counted, ctx.world, ctx.over, ctx.shape = counted, world, over, shape
        ctx.mark_non_differentiable(mean, variance, count)
        return normal, mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        normal, scale, count = ctx.saved_tensors
        given = gradients[0]
        sums = torch.stack([given.sum(ctx.over), (given * normal).sum(ctx.over)])
        first, second = ctx.world.total(sums) / count
        centred = given - first.view(ctx.shape) - normal * second.view(ctx.shape)
        return (centred if ctx.counted else given) * scale, None, None, None


def share_batch_norms(model: nn.Module, world: World) -> list[SharedBatchNorm1d]:
    """Turn every nn.BatchNorm1d inside, also in a model of one's own, into one over all ranks."""
    found = []
    for module in model.modules():
        if world.size > 1 and type(module) is nn.BatchNorm1d:
            # In place: whoever else holds the module, its parameters or its hooks keeps them.
            module.__class__ = SharedBatchNorm1d
            assert isinstance(module, SharedBatchNorm1d)
            module.world, module.counted = world, True
            found.append(module)
    return found
