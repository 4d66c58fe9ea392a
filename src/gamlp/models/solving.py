"""Models that are solved, not trained in epochs: what they are given, and what they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from gamlp.progress import Progress
from gamlp.recipe import TrainingSettings

Rank = Callable[[Tensor], tuple[float, ...]]  # of logits of the validation rows: what is larger is better


@dataclass(frozen=True)
class KnownRows:
    """Hops of rows and their labels, all at once: x `[n, channel, hop, d]`, y or None, target `[n]` or `[n, c]`."""

    x: Tensor
    y: Tensor | None
    target: Tensor

    @property
    def multi_label(self) -> bool:
        return self.target.ndim == 2


@dataclass(frozen=True)
class ToSolve:
    """What a model finds its weights from: rows to learn, and `valid` ones that choose, by `metric`.

    `progress` is to be called at least every few minutes: processes that wait take it for a sign of life.
    """

    train: KnownRows
    valid: KnownRows | None
    settings: TrainingSettings
    seed: int
    metric: Rank
    progress: Progress


@runtime_checkable
class Solvable(Protocol):
    """A model that finds its own weights."""

    def solve(self, given: ToSolve) -> dict[str, float]:
        """Learn; gives what was chosen, as numbers."""


def class_weights(target: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Balanced weights of rows that have a class and of rows that have it not, `[classes]` each.

    As the loss of training has them: n / (classes that occur · count); of many labels a node, rest / count and 1.
    """
    if target.ndim == 2:
        counts = target.clamp_min(0).sum(0).double()
        return (len(target) - counts).clamp_min(1) / counts.clamp_min(1), torch.ones_like(counts)
    counts = torch.from_numpy(np.bincount(target.numpy(), minlength=classes)).double()
    weights = len(target) / (counts > 0).sum() / counts.clamp_min(1)
    return weights, torch.zeros(classes, dtype=torch.float64)
