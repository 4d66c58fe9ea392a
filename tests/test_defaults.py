"""benchmarks/defaults.py: what it measures, that it goes on where it was, and that its page judges rightly."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

from gamlp.graph import Graph, Labels
from gamlp.graph.datasets import load

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RESULTS = BENCHMARKS.parent / "docs" / "results"
PLAN = yaml.safe_load((BENCHMARKS / "defaults.yaml").read_text())


@pytest.fixture
def defaults(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the benchmark sets it: here it is put back afterwards
    return importlib.import_module("defaults")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("defaults_page")


def measured(defaults: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> list[Any]:
    """Lines of the record after a run of the command."""
    record, out = folder / "record.jsonl", folder / "page.md"
    command = ["defaults.py", "--record", str(record), "--out", str(out), "--seeds", "2", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        defaults.main()
    assert ended.value.code == 0
    return [json.loads(line) for line in record.read_text().splitlines()]


@pytest.mark.slow
def test_simple_contestants_are_measured_once_and_the_page_shows_them(
    defaults: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is of the extra boost")
    who = ["majority", "lr-x", "lr-hops", "lightgbm-x", "lightgbm-hops"]
    lines = measured(defaults, monkeypatch, tmp_path, "--sets", "karate", "--contestants", *who)
    assert [(line["contestant"], line["seed"]) for line in lines] == [(name, 0) for name in who]  # no chance in them
    by_name = {line["contestant"]: line["score"] for line in lines}
    assert by_name["lr-hops"] > 0.8 > by_name["majority"]  # one-hot features alone say nothing: neighbours do
    monkeypatch.setattr(defaults, "graph_of", None)  # nothing is left to measure: no graph is asked for
    assert measured(defaults, monkeypatch, tmp_path, "--sets", "karate", "--contestants", *who) == lines
    page = (tmp_path / "page.md").read_text()
    assert "LightGBM on hops" in page and "`default` has not been measured yet." in page


@pytest.mark.slow
def test_a_preset_is_measured_by_its_command(
    defaults: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ["--sets", "karate", "--contestants", "fast", "--seeds", "1"]
    (line,) = measured(defaults, monkeypatch, tmp_path, *arguments)
    assert 0.25 < line["score"] <= 1 and line["seconds"] > 0
    assert "| karate |" in (tmp_path / "page.md").read_text()


def test_a_line_that_a_kill_has_cut_is_measured_again(defaults: ModuleType, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    first, second = lines_of("cora", "lr-x", 60.0, 61.0)
    defaults.append(record, first)
    record.write_text(record.read_text() + '{"set": "cora", "contes')
    assert defaults.read(record) == [first]
    defaults.append(record, second)
    assert defaults.read(record) == [first, second]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lr-hops", "lightgbm-x"])
def test_test_labels_decide_nothing(defaults: ModuleType, name: str, tmp_path: Path) -> None:
    if name.startswith("lightgbm"):
        pytest.importorskip("lightgbm", reason="LightGBM is of the extra boost")
    contestants = importlib.import_module("contestants")

    def answered(graph: Graph, folder: str) -> tuple[Any, str]:
        case = defaults.Case(graph, PLAN["sets"]["digits"], 0, tmp_path / folder, 1, "5m")
        found: tuple[Any, str] = contestants.answer(name, case)
        return found

    graph = load("digits")
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    values = labels.values.copy()
    values[split.test] = np.roll(values[split.test], 1)
    found, said = answered(graph, "own")
    other, also_said = answered(graph.with_targets(labels=Labels(values, labels.classes, labels.class_type)), "other")
    assert said == also_said
    np.testing.assert_array_equal(found, other)


def test_few_labels_are_drawn_from_the_given_ones(defaults: ModuleType) -> None:
    graph = load("digits")
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    few = defaults.thinned(labels, split, 1, 5, seed=0)
    assert np.bincount(labels.values[few.train]).tolist() == [1] * 10
    assert np.bincount(labels.values[few.valid]).tolist() == [5] * 10
    assert np.isin(few.train, split.train).all() and np.isin(few.valid, split.valid).all()
    np.testing.assert_array_equal(few.test, split.test)
    assert not np.array_equal(few.train, defaults.thinned(labels, split, 1, 5, seed=1).train)


def lines_of(name: str, contestant: str, *scores: float) -> list[dict[str, Any]]:
    about = {
        "seconds": 1.0,
        "chosen": "it",
        "date": "2026-01-01 00:00",
        "machine": "one",
        "versions": "some",
        "commit": "f00",
    }
    return [
        {"set": name, "contestant": contestant, "seed": seed, "score": score / 100, **about}
        for seed, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ((82.0, 84.0, 83.0), "yes, 3.0 above"),
        ((78.0, 81.0, 79.5), "yes, 0.5 below, within the deviation of 1.5"),
        ((75.0, 75.2, 75.1), "**no**, 4.9 below, deviation 0.1"),
    ],
)
def test_the_requirement_is_judged_against_the_best_simple_one(
    pages: ModuleType, ours: tuple[float, ...], words: str
) -> None:
    record = lines_of("cora", "lr-x", 60.0) + lines_of("cora", "lr-hops", 80.0) + lines_of("cora", "default", *ours)
    record += lines_of("cora", "shipped", 90.0, 90.0)  # no simple one
    for other in ("lightgbm-x", "lightgbm-hops", "gcn", "graphsage"):
        record += lines_of("cora", other, 50.0, 50.0, 50.0)
    page = pages.page(record, PLAN)
    assert f"| LR on hops, 80.0 | {words} | f00 |" in page
    assert f"Met on {0 if 'no' in words else 1} of the 1 sets" in page and ": 1 of 17 sets;" in page
    assert "| set | `default` | best simple one | met | measured at |" in page


def test_runs_of_the_same_splits_are_compared_while_some_are_missing(pages: ModuleType) -> None:
    record = lines_of("photo", "lr-hops", 90.0, 60.0, 60.0) + lines_of("photo", "default", 80.0)
    page = pages.page(record, PLAN)
    assert (
        "| Photo | 80.0 (1 of 3 runs) | LR on hops, 70.0 ± 17.3 | so far yes, 10.0 below, within the deviation" in page
    )
    assert "| LR on hops | 1 | 90.0 | 80.0 | -10.0 | **no** |" in page


def test_a_loss_of_more_than_a_point_to_a_shipped_recipe_is_told(pages: ModuleType) -> None:
    record = lines_of("cora", "default", 80.0, 80.0, 80.0) + lines_of("cora", "shipped", 81.1)
    record += lines_of("photo", "default", 90.0, 90.0, 90.0) + lines_of("photo", "shipped", 90.9, 90.9, 90.9)
    page = pages.page(record, PLAN)
    assert "| Cora | cora-jk | 81.1 (1 of 3 runs) | 80.0 ± 0.0 | -1.1 | **no** |" in page
    assert "| Photo | amazon-photo-jk | 90.9 ± 0.0 | 90.0 ± 0.0 | -0.9 | yes |" in page


def test_the_page_is_made_of_the_record_that_lies_beside_it(pages: ModuleType) -> None:
    record: dict[Any, Any] = {}
    for text in (RESULTS / "defaults.jsonl").read_text().splitlines():
        line = json.loads(text)
        record[line["set"], line["contestant"], line["seed"]] = line
    assert pages.page(list(record.values()), PLAN) == (RESULTS / "defaults.md").read_text()
