"""Files that are summed while they are written, and results in the order of their tasks."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

from gamlp.io import StreamedArray, ordered_map


@pytest.mark.parametrize("expected", [0, 5_000, 10_000, 1_000_000])
def test_a_streamed_file_is_what_was_appended_and_so_is_its_sum(tmp_path: Path, expected: int) -> None:
    values = np.random.default_rng(0).integers(0, 99, (10_000, 3), dtype=np.int32)
    with StreamedArray(tmp_path / "a.npy", (3,), np.int32, expected) as rows:
        for begin in range(0, 10_000, 999):
            rows.append(values[begin : begin + 999])
    assert rows.rows == 10_000
    assert np.array_equal(np.load(tmp_path / "a.npy"), values)
    assert rows.crc32 == zlib.crc32((tmp_path / "a.npy").read_bytes())


def test_no_rows_and_rows_of_another_type(tmp_path: Path) -> None:
    with StreamedArray(tmp_path / "a.npy", (), np.float16, 10) as rows, pytest.raises(ValueError, match="float32"):
        rows.append(np.zeros(3, np.float32))
    assert np.load(tmp_path / "a.npy").shape == (0,)
    assert rows.crc32 == zlib.crc32((tmp_path / "a.npy").read_bytes())


def test_results_come_in_order_and_few_are_held() -> None:
    begun = []
    lock = threading.Lock()

    def work(number: int) -> int:
        with lock:
            begun.append(number)
        return number * number

    results = ordered_map(2, work, range(100))
    assert next(results) == 0
    assert len(begun) <= 6, "the caller has taken one"
    assert list(results) == [number * number for number in range(1, 100)]


def test_an_error_of_a_task_reaches_the_caller_and_ends_the_others() -> None:
    done = []

    def work(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        done.append(number)
        return number

    with pytest.raises(ValueError, match="five"):
        list(ordered_map(2, work, range(1000)))
    assert len(done) < 20
