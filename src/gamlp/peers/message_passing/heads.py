"""Attention over the entries of a sparse matrix, for several heads: softmax by rows, sums with weights, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gamlp.peers.message_passing.sparse import Pattern, taken

_SPREAD = 60.0  # exp(-60) is far above float32's least, and so are sums of it


class _Weighted(torch.autograd.Function):
    """out[h] = M(w[h]) · dense[h] with gradients of both: of w[h, e] = out'[h, row e] · dense[h, column e]."""

    @staticmethod
    def forward(context: Any, weights: Tensor, dense: Tensor, pattern: Pattern) -> Tensor:
        context.save_for_backward(weights, dense)
        context.pattern = pattern
        return torch.stack([pattern.product(own, values) for own, values in zip(weights, dense)])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        weights, dense = context.saved_tensors
        pattern: Pattern = context.pattern
        other, order = pattern.transposed
        # Whoever made the weights has them by entry, `[entries, h]`: so is their gradient.
        of_dense, of_weights = torch.empty_like(dense), torch.empty(weights.shape[::-1], dtype=weights.dtype).t()
        for head, out in enumerate(gradient.contiguous()):
            of_dense[head] = other.product(taken(weights[head], order), out)
            of_weights[head] = entries_of_product(pattern, out, dense[head])
        return of_weights, of_dense, None


class _Scores(torch.autograd.Function):
    """scores[h, e] = left[h, row e] · right[h, column e]."""

    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
        context.save_for_backward(left, right)
        context.pattern = pattern
        return torch.stack([entries_of_product(pattern, one, two) for one, two in zip(left, right)])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        left, right = context.saved_tensors
        pattern: Pattern = context.pattern
        other, order = pattern.transposed
        of_left = [pattern.product(own, two) for own, two in zip(gradient.contiguous(), right)]
        of_right = [other.product(taken(own, order), one) for own, one in zip(gradient.contiguous(), left)]
        return torch.stack(of_left), torch.stack(of_right), None


def weighted(pattern: Pattern, weights: Tensor, dense: Tensor) -> Tensor:
    """For every head h the sum over entries: weights `[h, entries]`, dense `[h, columns, d]` → `[h, rows, d]`."""
    found: Tensor = _Weighted.apply(weights.contiguous(), dense.contiguous(), pattern)  # type: ignore[no-untyped-call]
    return found


def scores(pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
    """left `[h, rows, d]` · right `[h, columns, d]` where the pattern has entries → `[h, entries]`."""
    found: Tensor = _Scores.apply(left.contiguous(), right.contiguous(), pattern)  # type: ignore[no-untyped-call]
    return found


def entries_of_product(pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
    """(left · rightᵀ) where the pattern has entries."""
    empty = pattern.filled(torch.zeros(pattern.entries))
    found: Tensor = torch.sparse.sampled_addmm(empty, left, right.t().contiguous(), beta=0.0).values()
    return found


class _Softmax(torch.autograd.Function):
    """α = exp(v - most of its row) / the row's sum; backwards v' = α (α' - Σ of the row of α α')."""

    @staticmethod
    def forward(context: Any, values: Tensor, pattern: Pattern) -> Tensor:
        found = _softmax(pattern, values.contiguous())
        context.save_for_backward(found)
        context.pattern = pattern
        return found

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        (alpha,) = context.saved_tensors
        return _softmax_gradient(context.pattern, alpha, gradient), None


class _Attention(torch.autograd.Function):
    """The same of LeakyReLU(near[column] + own[row])."""

    @staticmethod
    def forward(context: Any, near: Tensor, own: Tensor, slope: float, pattern: Pattern) -> Tensor:
        raw = pattern.by_column(near.detach())
        raw += pattern.by_row(own.detach())
        context.above = raw > 0
        found = _softmax(pattern, functional.leaky_relu_(raw, slope))
        context.save_for_backward(found)
        context.pattern, context.slope = pattern, slope
        return found

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        (alpha,) = context.saved_tensors
        pattern: Pattern = context.pattern
        found = _softmax_gradient(pattern, alpha, gradient)
        steep = np.where(context.above.numpy(), np.float32(1), np.float32(context.slope))
        found *= torch.from_numpy(steep).to(found.dtype)
        return pattern.sources.transposed.times(found), pattern.targets.transposed.times(found), None, None


def _softmax(pattern: Pattern, values: Tensor) -> Tensor:
    """What is taken off before exp cancels: one number for a head does, unless values spread too far for float32."""
    if not pattern.entries:
        return values.clone()
    most, least = values.amax(0), values.amin(0)
    if bool((most - least > _SPREAD).any()):
        of_rows = torch.segment_reduce(values, "max", lengths=pattern.lengths, unsafe=True, initial=-torch.inf)
        most = pattern.by_row(torch.where(of_rows.isfinite(), of_rows, 0.0))
    found = values - most
    found.exp_()
    return found.div_(pattern.by_row(pattern.targets.transposed.times(found)))


def _softmax_gradient(pattern: Pattern, alpha: Tensor, gradient: Tensor) -> Tensor:
    found = alpha * gradient
    sums = pattern.by_row(pattern.targets.transposed.times(found))
    return found.addcmul_(alpha, sums, value=-1)


def softmax(pattern: Pattern, values: Tensor) -> Tensor:
    """Over the entries of every row: values `[entries, h]`; the same shape."""
    found: Tensor = _Softmax.apply(values, pattern)  # type: ignore[no-untyped-call]
    return found


def attention(pattern: Pattern, near: Tensor, own: Tensor, slope: float) -> Tensor:
    """softmax over the entries of a row of LeakyReLU(near[column] + own[row]): `[columns, h]`, `[rows, h]`."""
    found: Tensor = _Attention.apply(near, own, slope, pattern)  # type: ignore[no-untyped-call]
    return found
