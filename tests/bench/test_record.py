"""The record of runs, a file a table: what is in it is not run again; lines are whole, each once, by any process."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench.cells import columns_of
from gamlp.bench.measure import results_of
from gamlp.bench.record import PointRecord, Record, RunKey, as_line, as_report, key_of
from gamlp.bench.runner import run_tables
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.run.resources import Resources
from tests.bench import hand
from tests.bench.test_runner import counted, table


def line(recipe: str, seed: int = 0, **parts: Any) -> dict[str, Any]:
    told = {"table": "small", "method": "SGC", "dataset": "cora", "recipe": recipe, "made": "m", "seed": seed}
    return as_line(told, hand.report(seed, 0.8, **parts))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    resources = Resources(threads=1, device="cpu")
    return Work(tmp_path / "work", resources=resources, runs=tmp_path / "pages" / "runs", methods=("MLP",))


def recipes(path: Path) -> list[str]:
    return [json.loads(text)["recipe"] for text in path.read_text().splitlines()]


def test_what_pages_show_of_a_report_comes_back(tmp_path: Path) -> None:
    given = hand.report(3, 1 / 3, epoch=4, epochs=5, tests={"a": {"score": 0.5, "loss": 1.0}})
    given["test"] |= {"loss": 0.25, "ece": float("nan"), "roc_auc": float("nan")}
    Record(tmp_path).add("small", [as_line({**line("k", 3)}, given)])
    found = Record(tmp_path).line(RunKey("k", "m", 3))
    assert found is not None
    report = as_report(found)
    assert report["test"] == {"score": 0.333333, "macro_f1": 0.333333}, "six digits; losses and NaN are left out"
    assert report["valid"] == {"score": 0.333333} and report["tests"] == {"a": {"score": 0.5}}
    assert {name: report[name] for name in ("seed", "seconds", "peak_memory", "epoch", "epochs")} == {
        "seed": 3, "seconds": given["seconds"], "peak_memory": 3 * 2**20, "epoch": 4, "epochs": 5,
    }  # fmt: skip
    assert Record(tmp_path).line(RunKey("k", "m", 4)) is Record(tmp_path).line(RunKey("k", "other", 3)) is None


def test_a_line_is_a_few_hundred_bytes(tmp_path: Path) -> None:
    Record(tmp_path).add("small", [line("0123456789abcdef")])
    assert len((tmp_path / "small.jsonl").read_bytes()) < 500


def test_a_line_is_added_once_and_others_lines_are_seen(tmp_path: Path) -> None:
    one, other = Record(tmp_path), Record(tmp_path)
    one.add("small", [line("a")])
    other.add("small", [line("a"), line("b")])
    assert one.line(RunKey("b", "m", 0)) is None
    one.refresh()
    assert one.line(RunKey("b", "m", 0)) is not None and recipes(tmp_path / "small.jsonl") == ["a", "b"]


def test_tables_share_a_run_and_seeds_come_in_order(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.add("one", [line("a", 2), line("a", 0)])
    record.add("two", [line("a", 1), line("b", 7)])
    assert [report["seed"] for report in record.reports("a", "m")] == [0, 1, 2]
    assert [key_of(found).recipe for found in record.lines("two")] == ["a", "b"] and len(list(record.lines())) == 4


def test_half_a_line_of_a_process_that_died_is_passed_over_and_said(tmp_path: Path) -> None:
    Record(tmp_path).add("small", [line("a")])
    path = tmp_path / "small.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(line("b"))[:50])
    record = Record(tmp_path)
    assert record.torn == [path] and [key_of(found).recipe for found in record.lines()] == ["a"]
    record.add("small", [line("c")])
    assert recipes(path) == ["a", "c"] and record.torn == []


def test_a_file_that_became_shorter_is_read_anew(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.add("small", [line("a"), line("b")])
    path = tmp_path / "small.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[1])
    record.refresh()
    assert [key_of(found).recipe for found in record.lines()] == ["b"] and record.line(RunKey("a", "m", 0)) is None


def test_a_whole_line_that_is_no_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "small.jsonl").write_text("<<<<<<< HEAD\n")
    with pytest.raises(GamlpError, match="no run: '<<<<<<< HEAD'"):
        Record(tmp_path)


def _add(folder: Path, first: int) -> None:
    record = Record(folder)
    for number in range(first, first + 60):
        record.add("small", [line(f"k{number}")])


def test_two_processes_add_to_one_record(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(tmp_path, first)) for first in (0, 30)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    found = recipes(tmp_path / "small.jsonl")
    assert sorted(found) == sorted(f"k{number}" for number in range(90)), "each once, those of both too"


def test_another_machine_goes_on_from_the_record(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tables([table()], replace(work, seeds=1))
    cells = counted(monkeypatch)
    fresh = replace(work, folder=tmp_path / "empty")
    run_tables([table()], fresh)
    assert [(cell.method, cell.seed) for cell in cells] == [("MLP", 1)]
    lines = list(fresh.record.lines("small"))
    assert [(one["table"], one["dataset"], one["method"], one["seed"]) for one in lines] == [
        ("small", "karate", "MLP", 0),
        ("small", "karate", "MLP", 1),
    ]
    assert {(one["recipe"], one["made"]) for one in lines} == {(cells[0].recipe_key, cells[0].made)}
    assert all(one["gamlp"] and one["machine"] and one["threads"] and one["date"] for one in lines)
    assert max(map(len, work.record.path("small").read_text().splitlines())) < 600
    assert len(results_of(table(), fresh).reports("MLP", "karate")) == 2


def test_a_page_shows_what_is_recorded_of_datasets_that_are_not_at_hand(work: Work) -> None:
    cells = columns_of(table(), work, absent=True).cells
    products = next(one for one in cells if one.dataset == "ogbn-products")
    work.record.add("small", [products.line(hand.report(0, 0.7))])
    found = results_of(table(), work)
    assert found.missing == {} and found.reports("MLP", "ogbn-products")


def point(key: str, **parts: Any) -> dict[str, Any]:
    found = {"peak_memory": 7, "seconds.training": 0.123456789}
    return {"key": key, "name": "SGC", "seconds": 2.0, "found": found} | parts


def test_points_are_lines_with_short_numbers_and_each_is_added_once(tmp_path: Path) -> None:
    points = PointRecord(tmp_path, "complexity")
    assert points.add(point("a"))["found"] == {"peak_memory": 7, "seconds.training": 0.123457}
    PointRecord(tmp_path, "complexity").add(point("b", name="SIGN", seconds=4.0))  # of another process
    points.add(point("b", found={}))
    points.add(point("c", seconds=None))
    assert list(points.lines) == ["a", "b", "c"] and points.lines["b"]["found"]
    assert points.path == tmp_path / "points" / "complexity.jsonl" and len(points.path.read_text().splitlines()) == 3
    assert points.seconds(["SGC", "SIGN", "GBP"]) == (pytest.approx(2 + 4 + 3), 0)
    assert PointRecord(tmp_path, "sgc-steps").seconds(["SGC"]) == (0.0, 1)
    assert list(Record(tmp_path).lines()) == [], "runs are beside them"


def test_half_a_point_is_passed_over_and_a_whole_line_that_is_none_is_told(tmp_path: Path) -> None:
    points = PointRecord(tmp_path, "complexity")
    points.add(point("a"))
    with points.path.open("a") as file:
        file.write('{"key": "b", "na')
    assert list(PointRecord(tmp_path, "complexity").lines) == ["a"]
    points.add(point("c"))
    assert list(PointRecord(tmp_path, "complexity").lines) == ["a", "c"]
    with points.path.open("a") as file:
        file.write('{"key": "b"}\n')
    with pytest.raises(GamlpError, match="has a line that is no point"):
        PointRecord(tmp_path, "complexity")
