"""Rows with more neighbours than a block should have: parts of one are summed by several tasks, and put together.

The kernel sums `BLOCK` entries by themselves, then `BLOCK` such sums, and so on. A part that begins and ends at
multiples of `UNIT` entries is some whole sums of the second level; the kernel's sum of these is the row's, to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.kernel import BLOCK, HopTask, hop

UNIT = BLOCK * BLOCK


@dataclass(frozen=True)
class Hub:
    """A row that is a block by itself, in parts of `step` entries; its loop is one of them, where there are loops."""

    block: int
    row: int
    entries: int
    step: int

    @property
    def parts(self) -> int:
        return -(-(self.entries + 1) // self.step)

    def stored(self, part: int) -> tuple[int, int]:
        """Neighbours that a part needs, with and without loops: one before it may come into it."""
        return max(0, part * self.step - 1), min(self.entries, (part + 1) * self.step)

    def listed(self, part: int, loop: int | None) -> tuple[slice, int | None]:
        """Which of its stored neighbours a part sums up, and where among them the row itself comes (None: not here).

        `loop`: how many neighbours come before the row; None: there are no loops.
        """
        low = self.stored(part)[0]
        begin, end = part * self.step, min((part + 1) * self.step, self.entries + (loop is not None))
        if loop is None:
            return slice(begin - low, end - low), None
        first, last = begin - (begin > loop), end - (end > loop)
        return slice(first - low, last - low), loop - begin if begin <= loop < end else None


def apart(offsets: Any, stops: Sequence[int], parts: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Cuts of a file once more, so that hubs are by themselves; and (row, entries, step) of each.

    Cuts by entries have a hub at the end of its block: the next one begins after it.
    """
    ends = np.asarray(stops, np.int64)
    if not len(ends):
        return [], []
    last, before = (np.asarray(offsets[at]) for at in (ends, ends - 1))
    share = (int(last[-1]) + int(ends[-1])) / parts
    step = UNIT * max(1, round(share / UNIT))
    hubs = [(int(end) - 1, int(size), step) for end, size in zip(ends, last - before) if size > step]
    return sorted({*(int(end) for end in ends), *(row for row, *_ in hubs if row)}), hubs


def unit_sums(sums: Array) -> Array:
    """Sums of `BLOCK` entries each → sums of `UNIT` entries each."""
    cuts = np.append(np.arange(0, len(sums), BLOCK), len(sums))
    return _added(sums, cuts)


def whole_sum(units: Array) -> Array:
    """Sums of all units of a row → the row's, as a matrix of one row."""
    return _added(units, np.array([0, len(units)]))


def _added(values: Array, offsets: Array) -> Array:
    into = np.empty((len(offsets) - 1, values.shape[1]), np.float32)
    hop(HopTask(offsets, np.arange(len(values), dtype=np.int32), None, None, 0, False, values, into), 0, len(into))
    return into
