"""Threads over row ranges; the kernel releases the interpreter lock, so plain threads are enough."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(threads: int, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Results as they finish, in no order. The first error (or Ctrl-C) stops what has not begun."""
    waiting: set[Future[R]] = set()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                waiting.add(pool.submit(work, task))
                if len(waiting) > 2 * threads:  # a few ahead, never a list of millions
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def even_ranges(offsets: np.ndarray[Any, Any], parts: int) -> list[tuple[int, int]]:
    """Row ranges with about the same number of entries (a row counts as one more)."""
    rows = len(offsets) - 1
    if rows == 0:
        return []
    total = int(offsets[-1]) + rows
    inner = []
    for target in (total * part // parts for part in range(1, parts)):
        low, high = 0, rows  # the first row whose work begins at or after the target
        while low < high:
            middle = (low + high) // 2
            if int(offsets[middle]) + middle < target:
                low = middle + 1
            else:
                high = middle
        inner.append(low)
    cuts = sorted({0, *inner, rows})
    return list(itertools.pairwise(cuts))
