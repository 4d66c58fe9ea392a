"""The record of runs: what is in it is not run again; lines are whole, each once, by whichever process."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench.measure import results_of, write_result
from gamlp.bench.record import NAME, Record, as_line
from gamlp.bench.runner import columns_of, run_table
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.run.resources import Resources
from tests.bench import hand
from tests.bench.test_runner import counted, table


def line(key: str, seed: int = 0, **parts: Any) -> dict[str, Any]:
    content = {"report": hand.report(seed, 0.8, **parts), "date": "2024-05-06 07:08", "versions": {"gamlp": "0.1.0"}}
    return as_line(key, content, dataset="cora", method="SGC", seed=seed, recipe="r")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    record = Record(tmp_path / "pages" / NAME)
    return Work(tmp_path / "work", resources=Resources(threads=1, device="cpu"), record=record, methods=("MLP",))


def test_a_report_comes_back_as_it_was(tmp_path: Path) -> None:
    record = Record(tmp_path / NAME)
    given = hand.report(3, 1 / 3, epoch=0, stopped="patience", tests={"a": {"score": 0.5}}, valid_mean={})
    record.add([as_line("k", {"report": given, "date": "2024-05-06"}, seed=3)])
    assert Record(tmp_path / NAME).report("k") == given
    assert '"epoch"' not in (tmp_path / NAME).read_text(), "defaults are left out"
    assert record.report("other") is None


def test_a_line_is_added_once_and_others_lines_are_seen(tmp_path: Path) -> None:
    one, other = Record(tmp_path / NAME), Record(tmp_path / NAME)
    one.add([line("a")])
    other.add([line("a"), line("b")])
    assert "b" in one and len((tmp_path / NAME).read_text().splitlines()) == 2


def test_half_a_line_of_a_process_that_died_is_passed_over(tmp_path: Path) -> None:
    Record(tmp_path / NAME).add([line("a")])
    with (tmp_path / NAME).open("a") as file:
        file.write(json.dumps(line("b"))[:50])
    record = Record(tmp_path / NAME)
    assert "a" in record and "b" not in record
    record.add([line("c")])
    assert [json.loads(text)["key"] for text in (tmp_path / NAME).read_text().splitlines()] == ["a", "c"]


def test_a_whole_line_that_is_no_run_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("<<<<<<< HEAD\n")
    with pytest.raises(GamlpError, match="no run: '<<<<<<< HEAD'"):
        Record(tmp_path / NAME).report("a")


def _add(path: Path, first: int) -> None:
    record = Record(path)
    for number in range(first, first + 60):
        record.add([line(f"k{number}")])


def test_two_processes_add_to_one_record(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(tmp_path / NAME, first)) for first in (0, 30)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    keys = [json.loads(text)["key"] for text in (tmp_path / NAME).read_text().splitlines()]
    assert sorted(keys) == sorted(f"k{number}" for number in range(90)), "each once, those of both too"


def test_another_machine_goes_on_from_the_record(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert work.record is not None
    run_table(table(), replace(work, seeds=1))
    cells = counted(monkeypatch)
    fresh = replace(work, folder=tmp_path / "empty", record=Record(work.record.path))
    run_table(table(), fresh)
    assert [(cell.method, cell.seed) for cell in cells] == [("MLP", 1)]
    lines = [json.loads(text) for text in work.record.path.read_text().splitlines()]
    assert [(one["dataset"], one["method"], one["seed"]) for one in lines] == [
        ("karate", "MLP", 0),
        ("karate", "MLP", 1),
    ]
    assert {one["recipe"] for one in lines} == {cells[0].recipe_key} and all(one["versions"] for one in lines)
    assert max(map(len, work.record.path.read_text().splitlines())) < 1000
    both = results_of(table(), fresh).reports("MLP", "karate")
    assert both[0] == results_of(table(), replace(work, record=None)).reports("MLP", "karate")[0] and len(both) == 2


def test_runs_of_before_the_record_are_added_when_a_page_is_written(work: Work, tmp_path: Path) -> None:
    run_table(table(), replace(work, seeds=1, record=None))
    write_result(table(), work, tmp_path / "pages")
    (cell, *_) = columns_of(table(), work).cells
    assert work.record is not None and cell.key in work.record


def test_a_page_shows_what_is_recorded_of_datasets_that_are_not_at_hand(work: Work) -> None:
    assert work.record is not None
    (cell, *_) = columns_of(table(), work, absent=True).cells
    (products,) = [one for one in columns_of(table(), work, absent=True).cells if one.dataset != "karate"][:1]
    assert cell.dataset == "karate" and products.dataset == "ogbn-products"
    work.record.add([products.line({"report": hand.report(0, 0.7)})])
    found = results_of(table(), work)
    assert found.missing == {} and found.reports("MLP", "ogbn-products")
