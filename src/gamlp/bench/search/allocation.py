"""Where a search spends its time: which cell, and there a new recipe or one more run of a recipe that may be the best.

A cell is a dataset and a method. Its trials are recipes, each with validation scores of some replicates (a seed, or a
split and its seed). All is plain arithmetic on these scores; nothing here trains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist, fmean, median

RESERVE = 1 / 3  # of all seconds: spent where a second is expected to bring most; the others are equal for all cells
_NORMAL = NormalDist()
_PRIOR, _PRIOR_RUNS = 0.005, 2  # deviation of a replicate before any is known, and how many runs it weighs
_ROUNDS = 30


@dataclass(frozen=True)
class Tried:
    """A trial: validation scores and losses by replicate, and the seconds that one run takes."""

    number: int
    scores: Mapping[int, float]
    losses: Mapping[int, float]
    seconds: float = 1.0


@dataclass(frozen=True)
class Act:
    """One more run: of a trial, or with `trial` None of a new recipe. `gain` is of the score that it is worth."""

    trial: int | None
    gain: float
    seconds: float

    @property
    def value(self) -> float:
        """Gain a second."""
        return self.gain / max(self.seconds, 1e-3)


@dataclass(frozen=True)
class Standing:
    """How the trials of a cell compare. Trials that never ran are left out.

    `splits`: replicates are splits of their own, some easier than others; else they are seeds, which are all alike.
    """

    tried: Sequence[Tried]
    splits: bool = True

    @cached_property
    def _fit(self) -> tuple[dict[int, float], dict[int, float]]:
        """Score = trial + replicate, by least squares: a trial that only ran on an easy split is not better for it."""
        trials = {one.number: fmean(one.scores.values()) for one in self.tried}
        replicates = dict.fromkeys({key for one in self.tried for key in one.scores}, 0.0)
        for _ in range(_ROUNDS if self.splits and len(replicates) > 1 else 0):
            for key in replicates:
                replicates[key] = fmean(one.scores[key] - trials[one.number] for one in self.tried if key in one.scores)
            for one in self.tried:
                trials[one.number] = fmean(score - replicates[key] for key, score in one.scores.items())
        return trials, replicates

    @property
    def means(self) -> dict[int, float]:
        """Scores of trials, as if all had run on the same replicates."""
        return self._fit[0]

    @cached_property
    def deviation(self) -> float:
        """Of one run around its trial's mean, pooled over trials."""
        trials, replicates = self._fit
        residuals = [
            score - trials[one.number] - replicates[key] for one in self.tried for key, score in one.scores.items()
        ]
        free = max(0, len(residuals) - len(trials) - (len(replicates) - 1 if self.splits else 0))
        total = sum(value * value for value in residuals) if free else 0.0
        return math.sqrt((total + _PRIOR_RUNS * _PRIOR**2) / (free + _PRIOR_RUNS))

    @cached_property
    def leader(self) -> Tried | None:
        """The trial whose mean less its standard error is highest; where these are equal, the loss tells."""
        return max(self.tried, key=self._rank, default=None)

    def ranked(self) -> list[Tried]:
        """The best first."""
        return sorted(self.tried, key=self._rank, reverse=True)

    def _rank(self, one: Tried) -> tuple[float, float]:
        lowest = self.means[one.number] - self.deviation / math.sqrt(len(one.scores))
        return round(lowest, 9), -fmean(one.losses.values())

    def acts(self, most: int) -> list[Act]:
        """What could be done next, of highest value first; a trial has at most so many replicates."""
        if not self.tried:
            return [Act(None, math.inf, 1.0)]
        found = [Act(None, self._gain_of_new(), fmean(one.seconds for one in self.tried))]
        found += [Act(one.number, self._gain_of(one), one.seconds) for one in self.tried if len(one.scores) < most]
        return sorted(found, key=lambda act: -act.value)

    def _gain_of_new(self) -> float:
        """Of n + 1 recipes the last is the best by chance 1 / (n + 1), then by about the spread of the best quarter."""
        ordered = sorted(self.means.values(), reverse=True)
        best = ordered[: max(3, len(ordered) // 4)]
        return max(best[0] - median(best), self.deviation) / (len(ordered) + 1)

    def _gain_of(self, one: Tried) -> float:
        """E[max(0, what the choice gains)] of one more run: σ f(-gap / σ) with f(z) = φ(z) + z Φ(z).

        σ is how far the run moves the trial's mean, gap its distance from the best other one.
        """
        others = [mean for number, mean in self.means.items() if number != one.number]
        if not others:
            return 0.0
        count = len(one.scores)
        moved = self.deviation * math.sqrt(1 / count - 1 / (count + 1))
        z = -abs(self.means[one.number] - max(others)) / moved
        return moved * (_NORMAL.pdf(z) + z * _NORMAL.cdf(z))


@dataclass(frozen=True)
class Purse:
    """Seconds that a cell has had: of the equal part, and of the reserve."""

    equal: float = 0.0
    reserve: float = 0.0


def next_cells(purses: Mapping[str, Purse], values: Mapping[str, float]) -> list[tuple[str, bool]]:
    """Cells in the order in which to try them, and whether their seconds are of the reserve.

    Two thirds of all seconds go to the cell that has had least, so that every method on every dataset gets the same;
    the reserve goes to the cell whose next second is worth most, and never gives a cell more than the equal part did.
    """
    equal = sum(purse.equal for purse in purses.values())
    reserve = sum(purse.reserve for purse in purses.values())
    least_first = [(name, False) for name in sorted(purses, key=lambda name: purses[name].equal)]
    if reserve >= RESERVE * (equal + reserve):
        return least_first
    open_to = [name for name, purse in purses.items() if purse.reserve < purse.equal]
    by_value = sorted(open_to, key=lambda name: -values[name])
    return [*((name, True) for name in by_value), *least_first]
