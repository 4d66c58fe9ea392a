"""What a table has and lacks: counted from the record, an earlier page and what is at hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gamlp.bench import sgc_steps
from gamlp.bench.cells import cells_of
from gamlp.bench.status import status_of
from gamlp.bench.work import Work
from tests.bench import hand
from tests.bench.test_runner import table


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    return Work(tmp_path / "work", runs=tmp_path / "runs")


def test_what_is_there_missing_stale_and_not_possible(work: Work) -> None:
    """Two rows of two seeds on karate; products are not at hand. The MLP has a run, and one by another recipe."""
    first, second = cells_of(table(), "karate", ["MLP"], 2)
    other = replace(second, recipe=second.recipe.changed({"training.epochs": 9}))
    work.record.add("small", [one.line(hand.report(one.seed, 0.8, training=7.9)) for one in (first, other)])
    found = status_of(table(), work)
    assert (found.cells, found.complete, found.runs, found.stale, found.earlier) == (2, 0, 1, 1, 0)
    assert found.seeds == (0, 1) and list(found.absent) == ["ogbn-products"]
    assert "ogbn-products is not at hand" in found.absent["ogbn-products"]
    assert (found.missing.runs, found.missing.unknown) == (3, 2)
    assert found.missing.seconds == pytest.approx(10.0), "one run of the MLP: 2 + 7.9 + 0.1 s"
    told = json.loads(json.dumps(found.as_json()))
    assert told["places"][1] == {
        "method": "MLP", "dataset": "karate", "at": None, "runs": 1, "seeds": 1, "wanted": 2, "seconds": 10.0,
        "source": "measured",
    }  # fmt: skip


def test_a_complete_table_lacks_nothing(work: Work) -> None:
    lines = [cell.line(hand.report(cell.seed, 0.8)) for cell in cells_of(table(), "karate", ["MLP", "GAMLP(JK)"], 2)]
    work.record.add("small", lines)
    found = status_of(table(), work)
    assert (found.complete, found.missing.runs, found.stale, found.seeds) == (2, 0, 0, (2, 2)) and found.anything


def test_more_seeds_than_a_table_asks_for_are_not_of_an_earlier_page(work: Work) -> None:
    lines = [cell.line(hand.report(cell.seed, 0.8)) for cell in cells_of(table(), "karate", ["MLP"], 5)]
    work.record.add("other", lines)
    found = status_of(table(methods={"Perceptron": table().methods["MLP"].model_dump()}), work)
    assert (found.complete, found.earlier, found.runs, found.seeds) == (1, 0, 5, (5, 5)), "of another table's file"


def test_points_of_special_tables_are_counted_and_told_by_how_long_others_took(work: Work) -> None:
    """Three runs; two are recorded, and took 3 s in the mean."""
    content = {"methods": {"SGC": {"recipe": "sgc"}}, "datasets": {"karate": {"title": "Karate"}}, "published": {}}
    table = hand.small(kind="sgc-steps", options={"steps": [0, 1], "variants": ["fixed"]}, **content)
    found = status_of(table, work)
    assert found.special and not found.anything
    assert (found.cells, found.complete, found.missing.runs, found.missing.unknown) == (3, 0, 3, 3)
    assert found.missing.sentences() == ["3 runs are missing, and what they take is not known yet"]
    run = sgc_steps.measure(table, replace(work, seeds=2))
    assert run["points"] == 2 and run["complete"]
    record = work.record.folder / "points" / "sgc-steps.jsonl"
    texts = record.read_text().splitlines()
    lines = [json.loads(text) | {"seconds": 2.0 + 2 * place} for place, text in enumerate(texts)]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = status_of(table, work)
    assert found.anything and (found.cells, found.complete, found.runs) == (3, 2, 2)
    assert (found.missing.runs, found.missing.seconds, found.missing.unknown) == (1, pytest.approx(3.0), 0)


def test_columns_of_special_tables_that_are_not_at_hand_are_told(work: Work) -> None:
    found = status_of(hand.small(kind="sgc-steps", published={}, methods={"SGC": {"recipe": "sgc"}}), work)
    assert found.special and not found.anything and set(found.absent) == {"cora", "ppi"} and found.cells == 0
