"""Candidates that are behind are dropped early, within what is allowed; the same ones on every machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gamlp.tune.halving import first_rung, halve

TRAINED = SimpleNamespace(recipe=SimpleNamespace(training=SimpleNamespace(epochs=300)))


@dataclass
class Runner:
    """Trains in no time: how good it gets in the end, and how soon."""

    best: float
    ends: int = 100
    epoch_seconds: float = 1.0
    epochs: int = 0
    failed: str = ""
    kept: bool = False
    prepared: Any = field(default_factory=lambda: TRAINED)

    @property
    def finished(self) -> bool:
        return self.kept or self.epochs >= self.ends

    def train(self, epochs: float = math.inf) -> None:
        self.epochs = max(self.epochs, int(min(epochs, self.ends)))

    def settle(self) -> None:
        self.kept = True

    def standing(self, epochs: float = math.inf) -> float:
        return self.best * (1 - math.exp(-min(epochs, self.epochs) / 20))


CLOCK: Any = SimpleNamespace(over=False)


def spent(runners: list[Runner]) -> float:
    return sum(one.epochs * one.epoch_seconds for one in runners)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("times", [1.6, 3.0])
def test_the_best_is_trained_to_its_end_within_what_is_allowed(count: int, times: float) -> None:
    runners = [Runner(0.5 + 0.02 * number) for number in range(count)]
    finished = halve(runners, 100, times * 100, CLOCK)  # type: ignore[arg-type]
    assert runners[-1] in finished and runners[-1].epochs == 100
    assert spent(runners) <= max(times, 1.0) * 100 * 1.05


def test_all_are_trained_to_their_end_where_there_is_room() -> None:
    runners = [Runner(0.5 + 0.02 * number) for number in range(8)]
    assert halve(runners, 100, 1000.0, CLOCK) == runners  # type: ignore[arg-type]
    assert spent(runners) == 800


def test_what_failed_is_dropped_and_time_that_is_over_keeps_the_best_alone() -> None:
    broken, good = Runner(0.9, failed="no"), Runner(0.8)
    assert halve([broken, good, Runner(0.1)], 100, 150.0, CLOCK) == [good]  # type: ignore[list-item]
    begun = [Runner(0.8, epochs=10), Runner(0.1, epochs=10)]
    over: Any = SimpleNamespace(over=True)
    assert halve(begun, 100, 1000.0, over) == begun[:1]  # type: ignore[arg-type]
    assert halve([Runner(0.8), Runner(0.1)], 100, 1000.0, over) == []  # type: ignore[list-item]
    assert first_rung([], 100, 10.0) == 3


def test_one_that_needs_longer_than_was_thought_is_kept_as_it_is() -> None:
    slow = Runner(0.9, ends=300)
    assert halve([slow, Runner(0.1)], 100, 150.0, CLOCK) == [slow]  # type: ignore[list-item]
    assert slow.kept and 100 <= slow.epochs <= 150
