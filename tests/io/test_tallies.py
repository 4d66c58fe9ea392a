"""Counts over ranges by tasks: each range once, in order, answers as files that go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.io import Place, Ranges, State, row_ranges, run_here, tally_by_tasks, tally_here
from tests.conformance.engines import one_after_the_other


@dataclass(frozen=True)
class Seen:
    """The ranges it was given, and the sum of their rows."""

    factor: int = 1

    def __call__(self, ranges: Ranges) -> State:
        total = sum(sum(range(begin, end)) for begin, end in ranges)
        return {"ranges": np.array(ranges), "sum": np.array(self.factor * total)}


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_each_range_is_counted_once_and_answers_come_in_order(tmp_path: Path, most: int) -> None:
    ranges = row_ranges(100, 7)
    found = list(tally_by_tasks(one_after_the_other, Place.of(tmp_path), Seen(2), ranges, most_tasks=most))
    assert len(found) == min(most, len(ranges))
    assert np.concatenate([state["ranges"] for state in found]).tolist() == [list(one) for one in ranges]
    assert sum(int(state["sum"]) for state in found) == 2 * sum(range(100))
    assert not list(tmp_path.iterdir())


def test_here_is_one_answer_and_no_range_is_none(tmp_path: Path) -> None:
    (found,) = tally_here(Seen(), row_ranges(10, 3))
    assert int(found["sum"]) == 45
    assert list(tally_here(Seen(), [])) == list(tally_by_tasks(run_here, Place.of(tmp_path), Seen(), [])) == []


def test_what_was_left_goes_where_nobody_reads_on_or_a_task_fails(tmp_path: Path) -> None:
    answers = tally_by_tasks(run_here, Place.of(tmp_path), Seen(), row_ranges(10, 3))
    next(answers)
    assert len(list(tmp_path.iterdir())) == 1
    answers.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())

    def failing(*_: Any) -> list[dict[str, Any]]:
        raise GamlpError("a task failed")

    with pytest.raises(GamlpError, match="a task failed"):
        list(tally_by_tasks(failing, Place.of(tmp_path), Seen(), row_ranges(10, 3)))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_tasks_do_not_share_is_told(tmp_path: Path) -> None:
    def elsewhere(*_: Any) -> list[dict[str, Any]]:
        return []

    with pytest.raises(GamlpError, match="what the tasks counted is not here; give a folder that all machines share"):
        list(tally_by_tasks(elsewhere, Place.of(tmp_path), Seen(), row_ranges(10, 3)))
