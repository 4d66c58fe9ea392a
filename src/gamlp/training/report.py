"""Everything that is told of test rows: score, loss, macro-F1 and ROC-AUC, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from gamlp.training.batches import Passes
from gamlp.training.metrics import logits_of, micro_f1, probabilities

Array = np.ndarray[Any, Any]
MOST_KEPT = 10_000_000  # probabilities; ROC-AUC ranks them, so it must hold them


Watch = Callable[[Array, Array, Array], None]  # rows, probabilities, labels of a batch


def full_report(model: nn.Module, batches: Passes, watch: Watch | None = None) -> dict[str, float]:
    """Score, loss, macro-F1 (over classes that occur or were chosen) and ROC-AUC.

    ROC-AUC is of the second of two classes, or the mean over classes; with more than MOST_KEPT probabilities it is
    left out, since it needs all of them at once. `watch` is shown every batch.
    """
    target = batches.target.cpu().numpy()
    many = target.ndim == 2
    counts = _Counts(many)
    kept: list[Array] = []
    for batch, logits in logits_of(model, batches):
        chance = probabilities(logits, many).cpu().numpy()
        answers = batch.target.cpu().numpy()
        counts.add(chance, answers)
        if watch is not None:
            watch(batch.rows, chance, answers)
        own = chance[:, 1:] if chance.shape[1] == 2 and not many else chance
        if len(target) * own.shape[1] <= MOST_KEPT:
            kept.append(own)
    report = counts.report()
    if kept and (area := _area(np.concatenate(kept), target)) is not None:
        report["roc_auc"] = area
    return report


def report_of(chance: Array, target: Array) -> dict[str, float]:
    """The same of probabilities `[b, c]` that are at hand."""
    counts = _Counts(target.ndim == 2)
    counts.add(chance, target)
    report = counts.report()
    own = chance[:, 1:] if chance.shape[1] == 2 and target.ndim == 1 else chance
    if own.size <= MOST_KEPT and (area := _area(own, target)) is not None:
        report["roc_auc"] = area
    return report


class _Counts:
    """By class: rightly chosen, wrongly chosen, missed; and the sum of losses."""

    def __init__(self, many: bool) -> None:
        self.many = many
        self.right = self.wrong = self.missed = np.zeros(1, np.int64)
        self.rows = self.lost = 0.0

    def add(self, chance: Array, target: Array) -> None:
        if self.many:
            true, chosen = target > 0.5, chance > 0.5
            own = np.where(true, chance, 1 - chance)
        else:
            classes = np.arange(chance.shape[1])
            true, chosen = target[:, None] == classes, chance.argmax(1)[:, None] == classes
            own = chance[np.arange(len(target)), target][:, None]
        self.right = self.right + (true & chosen).sum(0)
        self.wrong = self.wrong + (chosen & ~true).sum(0)
        self.missed = self.missed + (true & ~chosen).sum(0)
        self.lost -= float(np.log(np.maximum(own, np.finfo(np.float32).tiny)).mean(1).sum())
        self.rows += len(target)

    def report(self) -> dict[str, float]:
        rows = max(1.0, self.rows)
        right, either = int(self.right.sum()), 2 * self.right + self.wrong + self.missed
        score = micro_f1(right, int((self.wrong + self.missed).sum())) if self.many else right / rows
        each = 2 * self.right / np.maximum(either, 1)
        occurring = each if self.many else each[either > 0]
        macro = float(occurring.mean()) if len(occurring) else 0.0
        return {"score": float(score), "loss": self.lost / rows, "macro_f1": macro}


def _area(chance: Array, target: Array) -> float | None:
    """Mean ROC-AUC over classes that some rows have and some have not."""
    from sklearn.metrics import roc_auc_score

    first = 1 if target.ndim == 1 and chance.shape[1] == 1 else 0
    areas = []
    for column in range(chance.shape[1]):
        true = target[:, column] > 0.5 if target.ndim == 2 else target == column + first
        if true.any() and not true.all():
            areas.append(roc_auc_score(true, chance[:, column]))
    return float(np.mean(areas)) if areas else None
