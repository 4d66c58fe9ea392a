"""The last residual connection over hops of labels (METHOD section 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FIXED = 0.7


def residual_shares(kind: str, hops: int) -> list[float]:
    """α_l for l = 1..L: cosine cos(πl / 2L), linear (L - l)/L, fixed 0.7, none 0; uniform has cosine's."""
    steps = range(1, hops + 1)
    if kind == "linear":
        return [(hops - step) / hops for step in steps]
    if kind in ("cosine", "uniform"):
        return [math.cos(math.pi * step / (2 * hops)) for step in steps]
    return [FIXED if kind == "fixed" else 0.0 for _ in steps]


def smooth(y: Tensor, kind: str, *, own: bool) -> Tensor:
    """Ŷ^(l) = (1 - α_l) Y^(l) + α_l Y^(L), l = 1..L, from y `[b, L + 1, c]`; with `own`, Y^(0) comes first.

    `uniform` puts the uniform distribution 1/c in the place of Y^(L).
    """
    hops = y.shape[1] - 1
    walked = y[:, 1:]
    if hops and kind != "none":
        shares = torch.tensor(residual_shares(kind, hops), dtype=y.dtype, device=y.device)[:, None]
        last = torch.full_like(y[:, -1:], 1 / y.shape[2]) if kind == "uniform" else y[:, -1:]
        walked = torch.lerp(walked, last, shares)
    return torch.cat([y[:, :1], walked], 1) if own else walked
