"""What is run next: fewest seeds first, then rows that are less apart than their error; what it costs is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gamlp.bench import schedule as schedule_module
from gamlp.bench.cells import cells_of, columns_of
from gamlp.bench.claims import Claim
from gamlp.bench.pages import write_pages
from gamlp.bench.results import Results
from gamlp.bench.schedule import Forecast, Schedule, doubts, duration
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Work
from tests.bench import hand
from tests.bench.test_runner import QUICK
from tests.bench.test_runner import table as two_rows

AHEAD = Claim(table="small", says="so", kind="order", methods=("SGC", "MLP"))


def table(**changes: object) -> PaperTable:
    """Three rows on karate, of which a claim compares SGC and the MLP."""
    rows = {name: {"recipe": name.lower(), "changes": QUICK} for name in ("SIGN", "SGC", "MLP")}
    return two_rows(methods=rows, datasets={"karate": {"title": "Karate"}}, **changes)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setattr(schedule_module, "claims", lambda: (AHEAD,))
    return Work(tmp_path / "work", runs=tmp_path / "runs")


def ran(work: Work, method: str, *scores: float, first: int = 0, training: float = 1.0) -> None:
    """Runs of a row as if they had been run."""
    cells = [cell for cell in cells_of(table(), "karate", [method], first + len(scores)) if cell.seed >= first]
    lines = [cell.line(hand.report(cell.seed, score, training)) for cell, score in zip(cells, scores)]
    work.record.add("small", lines)


def order(work: Work, extra: bool = False, **changes: object) -> list[tuple[str, int]]:
    found = Schedule([table(**changes)], work, extra).waiting()
    return [(one.cell.method, one.cell.seed) for one in found]


def test_cells_with_fewest_seeds_come_first(work: Work) -> None:
    ran(work, "SIGN", 0.8)
    ran(work, "SGC", 0.8, 0.8)
    assert order(work, seeds=3) == [
        ("MLP", 0), ("SIGN", 1), ("MLP", 1), ("SIGN", 2), ("SGC", 2), ("MLP", 2),
    ]  # fmt: skip


def test_of_equally_many_those_come_first_that_are_not_told_apart(work: Work) -> None:
    ran(work, "SIGN", 0.5, 0.7)
    ran(work, "SGC", 0.80, 0.82)
    ran(work, "MLP", 0.825, 0.805)
    assert order(work, seeds=3) == [("SGC", 2), ("MLP", 2), ("SIGN", 2)]
    ran(work, "MLP", 0.1, first=2)
    assert order(work, seeds=3) == [("SGC", 2), ("SIGN", 2)]


def test_a_budget_goes_on_with_rows_that_are_not_told_apart(work: Work) -> None:
    ran(work, "SIGN", 0.5, 0.7)
    ran(work, "SGC", 0.80, 0.82)
    ran(work, "MLP", 0.825, 0.805)
    assert order(work) == [] and order(work, extra=True) == [("SGC", 2), ("MLP", 2), ("SGC", 3), ("MLP", 3)]


def test_what_is_told_apart_gets_no_more(work: Work) -> None:
    ran(work, "SIGN", 0.5, 0.7)
    ran(work, "SGC", 0.80, 0.82)
    ran(work, "MLP", 0.50, 0.52)
    assert order(work, extra=True) == []


def test_doubts_are_differences_in_units_of_their_error() -> None:
    cells = {
        ("SGC", "cora", None): [hand.report(0, 0.80), hand.report(1, 0.82)],
        ("GAMLP(R)", "cora", None): [hand.report(0, 0.83), hand.report(1, 0.81)],
    }  # 3 and -1 apart: mean 1, deviation √8, error √8 / √2 = 2
    claim = Claim(table="small", says="so", kind="reaches", methods=("GAMLP(R)", "SGC"))
    found = doubts(Results(hand.small(), cells), [claim])
    assert found == {key: pytest.approx(0.5) for key in cells}
    single = {key: reports[:1] for key, reports in cells.items()}
    assert doubts(Results(hand.small(), single), [claim]) == {}, "one run has no error that is known"


def test_numbers_of_an_earlier_page_count_as_seeds_and_are_replaced_last(work: Work, tmp_path: Path) -> None:
    ran(work, "SIGN", 0.8)
    first = columns_of(table(), replace(work, seeds=1)).cells
    recipes = {cell.place[1:]: cell.recipe_key for cell in first}
    kept = {("MLP", "karate", None): [hand.report(0, 0.5), hand.report(1, 0.6)]}
    write_pages(Results(table(), kept, recipes=recipes), tmp_path, hand.STAMP)
    assert order(replace(work, pages=tmp_path)) == [
        ("SGC", 0), ("SIGN", 1), ("SGC", 1), ("MLP", 0), ("MLP", 1),
    ]  # fmt: skip


def test_the_whole_is_estimated_before(work: Work) -> None:
    ran(work, "SGC", 0.8, training=600.0)
    found = Forecast.of(Schedule([table()], work).waiting())
    assert (found.runs, found.unknown) == (5, 4) and found.seconds == pytest.approx(602.1)
    assert found.long == ("SGC on karate (10 min a run)",)
    assert found.sentences(7200.0) == [
        "5 runs are missing, about 10 min in all without 4 runs of cells of which nothing is known yet; "
        "the budget is 2.0 h",
        "over five minutes a run: SGC on karate (10 min a run)",
    ]
    assert Forecast.of([]).sentences() == ["nothing is missing"]
    assert [duration(seconds) for seconds in (5, 600, 9000)] == ["5 s", "10 min", "2.5 h"]
