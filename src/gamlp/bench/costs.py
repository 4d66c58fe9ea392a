"""How long a run will take: from recorded runs of the same cell, of similar ones, or not known."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gamlp.bench.cells import Cell
from gamlp.bench.record import Line

LONG_RUN = 300.0  # seconds; cells whose runs take longer say so, and get LONG_SEEDS seeds
LONG_SEEDS = 3
_DOUBT = 2.0  # times what similar cells say, a run may take


@dataclass(frozen=True)
class Estimate:
    """Of one run. `most` is what is set aside for it: the longest of the same cell, or twice what similar ones say."""

    seconds: float | None
    most: float
    source: Literal["measured", "similar", "unknown"]

    @property
    def long(self) -> bool:
        """Whether a run takes over five minutes."""
        return self.seconds is not None and self.seconds > LONG_RUN


_UNKNOWN = Estimate(None, 0.0, "unknown")


class Costs:
    """Seconds of recorded runs, on whatever machines they were run."""

    def __init__(self, lines: Iterable[Line]) -> None:
        same: dict[tuple[str, str], list[float]] = defaultdict(list)
        alike: dict[tuple[str, str], list[float]] = defaultdict(list)
        for line in lines:
            took = sum(line["seconds"].values())
            same[line["recipe"], line["made"]].append(took)
            alike[line["method"], line["dataset"]].append(took)
        self._same = dict(same)
        self._alike = {key: statistics.fmean(found) for key, found in alike.items()}
        self._rows, self._columns = (self._means(place) for place in (0, 1))

    def _means(self, place: int) -> dict[str, float]:
        """Mean of log seconds by method or by dataset."""
        found: dict[str, list[float]] = defaultdict(list)
        for key, seconds in self._alike.items():
            found[key[place]].append(math.log(max(seconds, 1e-3)))
        return {name: statistics.fmean(logs) for name, logs in found.items()}

    def of(self, cell: Cell) -> Estimate:
        """Of the same cell, else of its row and column elsewhere: row's mean · column's mean / mean of all, of logs."""
        if found := self._same.get((cell.recipe_key, cell.made)):
            return Estimate(statistics.fmean(found), max(found), "measured")
        seconds = self._alike.get((cell.method, cell.dataset))
        if seconds is None and cell.method in self._rows and cell.dataset in self._columns:
            both = self._rows[cell.method] + self._columns[cell.dataset]
            seconds = math.exp(both - statistics.fmean(self._rows.values()))
        return _UNKNOWN if seconds is None else Estimate(seconds, _DOUBT * seconds, "similar")
