"""SGC by depth: the lean path gives what the contract gives; shares by counting; resumed; stopped in time."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.bench import sgc_steps
from gamlp.bench.figures import write_figures
from gamlp.bench.tables import PaperTable, read_table, table_of
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.graph import Labels, Split
from gamlp.graph.datasets.loading import load
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.registry import recipe_named, run

STEPS = [0, 1, 3]
CHANGES = {"training.epochs": 8, "training.learning_rate": 0.05}


def table(**options: Any) -> PaperTable:
    return read_table({
        "name": "sgc-steps", "title": "SGC", "kind": "sgc-steps", "source": {"paper": "a paper", "label": "fig"},
        "seeds": 4, "datasets": {"karate": {"title": "Karate"}},
        "methods": {"SGC": {"recipe": "sgc", "changes": CHANGES}},
        "options": {"nodes": 5, "steps": STEPS, "variants": ["fixed"]} | options,
    })  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("work")
    return folder, sgc_steps.measure(table(), Work(folder))


def test_shares_are_those_of_plain_runs(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Each depth and seed once more through the contract, counted one by one."""
    graph = load("karate")
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    true_labels, test = graph.nodes.labels.values, graph.nodes.split.test
    right = np.zeros((len(STEPS), 4, len(true_labels)), bool)
    for at, step in enumerate(STEPS):
        recipe = recipe_named("sgc").changed({**CHANGES, "propagation.hops": step})
        for seed in range(4):
            report = run(Task(graph), recipe, seed, Workspace(tmp_path, probabilities=True))
            assert report.probabilities is not None
            right[at, seed] = report.probabilities.argmax(1) == true_labels
    found = measured[1]["datasets"]["karate"]["fixed"]
    assert 0 < right[:, :, test].mean() < 1
    for node, shares in zip(found["nodes"], found["shares"]):
        assert node in test
        assert shares == [right[at, :, node].sum() / 4 for at in range(len(STEPS))]
    assert len(set(found["nodes"])) == 5
    assert np.allclose(found["accuracy"], right[:, :, test].mean((1, 2)))
    never = [node for node in test if not right[:, :, node].any()]
    assert found["right_at_no_depth"] == len(never)
    best = [int(np.argmax(right[:, :, node].sum(1))) for node in test if node not in never]
    assert np.allclose(found["best_depth"], [best.count(at) / len(test) for at in range(len(STEPS))])


def test_a_packed_run_says_the_same_in_some_hundred_bytes() -> None:
    """As on Citeseer: 1000 test rows but for a gap, eleven depths, most of which agree; the full text is 16,000."""
    random = np.random.default_rng(0)
    test = np.setdiff1d(np.arange(2312, 3327), random.choice(np.arange(2312, 3327), 15, replace=False))
    right = np.repeat(random.random((1, 1000)) < 0.7, 11, axis=0)
    right[3:] ^= random.random(1000) < 0.1
    right[7:] ^= random.random(1000) < 0.03
    found = sgc_steps.packed(test, right)
    assert len(json.dumps(found)) < 1000
    rows, back = sgc_steps.unpacked(json.loads(json.dumps(found)), list(range(11)))
    assert np.array_equal(rows, test) and np.array_equal(back, right.T)
    texts = {str(step): "".join("01"[one] for one in row.astype(int)) for step, row in enumerate(right)}
    rows, back = sgc_steps.unpacked({"test": test.tolist(), "right": texts}, list(range(11)))
    assert np.array_equal(rows, test) and np.array_equal(back, right.T), "of before it was packed"


def test_another_machine_goes_on_from_the_record(
    measured: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(sgc_steps, "predictions", never)
    elsewhere = Work(tmp_path / "elsewhere", runs=measured[0] / "tables" / "runs")
    assert sgc_steps.measure(table(), elsewhere) == measured[1]
    monkeypatch.setattr(sgc_steps, "made_of", lambda *_: "another revision")
    with pytest.raises(AssertionError, match="trained again"):
        sgc_steps.measure(table(), elsewhere)


def test_a_second_call_runs_nothing(measured: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(sgc_steps, "predictions", never)
    folder, before = measured
    assert sgc_steps.measure(table(), Work(folder)) == before
    assert sgc_steps.measure(table(), Work(folder, seeds=2))["datasets"]["karate"]["fixed"]["runs"] == 2
    with pytest.raises(AssertionError, match="trained again"):
        sgc_steps.measure(table(), Work(folder, seeds=5))


def test_the_deadline_is_kept(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    spent = sgc_steps.measure(table(), Work(tmp_path, deadline=time.monotonic() - 1))
    assert not spent["complete"] and spent["datasets"] == {}
    folder, before = measured
    more = sgc_steps.measure(table(), Work(folder, seeds=9, deadline=time.monotonic() - 1))
    assert not more["complete"] and more["datasets"] == before["datasets"]


def test_nodes_of_other_splits_count_where_they_were_tested() -> None:
    kept = [
        {"test": [1, 2], "right": {"0": "10", "2": "11"}},
        {"test": [2, 5], "right": {"0": "00", "2": "10"}},
    ]
    found = sgc_steps.summary(kept, [0, 2], 9)
    assert found["nodes"] == [1, 2, 5]
    assert found["shares"] == [[1, 1], [0, 1], [0, 0]]
    assert found["best_depth"] == [pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert (found["right_at_no_depth"], found["right_at_every_depth"]) == (1, 1)
    assert found["best_of_each_node"] == pytest.approx(2 / 3)
    assert found["accuracy"] == [0.25, 0.75]


def run_of(first: str, second: str) -> dict[str, Any]:
    """One run of four nodes at depths 0 and 2."""
    return {"test": [1, 2, 3, 4], "right": {"0": first, "2": second}}


def test_the_gain_of_an_own_depth_is_counted_in_other_runs() -> None:
    """Node 1 is right at depth 0 alone, the others at depth 2: one node of four gains all of it."""
    gain, error = sgc_steps.summary([run_of("1000", "0111")] * 4, [0, 2], 9)["gain"]
    assert (gain, error) == (pytest.approx(25.0), pytest.approx(100 * 0.5 / 2))
    luck = [run_of("1100", "0011"), run_of("0011", "1100")] * 2  # every other run: what one half says the other denies
    assert sgc_steps.summary(luck, [0, 2], 9)["gain"][0] < 0
    assert sgc_steps.summary([run_of("1000", "0111")], [0, 2], 9)["gain"] is None


def test_pages_and_heat_maps(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    page, counts = sgc_steps.render(table(), measured[1])
    assert len(counts[2]) == 6 and all(len(row) == 2 for row in counts[2])
    assert len(page[2]) == 2 and all(len(row) == len(page[1]) == 1 + len(STEPS) for row in page[2])
    results = sgc_steps.as_results(table(), measured[1])
    (grid,) = results.grids.values()
    found = measured[1]["datasets"]["karate"]["fixed"]
    assert (grid.rows, grid.columns) == (("0", "1", "3"), tuple(str(node) for node in found["nodes"]))
    assert grid.values[2][1] == found["shares"][1][2]
    assert [path.suffix for path in write_figures(results, tmp_path)] == [".png", ".svg"]


def test_drawn_training_rows() -> None:
    """As many of a class as before, never a test or validation row or one without a label; others for other seeds."""
    random = np.random.default_rng(0)
    labels = Labels(random.integers(-1, 3, 200).astype(np.int32), ("a", "b", "c"))
    split = Split(random.choice([0, 1, 2, 3], 200, p=[0.5, 0.1, 0.2, 0.2]).astype(np.int8))
    drawn = [sgc_steps.drawn_split(labels, split, seed) for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0].roles, drawn[1].roles) and not np.array_equal(drawn[0].roles, drawn[2].roles)
    for one in drawn:
        assert np.array_equal(one.valid, split.valid) and np.array_equal(one.test, split.test)
        before, after = (np.bincount(values[values >= 0], minlength=3) for values in (
            labels.values[split.train], labels.values[one.train]))  # fmt: skip
        assert before.tolist() == after.tolist() and labels.known()[one.train].all()


def test_another_model_is_refused(tmp_path: Path) -> None:
    other = table()
    method = other.methods["SGC"].model_copy(update={"recipe": "sign"})
    with pytest.raises(GamlpError, match="about SGC"):
        sgc_steps.measure(other.model_copy(update={"methods": {"SGC": method}}), Work(tmp_path))


@pytest.mark.slow
def test_the_shipped_table_on_citeseer(data_dir: Path, tmp_path: Path) -> None:
    shipped = table_of("sgc-steps")
    few = shipped.model_copy(update={"options": shipped.options | {"steps": [0, 2]}})
    found = sgc_steps.measure(few, replace(Work(tmp_path, data_dir), seeds=2))["datasets"]["citeseer"]
    for one in found.values():
        assert one["test_nodes"] == 1000 and len(one["nodes"]) == 20
        assert one["accuracy"][1] > 0.6 and one["accuracy"][1] > one["accuracy"][0] + 0.03  # neighbours help
    assert found["fixed"]["nodes"] == found["drawn"]["nodes"]
    always = {variant: one["right_at_every_depth"] for variant, one in found.items()}
    assert always["fixed"] > always["drawn"]  # runs that draw their training rows agree less
