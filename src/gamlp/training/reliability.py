"""Whether probabilities mean what they say: what was said of rows, and what came true, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.training.levels import Levels

BINS = 15


@dataclass(frozen=True)
class Reliability:
    """By bin, from the least sure: rows, the mean probability that was said, and the share that came true."""

    rows: Array
    said: Array
    true: Array

    def as_json(self) -> list[dict[str, Any]]:
        """Bins that hold rows."""
        each = zip(self.rows.tolist(), self.said.tolist(), self.true.tolist())
        return [{"rows": rows, "said": said, "true": true} for rows, said, true in each if rows]


def said_and_true(probabilities: Array, target: Array, positive: int = 1) -> tuple[Array, Array]:
    """Probabilities that were said, and whether they came true.

    Of two classes that of the `positive` one, of more the likeliest one's, of many labels a node every label's.
    """
    if target.ndim == 2:
        return probabilities.reshape(-1), target.reshape(-1) > 0.5
    if probabilities.shape[1] == 2:
        return probabilities[:, positive], target == positive
    return probabilities.max(1), probabilities.argmax(1) == target


def reliability_of(said: Array, true: Array, bins: int = BINS) -> Reliability:
    """Bins of equal mass; equal probabilities are in one bin, so that the order of rows changes nothing."""
    return reliability_of_levels(Levels.of(said, true, ~true), bins)


def reliability_of_levels(found: Levels, bins: int = BINS) -> Reliability:
    """The same of rows that were counted by their probabilities."""
    hits, falls = (part[::-1] for part in found.each)
    rows, said = hits + falls, found.values[::-1].astype(np.float64)
    until = np.cumsum(rows)
    middle = (until - rows + until) / 2
    place = np.minimum((bins * middle / max(1, rows.sum())).astype(np.int64), bins - 1)
    counts = np.bincount(place, weights=rows, minlength=bins).astype(np.int64)
    sums = [np.bincount(place, weights=part, minlength=bins) / np.maximum(counts, 1) for part in (said * rows, hits)]
    return Reliability(counts, *sums)


def calibration_error(found: Reliability) -> float:
    """Expected calibration error: the mean over rows of |said − true| of their bin."""
    return float((found.rows * np.abs(found.said - found.true)).sum() / max(1, found.rows.sum()))
