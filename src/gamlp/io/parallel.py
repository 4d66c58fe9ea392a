"""Threads over row ranges; the kernel releases the interpreter lock, so plain threads are enough."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from gamlp.progress import Progress

T = TypeVar("T")
R = TypeVar("R")
_END: Any = object()


def read_ahead(values: Iterator[T]) -> Iterator[T]:
    """The same values; the next one is made in a thread while the caller works with this one.

    Errors come where the value would have come. A caller that stops early waits for the one that is being made.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(next, values, _END)
        try:
            while (value := coming.result()) is not _END:
                coming = other.submit(next, values, _END)
                yield value
        finally:
            close = getattr(values, "close", None)
            if close is not None:  # in the thread that opened what is closed: SQLite insists on it
                other.submit(close).result()


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(threads: int, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Results in no order, as they are there. The calling thread works too; the first error stops all."""
    source, lock = iter(tasks), threading.Lock()
    done: deque[R] = deque()
    failures: list[BaseException] = []
    stopped = threading.Event()

    def one_more() -> bool:
        with lock:
            task = next(source, _END)
        if task is _END or stopped.is_set():
            return False
        done.append(work(task))
        return True

    def help_out() -> None:
        try:
            while one_more():
                pass
        except BaseException as error:  # told to the caller, who raises it
            failures.append(error)
            stopped.set()

    others = [threading.Thread(target=help_out, daemon=True) for _ in range(threads - 1)]
    for other in others:
        other.start()
    try:
        while one_more():
            while done:
                yield done.popleft()
        for other in others:
            other.join()
    finally:  # an error here, Ctrl-C, or a caller that wants no more
        stopped.set()
        for other in others:
            other.join()
    if failures:
        raise failures[0]
    yield from done


def ordered_map(threads: int, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Results in the order of the tasks, while the caller does something with those before; few are held at a time."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error, Ctrl-C, or a caller that wants no more
            for one in waiting:
                one.cancel()


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


class Tasks(Protocol):
    """Runs `work(number)` for every number, somewhere; see `gamlp.spark.tasks.run_tasks`."""

    def __call__(
        self,
        work: Callable[[int], dict[str, Any]],
        numbers: Sequence[int],
        stage: str,
        progress: Progress,
        together: int = 1,
    ) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Workers:
    """Who does the tasks, and how many at once."""

    tasks: Tasks
    slots: int


def run_here(
    work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, progress: Progress, together: int = 1
) -> list[dict[str, Any]]:
    """Tasks one after the other in this process: memory is that of one of them."""
    results = []
    for number in numbers:
        results.append(work(number))
        progress(stage, len(results), len(numbers), "tasks")
    return results
