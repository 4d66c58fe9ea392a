"""ROC and precision-recall curves of classes, from counts by probability: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array

# Bins are equally wide in log-odds: a rare class, whose probabilities are all near zero, has as many as any other.
BINS = 2000
_FARTHEST = 16.0  # log-odds; beyond it float32 does not tell probabilities from one
_POINTS = 100  # of one curve on a page


@dataclass(frozen=True)
class Curve:
    """Of one class: `roc` is (false positive rate, true positive rate), `precision` (recall, precision), ascending."""

    rows: int
    positive: int
    roc: tuple[Array, Array]
    precision: tuple[Array, Array]
    roc_auc: float
    average_precision: float

    def content(self) -> dict[str, Any]:
        """For JSON: as many points as a page can show."""
        return {
            "rows": self.rows,
            "positive": self.positive,
            "roc_auc": self.roc_auc,
            "average_precision": self.average_precision,
            "roc": _thinned(*self.roc),
            "precision": _thinned(*self.precision),
        }


class Ranking:
    """Counts of rows that have a class, and of rows that have not, by its probability; for some classes."""

    def __init__(self, classes: Sequence[int]) -> None:
        self.classes = np.asarray(classes, np.int64)
        self.counts = np.zeros((2, len(self.classes), BINS), np.int64)

    def add(self, probabilities: Array, target: Array) -> None:
        """A batch: probabilities `[b, c]`, labels `[b]` or `[b, c]`."""
        own = probabilities[:, self.classes].astype(np.float64)
        true = target[:, self.classes] > 0.5 if target.ndim == 2 else target[:, None] == self.classes
        with np.errstate(divide="ignore"):
            odds = np.clip(np.log(own) - np.log1p(-own), -_FARTHEST, _FARTHEST)
        bins = np.minimum(((odds + _FARTHEST) * (BINS / (2 * _FARTHEST))).astype(np.int64), BINS - 1)
        places = (true * len(self.classes) + np.arange(len(self.classes))) * BINS + bins
        self.counts += np.bincount(places.ravel(), minlength=self.counts.size).reshape(self.counts.shape)

    def merge(self, counts: Array) -> None:
        """Add the counts of other rows."""
        self.counts = self.counts + counts

    def curves(self) -> dict[int, Curve]:
        """By class; of those that some rows have and some have not."""
        return {
            int(number): curve
            for place, number in enumerate(self.classes)
            if (curve := _curve(self.counts[1, place], self.counts[0, place])) is not None
        }


def _curve(true: Array, false: Array) -> Curve | None:
    """From the highest probability down; rows of one bin come together."""
    if not true.any() or not false.any():
        return None
    some = np.flatnonzero(true + false)[::-1]
    right, wrong = np.cumsum(true[some]), np.cumsum(false[some])
    recall, fallout = right / right[-1], wrong / wrong[-1]
    precision = right / (right + wrong)
    zero = np.zeros(1)
    rates = np.concatenate([zero, fallout]), np.concatenate([zero, recall])
    area = float(np.sum(np.diff(rates[0]) * (rates[1][1:] + rates[1][:-1]) / 2))
    average = float(np.sum(np.diff(np.concatenate([zero, recall])) * precision))
    kept = true[some] > 0  # where no recall is gained, precision only falls
    return Curve(int(right[-1] + wrong[-1]), int(right[-1]), rates, (recall[kept], precision[kept]), area, average)


def _thinned(x: Array, y: Array) -> list[list[float]]:
    """The ends, and points about equally far from each other along the curve."""
    if len(x) > _POINTS:
        walked = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        kept = np.searchsorted(walked, np.linspace(0, walked[-1], _POINTS))
        kept = np.unique(np.concatenate([[0], np.minimum(kept, len(x) - 1), [len(x) - 1]]))
        x, y = x[kept], y[kept]
    return [np.round(x, 4).tolist(), np.round(y, 4).tolist()]
