"""Presets, time limits and metrics as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from gamlp.errors import GamlpError, MissingExtra
from gamlp.tune import AskedChoice, asked


def test_nothing_asked_is_the_default() -> None:
    assert AskedChoice.of() == AskedChoice("default", None, "auto")


@pytest.mark.parametrize(
    ("limit", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), (" 1.5 h ", 5400), (".5m", 30), (45, 45)]
)
def test_a_time(limit: str | float, seconds: float) -> None:
    assert AskedChoice.of(time_limit=limit).time_limit == seconds


def test_what_is_left_of_it() -> None:
    assert AskedChoice.of().left(5) is None and AskedChoice.of(time_limit="1m").left(5) == 55
    assert AskedChoice.of(time_limit="1m").left(100) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"preset": "bestt"}, "there is no preset 'bestt': did you mean 'best'?; choose from fast, default, best"),
        ({"metric": "auc"}, "there is no metric 'auc'"),
        ({"metric": "rocauc"}, "did you mean 'roc_auc'?"),
        *[
            ({"time_limit": limit}, f"'{limit}' is not a time; write a number with a unit, such as 90s, 30m or 2h")
            for limit in ("30", "soon", "0s", "-5m", "1d", "", 0, -3, float("nan"), float("inf"), True)
        ],
        ({"preset": "fast", "time_limit": "5m"}, "a time limit is for the presets default and best"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GamlpError) as error:
        AskedChoice.of(**given)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_best_without_optuna_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtra("optuna", "tune")

    monkeypatch.setattr(asked, "load_optuna", missing)
    AskedChoice.of("default")
    with pytest.raises(MissingExtra, match=r"gamlp\[tune\]"):
        AskedChoice.of("best")
