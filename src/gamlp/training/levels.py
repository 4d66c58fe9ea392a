"""Scores of rows and what came true, as counts of every distinct score: all that rankings and bins of equal mass need.

Parts of the rows that were counted apart are merged to the very counts of the whole, so nothing depends on the parts.
Of very many probabilities each is taken for the middle of a fine bin of log-odds: memory does not grow with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.io import State

MOST_EXACT = 1_000_000  # probabilities that are counted as they are; and levels that are held of more
_FARTHEST = 17.0  # log-odds; beyond it float32 does not tell probabilities from one


def rounded(probabilities: Array, bins: int) -> Array:
    """Every probability as the middle of its bin, of `bins` that are equally wide in log-odds.

    >>> round(float(rounded(np.array([0.3]), 100_000)[0]), 4)
    0.3
    """
    own = probabilities.astype(np.float64)
    with np.errstate(divide="ignore"):
        odds = np.clip(np.log(own) - np.log1p(-own), -_FARTHEST, _FARTHEST)
    width = 2 * _FARTHEST / bins
    place = np.minimum(np.floor((odds + _FARTHEST) / width), bins - 1)
    return np.asarray(1 / (1 + np.exp(_FARTHEST - width * (place + 0.5))))


def levels_for(probabilities: int, classes: int = 1) -> int | None:
    """Bins of each class where there are so many probabilities in all; None: they are counted as they are."""
    return None if probabilities <= MOST_EXACT else max(2000, MOST_EXACT // max(1, 4 * classes))


@dataclass(frozen=True)
class Levels:
    """Distinct scores from the highest down; `hits` and `falls`: true and other rows whose score is at least this."""

    values: Array
    hits: Array
    falls: Array

    @classmethod
    def of(cls, scores: Array, hits: Array, falls: Array) -> Levels:
        """From scores in any order, with how many rows of each are true and are not (or whether one is)."""
        if not len(scores):
            return cls(scores, np.zeros(0, np.int64), np.zeros(0, np.int64))
        order = np.argsort(-scores, kind="stable")
        ends = np.r_[np.flatnonzero(np.diff(scores[order])), len(scores) - 1]
        counts = (np.cumsum(part[order], dtype=np.int64)[ends] for part in (hits, falls))
        return cls(scores[order][ends], *counts)

    @property
    def each(self) -> tuple[Array, Array]:
        """True and other rows of every level alone."""
        return np.diff(self.hits, prepend=0), np.diff(self.falls, prepend=0)

    @property
    def mixed(self) -> bool:
        """Whether some rows are true and some are not."""
        return len(self.values) > 0 and bool(self.hits[-1]) and bool(self.falls[-1])

    @property
    def roc_auc(self) -> float:
        """P(score of a positive > score of a negative), a tie counts half; NaN without both."""
        if not self.mixed:
            return math.nan
        return float(np.trapezoid(np.r_[0, self.hits] / self.hits[-1], np.r_[0, self.falls] / self.falls[-1]))

    @property
    def average_precision(self) -> float:
        """Σ (recall_k - recall_(k-1)) precision_k over thresholds; NaN without both."""
        if not self.mixed:
            return math.nan
        return float(np.sum(self.each[0] / self.hits[-1] * (self.hits / (self.hits + self.falls))))

    def turned(self) -> Levels:
        """Of the other rows, by the scores with the other sign."""
        hits, falls = (np.cumsum(part[::-1]) for part in self.each)
        return Levels(-self.values[::-1], falls, hits)


class RankedScores:
    """Scores with what came true, batch by batch and part by part; with `bins` they are probabilities, rounded."""

    def __init__(self, bins: int | None = None) -> None:
        self._bins = bins
        self._parts: list[tuple[Array, Array, Array]] = []
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def add(self, scores: Array, true: Array) -> None:
        self.merge(scores if self._bins is None else rounded(scores, self._bins), true, ~true)

    def merge(self, scores: Array, hits: Array, falls: Array) -> None:
        """Scores of other rows, with how many of each are true and are not."""
        self._parts.append((scores, hits, falls))
        self._held += len(scores)
        if self._bins is not None and self._held > 2 * self._bins:
            self.levels()

    def levels(self) -> Levels:
        """Of all that was added; it is kept in place of it."""
        if not self._parts:
            none = np.zeros(0)
            return Levels.of(none, none, none)
        found = Levels.of(*(np.concatenate(part) for part in zip(*self._parts)))
        hits, falls = (_small(part) for part in found.each)
        self._parts, self._held = [(found.values, hits, falls)], len(found.values)
        return found


def _small(counts: Array) -> Array:
    """In as few bytes as they need."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def state_of_ranked(ranked: Sequence[RankedScores]) -> State:
    """Levels of several, one after the other; counts take as few bytes as they need."""
    found = [one.levels() for one in ranked]
    counts = [np.concatenate([np.zeros(0, np.int64), *part]) for part in zip(*(one.each for one in found))]
    values = [one.values for one in found]
    return {
        "values": np.concatenate(values) if values else np.zeros(0),
        "ends": np.cumsum([len(part) for part in values], dtype=np.int64),
        **{name: _small(part) for name, part in zip(("hits", "falls"), counts)},
    }


def merge_ranked(ranked: Sequence[RankedScores], state: State) -> None:
    """Add what `state_of_ranked` told of as many."""
    begin = 0
    for one, end in zip(ranked, state["ends"].tolist(), strict=True):
        values, hits, falls = (state[name][begin:end] for name in ("values", "hits", "falls"))
        one.merge(values, hits, falls)
        begin = end
