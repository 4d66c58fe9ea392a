"""What a table has, what it lacks and what that would cost, what is stale, and what is not possible here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gamlp.bench.cells import columns_of
from gamlp.bench.measure import is_special, points_of, results_of
from gamlp.bench.schedule import Forecast, PlaceState, Schedule
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Work


@dataclass(frozen=True)
class TableStatus:
    """Of a table's cells (rows on columns) at hand.

    `complete` have their seeds, recorded or of an earlier page; `earlier` are shown from an earlier page alone. `runs`
    are recorded and current, `stale` recorded by another recipe, method or graph. `absent` says which columns are not
    possible here, and why. Of a special table, which measures points of its own, `cells` and `runs` are those points.
    """

    table: str
    anything: bool
    cells: int = 0
    complete: int = 0
    earlier: int = 0
    runs: int = 0
    stale: int = 0
    seeds: tuple[int, int] = (0, 0)  # fewest and most of a cell
    missing: Forecast = field(default_factory=lambda: Forecast.of([]))
    absent: dict[str, str] = field(default_factory=dict)
    special: bool = False
    places: tuple[PlaceState, ...] = field(default=(), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Of everything, with a row for each cell."""
        parts = {name: value for name, value in self.__dict__.items() if name not in ("places", "missing")}
        return {**parts, "missing": asdict(self.missing), "places": [_place(one) for one in self.places]}


def _place(one: PlaceState) -> dict[str, Any]:
    cell = one.cell
    return {
        "method": cell.method, "dataset": cell.dataset, "at": cell.point, "runs": one.done, "seeds": one.shown,
        "wanted": one.wanted, "seconds": one.estimate.seconds, "source": one.estimate.source,
    }  # fmt: skip


def status_of(table: PaperTable, work: Work) -> TableStatus:
    """By the record and the earlier pages of `work`; nothing is run."""
    if is_special(table):
        results, points = results_of(table, work), points_of(table, work)
        return TableStatus(
            table.name,
            results.measured_any,
            cells=points.known + points.lacking,
            complete=points.known,
            runs=points.known,
            missing=Forecast(points.lacking, points.seconds, points.unknown, ()),
            absent=results.missing,
            special=True,
        )
    schedule = Schedule([table], work)
    places = tuple(schedule.places())
    current = {(cell.recipe_key, cell.made) for cell in columns_of(table, work, absent=True).cells if cell.seed == 0}
    lines = [(line["recipe"], line["made"]) in current for line in work.record.lines(table.name)]
    shown = [one.shown for one in places]
    return TableStatus(
        table.name,
        any(shown),
        cells=len(places),
        complete=sum(one.shown >= one.wanted for one in places),
        earlier=sum(one.shown > one.done for one in places),
        runs=sum(one.done for one in places),
        stale=lines.count(False),
        seeds=(min(shown, default=0), max(shown, default=0)),
        missing=Forecast.of(schedule.waiting()),
        absent=schedule.missing[table.name],
        places=places,
    )
