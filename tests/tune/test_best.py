"""More time buys a search, seeds and a blend; the limit holds, and all of it goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.run import as_source, run_path
from gamlp.training import Bundle, RunFolder, Said, mixed, picks
from gamlp.tune import choose
from gamlp.tune.effort import Clock
from gamlp.tune.uncertainty import Validated
from tests.tune.planted import planted, portfolio, quick  # noqa: F401

pytest.importorskip("optuna", reason="the search comes with gamlp[tune]")
LIMIT = 60.0


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on by a tenth of a second an epoch."""
    ticks, lines = [0.0], RunFolder.lines

    def counted(self: RunFolder, seed: int) -> Any:
        write = lines(self, seed)

        def line(content: dict[str, Any]) -> None:
            ticks[0] += 0.1
            write(content)

        return line

    monkeypatch.setattr(RunFolder, "lines", counted)
    monkeypatch.setattr(
        "gamlp.tune.choosing.Clock", lambda path, limit: Clock(path, limit, lambda: ticks[0], lambda: 0.0)
    )
    return ticks


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_the_time_is_used_and_kept_and_one_bundle_comes_of_it(
    tmp_path: Path, ticking: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [one.changed({"training.epochs": 15}) for one in portfolio() if one.name in ("gamlp", "sign", "majority")]
    monkeypatch.setattr("gamlp.tune.choosing.load_candidates", lambda: tuple(some))
    source, out = as_source(planted("opposed", 600)), tmp_path / "run"
    found = choose(source, out, preset="best", time_limit=LIMIT)
    board = found.leaderboard
    assert board is not None and 0.6 * LIMIT < ticking[0] <= 1.05 * LIMIT
    names = {row.name for row in board.rows}
    assert any(name.startswith("search-") for name in names) and any("-seed-" in name for name in names)
    best = max(row.valid for row in board.rows if row.valid is not None)
    assert board.winner.valid == best
    outcome = run_path(source, found.recipe, out)
    assert outcome.test is not None and outcome.test["mean"]["score"] == pytest.approx(board.winner.test)
    used = ticking[0]
    assert choose(source, out, preset="best", time_limit=LIMIT) == found and ticking[0] == used


def validated(*probabilities: list[float], targets: list[int]) -> list[Validated]:
    rows = np.arange(len(targets))
    made = [np.array([[1 - one, one] for one in each]) for each in probabilities]
    return [Validated("accuracy", (Said(rows, one, np.array(targets)),)) for one in made]


def test_a_blend_is_picked_by_what_its_mean_says() -> None:
    right_and_wrong = [[0.9, 0.9, 0.1, 0.6], [0.9, 0.45, 0.9, 0.6]]  # of four rows of class 1
    models = validated(*right_and_wrong, targets=[1, 1, 1, 1])
    picked = picks(models)
    assert set(picked) == {0, 1}, "each is wrong where the other is sure"
    share = picked.count(0) / len(picked)
    assert mixed(models, [share, 1 - share]).gain == 1.0 > models[0].gain
    alone = validated([0.9, 0.9], [0.2, 0.2], targets=[1, 1])
    assert set(picks(alone)) == {0}


@pytest.mark.usefixtures("quick")
def test_a_blend_says_what_the_mean_of_its_members_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gamlp.tune.best import blend
    from gamlp.tune.portfolio import Portfolio

    some = [one.changed({"training.epochs": 4}) for one in portfolio() if one.name in ("gamlp-labels", "sign", "mlp")]
    work = Portfolio(as_source(planted("opposed", 600)), tmp_path, some, Clock(tmp_path / "clock.json"))
    work.prepare()
    for one in work.contenders:
        one.train()
    monkeypatch.setattr("gamlp.tune.best.picks", lambda validated: [0, 0, 1, 2])
    before = sorted(work.finalists, key=lambda one: one.validated.rank, reverse=True)
    blend(work)
    made = work.contenders[-1]
    assert made.name == "blend" and isinstance(made.bundle, Bundle)
    expected = mixed([one.validated for one in before], [0.5, 0.25, 0.25]).said[0].probabilities
    said = made.said().probabilities
    hot = made.bundle.temperature
    again = expected ** (1 / hot)
    np.testing.assert_allclose(said, again / again.sum(1, keepdims=True), atol=2e-5)
