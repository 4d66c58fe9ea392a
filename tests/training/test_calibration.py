"""The temperature against a fine grid; kept only where it helps; never decided by a handful of rows or by test rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from gamlp.io import Ranges, RangeWork, State
from gamlp.progress import Progress, silent
from gamlp.training.calibration import calibrate, fit_temperature, log_loss
from gamlp.training.seeds import bundle_of
from tests.training.small import make_graph, prepared_in, relabelled, rows_of_role, trained
from tests.training.test_scores import Given, batches_of, named

GRID = np.geomspace(0.05, 20, 1201)


def drawn(count: int, classes: int, heat: float, seed: int = 0, multi_label: bool = False) -> tuple[np.ndarray, ...]:
    """Logits that are `heat` times too sure of labels that were drawn by them."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(count, classes)) * 2
    if multi_label:
        return logits * heat, (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    return logits * heat, (logits + random.gumbel(size=logits.shape)).argmax(1).astype(np.int32)


def losses(logits: np.ndarray, target: np.ndarray, extra: float) -> np.ndarray:
    """Mean log-loss for every T of the grid, with `extra` rows that have every answer in equal parts; written out."""
    found = []
    for heat in GRID:
        scaled = logits / heat
        if target.ndim == 2:
            yes, no = -np.logaddexp(0, -scaled), -np.logaddexp(0, scaled)
            own, even = np.where(target > 0, yes, no).mean(), ((yes + no) / 2).mean()
        else:
            each = log_softmax(scaled, 1)
            own, even = each[np.arange(len(target)), target].mean(), each.mean()
        found.append(-(len(target) * own + extra * even) / (len(target) + extra))
    return np.array(found)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize(("count", "classes", "heat"), [(12, 3, 1.0), (400, 2, 4.0), (400, 7, 0.3), (1000, 3, 1.0)])
def test_the_temperature_is_that_of_a_fine_grid(multi_label: bool, count: int, classes: int, heat: float) -> None:
    logits, target = drawn(count, classes, heat, multi_label=multi_label)
    tensors = torch.from_numpy(logits), torch.from_numpy(target).long()
    found = fit_temperature(*tensors)
    best = GRID[losses(logits, target, extra=1).argmin()]
    assert found == pytest.approx(best, rel=5e-3)
    plain = losses(logits, target, extra=0)  # the one row that is added counts 1 / (n + 1)
    assert log_loss(tensors[0] / found, tensors[1]) - plain.min() < 10 / count**2


def test_a_few_rows_that_are_all_right_make_no_model_sure_of_everything() -> None:
    found = []
    for count in (5, 50, 5000):
        target = np.arange(count) % 3
        logits = torch.from_numpy(np.eye(3)[target] * 3)
        found.append(fit_temperature(logits, torch.from_numpy(target)))
    assert 1 < found[0] < 2 and found[0] > found[1] > found[2] > 0.2


@pytest.mark.parametrize("multi_label", [False, True])
def test_logits_that_are_too_sure_are_cooled_and_others_stay(tmp_path: Path, multi_label: bool) -> None:
    logits, target = drawn(4000, 3, 5.0, multi_label=multi_label)
    found = calibrate(Given(), batches_of(tmp_path / "hot", logits, named(target, 3)).source)
    assert found is not None and found.temperature == pytest.approx(5, rel=0.1) and found.rows == 4000
    assert found.loss < 0.8 * found.loss_before and found.ece < 0.3 * found.ece_before
    nothing = batches_of(tmp_path / "flat", np.zeros((30, 3)), named(target[:30], 3))
    same = calibrate(Given(), nothing.source)
    assert same is not None and (same.temperature, same.loss) == (1.0, same.loss_before)


def test_many_rows_are_looked_at_evenly(tmp_path: Path) -> None:
    logits, target = drawn(900, 3, 3.0)
    source = batches_of(tmp_path, logits, named(target, 3)).source
    some = np.linspace(0, 899, 300).astype(int)
    part = calibrate(Given(), source, most_rows=300)
    assert part is not None and part.rows == 300
    assert part == calibrate(Given(), replace(source, rows=source.rows[some]))


def test_logits_that_are_no_numbers_have_no_temperature(tmp_path: Path) -> None:
    class Endless(Given):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x[:, 0, 0] / 0

    source = batches_of(tmp_path, np.ones((9, 3)), named(np.arange(9, dtype=np.int32) % 3, 3)).source
    assert calibrate(Endless(), source) is None


def test_a_bundle_is_calibrated_by_validation_rows_alone(tmp_path: Path) -> None:
    graph = make_graph(nodes=200)
    hot = {"training__epochs": 60, "training__keep": "last", "training__patience": 0, "model__dropout": 0.0}
    found = {}
    for name, changed in {"plain": graph, "garbage": relabelled(graph, rows_of_role(graph, "test"))}.items():
        prepared = prepared_in(tmp_path / name, changed, **hot)
        found[name] = bundle_of(prepared, trained(prepared), 0)
    plain = found["plain"]
    assert plain.temperature != 1 and found["garbage"].temperature == plain.temperature
    calibration = plain.report["calibration"]
    assert calibration["loss"] < calibration["loss_before"] and plain.valid["loss"] == calibration["loss"]
    assert plain.valid["score"] == plain.report["valid"]["score"]
    prepared = prepared_in(tmp_path / "off", graph, training__calibrate=False, **hot)
    off = bundle_of(prepared, trained(prepared), 0)
    assert off.temperature == 1 and "calibration" not in off.report
    assert prepared.valid is not None
    x, y = prepared.valid.tensors(np.arange(len(prepared.valid)))
    with torch.no_grad():
        torch.testing.assert_close(plain.model()(x, y) * plain.temperature, off.model()(x, y))


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_task_that_reads_validation_rows_calibrates_as_this_process_does(tmp_path: Path, multi_label: bool) -> None:
    prepared = prepared_in(tmp_path, make_graph(nodes=200, multi_label=multi_label), model__dropout=0.0)
    fitted, asked = trained(prepared), []

    def elsewhere(work: RangeWork, ranges: Ranges, stage: str = "", progress: Progress = silent) -> Iterator[State]:
        asked.append((stage, list(ranges)))
        yield pickle.loads(pickle.dumps(work))(ranges)

    here, there = bundle_of(prepared, fitted, 0), bundle_of(prepared, fitted, 0, take=elsewhere)
    assert prepared.valid is not None and asked == [("calibrate", [(0, len(prepared.valid))])]
    assert there.temperature == here.temperature and there.report.keys() == here.report.keys()
    for name, value in here.report["calibration"].items():
        assert there.report["calibration"][name] == pytest.approx(value, rel=1e-6)
    assert there.report["base"] == here.report["base"] and isinstance(there.report["calibration"]["rows"], int)
