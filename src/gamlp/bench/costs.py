"""How long a run will take: from recorded runs of the same cell, of similar ones, or not known."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gamlp.bench.cells import Cell
from gamlp.bench.record import Line, cost_of

LONG_RUN = 300.0  # seconds; cells whose runs take longer say so, and get LONG_SEEDS seeds
LONG_SEEDS = 3
_SWEEPS = 100  # of rows and columns in turns: a table is small
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
    """Seconds of recorded runs, on whatever machines they were run, and whatever ran beside them."""

    def __init__(self, lines: Iterable[Line]) -> None:
        same: dict[tuple[str, str], list[float]] = defaultdict(list)
        alike: dict[tuple[str, str], list[float]] = defaultdict(list)
        for line in lines:
            took = cost_of(line)
            same[line["recipe"], line["made"]].append(took)
            alike[line["method"], line["dataset"]].append(took)
        self._same = dict(same)
        self._alike = {key: statistics.fmean(found) for key, found in alike.items()}
        self._rows, self._columns = _rows_and_columns(
            {key: math.log(max(seconds, 1e-3)) for key, seconds in self._alike.items()}
        )

    def of(self, cell: Cell) -> Estimate:
        """Of the same cell, else of its row and column elsewhere, which multiply."""
        if found := self._same.get((cell.recipe_key, cell.made)):
            return Estimate(statistics.fmean(found), max(found), "measured")
        seconds = self._alike.get((cell.method, cell.dataset))
        if seconds is None and cell.method in self._rows and cell.dataset in self._columns:
            seconds = math.exp(self._rows[cell.method] + self._columns[cell.dataset])
        return _UNKNOWN if seconds is None else Estimate(seconds, _DOUBT * seconds, "similar")


def _rows_and_columns(logs: dict[tuple[str, str], float]) -> tuple[dict[str, float], dict[str, float]]:
    """log seconds ≈ row + column, by least squares over the cells that are known.

    Means of rows and columns alone would not do: a method that ran on large graphs only would look slow on small ones.
    """
    rows, columns = ({key[place]: 0.0 for key in logs} for place in (0, 1))
    for _ in range(_SWEEPS):
        for own, other, place in ((rows, columns, 0), (columns, rows, 1)):
            rest: dict[str, list[float]] = defaultdict(list)
            for key, log in logs.items():
                rest[key[place]].append(log - other[key[1 - place]])
            own.update({name: statistics.fmean(found) for name, found in rest.items()})
    return rows, columns
