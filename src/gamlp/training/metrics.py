"""Loss and scores of rows, streamed in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.training.allocation import kept_memory
from gamlp.training.batches import Batch, Passes
from gamlp.training.world import ALONE, World

Array = np.ndarray[Any, Any]


class Loss(Protocol):
    """Of rows: their mean, or with `share` Σ share · loss of a row."""

    def __call__(self, logits: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor: ...


def loss_of(targets: Array, classes: int, weights: str, device: torch.device) -> Loss:
    """Mean cross-entropy (many labels: binary cross-entropy); `balanced` weighs by n / (classes · count).

    Classes are those that occur. The mean is over rows, not over weights: those of a whole epoch have mean one, and
    a row's share does not change with the batch it falls into.
    """
    many = targets.ndim == 2
    weight: Tensor | None = None
    if weights == "balanced":
        counts = targets.clip(0).sum(0, dtype=np.int64) if many else np.bincount(targets, minlength=classes)
        rest = np.maximum(len(targets) - counts, 1) if many else len(targets) / (counts > 0).sum()
        weight = torch.tensor(rest / np.maximum(counts, 1), dtype=torch.float32, device=device)

    def loss(logits: Tensor, target: Tensor, share: Tensor | None = None) -> Tensor:
        how = "none" if share is not None else "mean" if many or weight is None else "sum"
        weighed = None if weight is None else weight.to(logits.dtype)  # a model of one's own may be in double
        if many:
            target = target.to(logits.dtype)
            found = functional.binary_cross_entropy_with_logits(logits, target, pos_weight=weighed, reduction=how)
        else:
            found = functional.cross_entropy(logits, target, weighed, reduction=how)
        if share is not None:
            return ((found.mean(1) if many else found) * share.to(found.dtype)).sum()
        return found / len(target) if how == "sum" else found

    return loss


def probabilities(logits: Tensor, many: bool) -> Tensor:
    """Softmax, or a sigmoid a class where a node has many labels."""
    return torch.sigmoid(logits) if many else torch.softmax(logits, 1)


@torch.no_grad()
def logits_of(model: nn.Module, batches: Passes) -> Iterator[tuple[Batch, Tensor]]:
    """Every batch in order with its logits, the model in evaluation mode; memory does not grow with the rows."""
    model.eval()
    with kept_memory():
        for batch in batches.epoch():
            yield batch, model(batch.x, batch.y)


def micro_f1(right: float, wrong: float) -> float:
    """Of `right` chosen labels that are true, and `wrong` ones that were chosen falsely or missed."""
    return float(2 * right / (2 * right + wrong)) if right + wrong else 1.0


def evaluate(model: nn.Module, batches: Passes, loss: Loss | None = None, world: World = ALONE) -> dict[str, float]:
    """Mean loss and score: accuracy, or micro-F1 where a node has many labels; over the batches of all ranks."""
    many = batches.target.ndim == 2
    loss = loss or loss_of(batches.target.cpu().numpy(), 0, "none", batches.device)
    found = []  # of every batch: loss, right, wrong; fetched once, so that a device is not waited for
    for batch, logits in logits_of(model, batches) if len(batches.target) else ():
        lost = loss(logits, batch.target) * len(logits)
        if many:
            chosen, true = logits > 0, batch.target > 0.5
            counts = [(chosen & true).sum(), (chosen ^ true).sum()]
        else:
            counts = [(logits.argmax(1) == batch.target).sum(), torch.zeros_like(lost)]
        found.append(torch.stack([lost, *counts]))
    sums = np.sum([values.tolist() for values in found], axis=0) if found else np.zeros(3)
    own = torch.tensor(
        [*sums, len(batches.target)], dtype=torch.float64, device=batches.device if world.size > 1 else "cpu"
    )
    total, right, wrong, rows = world.total(own).tolist()
    count = max(1, rows)
    score = micro_f1(right, wrong) if many else right / count
    return {"loss": float(total / count), "score": float(score)}
