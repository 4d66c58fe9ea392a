"""Values that are made in a thread, one ahead of who works with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gamlp.io import read_ahead


def test_values_come_in_order_from_one_thread_that_is_not_the_callers() -> None:
    threads: set[int] = set()

    def numbers() -> Iterator[int]:
        for number in range(100):
            threads.add(threading.get_ident())
            yield number

    assert list(read_ahead(numbers())) == list(range(100))
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_an_error_comes_after_the_values_before_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    found = []
    with pytest.raises(ValueError, match="no more"):
        for value in read_ahead(broken()):
            found.append(value)
    assert found == [1]


def test_who_stops_early_has_the_source_closed_by_its_own_thread() -> None:
    closed: list[int] = []

    def numbers() -> Iterator[int]:
        opened = threading.get_ident()
        try:
            yield from range(100)
        finally:
            closed.append(threading.get_ident() - opened)

    ahead = read_ahead(numbers())
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]
    assert closed == [0]
