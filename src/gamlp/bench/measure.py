"""What has been measured of a table, read from the record and earlier pages, and its files; nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gamlp.bench import complexity, hop_weights, sgc_steps
from gamlp.bench.cells import TableRuns, columns_of
from gamlp.bench.earlier import or_earlier, with_earlier
from gamlp.bench.figures import write_figures
from gamlp.bench.pages import Stamp, as_content, as_markdown, write_pages
from gamlp.bench.record import origins_of
from gamlp.bench.results import Key, Reports, Results
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Points, Work

_Measure = Callable[[PaperTable, Work], dict[str, Any]]
_AsResults = Callable[[PaperTable, dict[str, Any]], Results]
_SPECIAL: dict[str, tuple[_Measure, _AsResults]] = {
    "complexity": (complexity.measure, complexity.as_results),
    "hop-weights": (hop_weights.measure, hop_weights.as_results),
    "sgc-steps": (sgc_steps.measure, sgc_steps.as_results),
}


def is_special(table: PaperTable) -> bool:
    """Whether it is no table of runs: it measures points of its own, which its page keeps as a whole."""
    return table.kind in _SPECIAL


def measure_special(table: PaperTable, work: Work) -> dict[str, str]:
    """Points of such a table that are missing, until the deadline; gives what could not be run, with its reason."""
    if not is_special(table):
        return {}
    run, _ = _SPECIAL[table.kind]
    refused: dict[str, str] = run(table, work).get("refused", {})
    return refused


@dataclass(frozen=True)
class PointCount:
    """Points of a special table that are known, and those that are not, with the seconds that they will take.

    Of `unknown` of them nothing tells how long.
    """

    known: int
    lacking: int
    seconds: float
    unknown: int


def points_of(table: PaperTable, work: Work) -> PointCount:
    """Counted, on datasets that are at hand; nothing is run."""
    look, _ = _SPECIAL[table.kind]
    found = look(table, replace(work, deadline=0.0))
    seconds, unknown = Points(work, table.kind).record.seconds(found["lacks"])
    return PointCount(found["points"], len(found["lacks"]), seconds, unknown)


def results_of(table: PaperTable, work: Work) -> Results:
    """What has been measured so far, here, by the record and by earlier pages; nothing is run."""
    if is_special(table):
        look, as_results = _SPECIAL[table.kind]
        points = look(table, replace(work, deadline=0.0))  # past its deadline it only reads
        origins = origins_of(Points(work, table.kind).record.lines.values())
        return or_earlier(replace(as_results(table, points), origins=origins), work.pages)
    # All rows and columns, whichever were asked to run, and on datasets that others had.
    columns = columns_of(table, replace(work, methods=None, datasets=None, seeds=1), absent=True)
    return results_from(table, columns, work)


def results_from(table: PaperTable, columns: TableRuns, work: Work) -> Results:
    """The same of a table of runs whose cells are at hand: all seeds that the record has of them."""
    first = [cell for cell in columns.cells if cell.seed == 0]
    found: dict[Key, Reports] = {}
    for cell in first:
        if reports := work.record.reports(cell.recipe_key, cell.made):
            found[cell.place[1:]] = reports
    recipes = {cell.place[1:]: cell.recipe_key for cell in first}
    made = {cell.place[1:]: cell.made for cell in first}
    origins = work.record.origins((cell.recipe_key, cell.made) for cell in first)
    results = Results(table, found, columns.missing, recipes=recipes, made=made, origins=origins)
    return with_earlier(results, work.pages)


@dataclass(frozen=True)
class WrittenTable:
    """Files of a table; `page` is its Markdown. Where nothing was `measured` it holds published values alone."""

    page: str
    content: dict[str, Any]
    files: list[Path]
    measured: bool


def write_result(table: PaperTable, work: Work, folder: Path) -> WrittenTable:
    """Markdown, CSV and JSON, and the figure as PNG and SVG; a page that is there gives numbers whose runs are lost."""
    results = results_of(table, replace(work, pages=folder))
    stamp = Stamp.now(f"gamlp bench run {table.name}")
    write_pages(results, folder, stamp)  # first: numbers are there even where nothing can draw
    figures = write_figures(results, folder)
    files = write_pages(results, folder, stamp, [path.name for path in figures if path.suffix == ".png"])
    return WrittenTable(
        as_markdown(results, stamp), as_content(results, stamp), [*files, *figures], results.measured_any
    )
