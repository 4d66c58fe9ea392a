"""Which run comes next: of cells with fewest seeds, then of rows whose difference is smaller than its error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gamlp.bench.cells import Cell, Place, columns_of
from gamlp.bench.claims import Claim, claims, compared_pairs
from gamlp.bench.costs import LONG_SEEDS, Costs, Estimate
from gamlp.bench.measure import is_special, results_from
from gamlp.bench.results import Key, Results
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Work, chosen

_EXTRA = 2  # times its table's seeds, a row that is not told apart from another may have


@dataclass(frozen=True)
class Waiting:
    """A run that is missing, and what it will cost."""

    cell: Cell
    estimate: Estimate


@dataclass(frozen=True)
class PlaceState:
    """A row on a column: seeds in the record, seeds that a page shows (an earlier one may have more), seeds wanted."""

    cell: Cell  # of its first seed
    done: int
    shown: int
    wanted: int
    estimate: Estimate


@dataclass(frozen=True)
class Forecast:
    """Of all missing runs: their seconds as far as they can be told, and runs and cells of which they cannot."""

    runs: int
    seconds: float
    unknown: int
    long: tuple[str, ...]  # cells whose runs take over five minutes, with how long

    @classmethod
    def of(cls, waiting: Iterable[Waiting]) -> Forecast:
        found = list(waiting)
        known = [one.estimate.seconds for one in found if one.estimate.seconds is not None]
        long = {one.cell.name: one.estimate.seconds for one in found if one.estimate.long and one.estimate.seconds}
        told = tuple(f"{name} ({seconds / 60:.0f} min a run)" for name, seconds in long.items())
        return cls(len(found), sum(known), len(found) - len(known), told)

    def sentences(self, budget: float | None = None, jobs: int = 1, what: str = "runs") -> list[str]:
        """What to expect, before anything is started."""
        if not self.runs:
            return ["nothing is missing" if what == "runs" else f"no {what} are missing"]
        said = f"{self.runs} {what} are missing, about {duration(self.seconds / jobs)} in all"
        if self.unknown == self.runs:
            said = f"{self.runs} {what} are missing, and what they take is not known yet"
        elif self.unknown:
            said += f" without {self.unknown} {what} of cells of which nothing is known yet"
        if budget is not None:
            said += f"; the budget is {duration(budget)}"
        over = [f"over five minutes a run: {', '.join(self.long)}"] if self.long else []
        return [said, *over]


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Schedule:
    """Runs that tables lack. With `extra`, rows that are not told apart get seeds beyond what their table asks for."""

    def __init__(self, tables: Sequence[PaperTable], work: Work, extra: bool = False) -> None:
        _check_names(tables, work)
        self._work = work
        self._tables = [_Planned(table, work, extra, claims()) for table in tables if not is_special(table)]
        self.missing = {one.table.name: one.columns.missing for one in self._tables}
        self._costs = Costs(work.record.lines())

    def column(self, cell: Cell) -> list[Cell]:
        """All runs of the cell's table on its dataset, done or not."""
        (planned,) = (one for one in self._tables if one.table.name == cell.table)
        return [one for one in planned.columns.cells if one.dataset == cell.dataset]

    def refresh(self, ended: Cell | None = None) -> None:
        """Take into account what was added to the record: here, where a cell `ended`, or by others."""
        self._work.record.refresh()
        self._costs = Costs(self._work.record.lines())
        for planned in self._tables:
            if ended is not None and planned.table.name == ended.table:
                planned.judge()

    def counts(self) -> tuple[int, int]:
        """Runs that are done and runs that tables ask for."""
        states = self.places()
        return sum(min(one.wanted, one.done) for one in states), sum(one.wanted for one in states)

    def places(self) -> list[PlaceState]:
        """Of all cells at hand, however many seeds they have."""
        return [
            planned.state(cells, self._costs.of(cells[0]))
            for planned in self._tables
            for cells in planned.places.values()
        ]

    def waiting(self) -> list[Waiting]:
        """What is missing, the most needed first."""
        found: list[tuple[tuple[float, ...], Waiting]] = []
        for planned in self._tables:
            for cells in planned.places.values():
                state = planned.state(cells, self._costs.of(cells[0]))
                ranks = planned.ranks(cells, state)
                found += [((*rank, len(found)), Waiting(cell, state.estimate)) for cell, rank in ranks]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]


class _Planned:
    """A table's cells by place, seeds ascending, and what is known of them."""

    def __init__(self, table: PaperTable, work: Work, extra: bool, known: Sequence[Claim]) -> None:
        self.table, self._work, self._extra = table, work, extra
        self._claims = [claim for claim in known if claim.table == table.name]
        seeds = (work.seeds or table.seeds) * (_EXTRA if extra else 1)
        self.columns = columns_of(table, replace(work, seeds=seeds, methods=None, datasets=None), absent=True)
        self.places: dict[Place, list[Cell]] = {}
        for cell in self.columns.cells:
            asked = (work.methods is None or cell.method in work.methods) and (
                work.datasets is None or cell.dataset in work.datasets
            )
            if asked and cell.dataset not in self.columns.missing:
                self.places.setdefault(cell.place, []).append(cell)
        self.judge()

    def judge(self) -> None:
        """Which rows are not told apart, by what has been measured."""
        results = results_from(self.table, self.columns, self._work)
        self._doubts = doubts(results, self._claims)
        self._shown = {key: max(results.seeds(*key), default=0) for key in results.places}

    def wanted(self, estimate: Estimate) -> int:
        """Seeds of a cell: few where its runs are long."""
        seeds = self._work.seeds or self.table.seeds
        return min(seeds, LONG_SEEDS) if estimate.long and estimate.source == "measured" else seeds

    def state(self, cells: list[Cell], estimate: Estimate) -> PlaceState:
        """Of a place, whose cells these are."""
        done = len(self._work.record.seeds(cells[0].recipe_key, cells[0].made))
        shown = max(done, self._shown.get(cells[0].place[1:], 0))
        return PlaceState(cells[0], done, shown, self.wanted(estimate), estimate)

    def _missing(self, cells: list[Cell]) -> list[Cell]:
        """By the key of the first, which all but their seeds share: digests of each would take long."""
        done = self._work.record.seeds(cells[0].recipe_key, cells[0].made)
        return [cell for cell in cells if cell.seed not in done]

    def ranks(self, cells: list[Cell], state: PlaceState) -> list[tuple[Cell, tuple[float, ...]]]:
        """Runs of a place that are missing, each with its rank: the lower, the more it is needed.

        Numbers of an earlier page count as seeds; where they are enough, runs that could replace them come later.
        """
        doubt = self._doubts.get(state.cell.place[1:], math.inf)
        found: list[tuple[Cell, tuple[float, ...]]] = []
        for number, cell in enumerate(self._missing(cells)):
            if cell.seed < state.wanted:
                found.append((cell, (0, state.shown + number, state.done + number, doubt)))
            elif self._extra and doubt < math.inf:
                found.append((cell, (1, doubt, state.done + number, 0)))
        return found


def doubts(results: Results, known: Iterable[Claim]) -> dict[Key, float]:
    """Rows of claims whose difference is smaller than its error, with the smallest difference in units of error."""
    found: dict[Key, float] = {}
    points = results.table.axis.values if results.table.axis is not None else (None,)
    for claim in known:
        for dataset in claim.datasets or results.table.datasets:
            for at in points:
                for pair in compared_pairs(claim, results, dataset, at):
                    gap = results.gap(*pair, dataset, claim.metric, at)
                    if gap is None or not gap.error or (ratio := abs(gap.mean) / gap.error) >= 1:
                        continue
                    for method in pair:
                        key = (method, dataset, at)
                        found[key] = min(ratio, found.get(key, math.inf))
    return found


def _check_names(tables: Sequence[PaperTable], work: Work) -> None:
    """Refuse a row or column that none of the tables has."""
    chosen("method", dict.fromkeys(name for table in tables for name in table.methods), work.methods)
    chosen("dataset", dict.fromkeys(name for table in tables for name in table.datasets), work.datasets)
