"""Which bytes are asked for where some rows of a file elsewhere are wanted: rows that lie close come in one range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gamlp.arrays import Array

# Bytes between two wanted rows that are read through. A store answers a request after about 30 ms, ten at a time, and
# meanwhile sends a task some 80 MB/s: a request more costs as much as 3 ms · 80 MB/s.
GAP = 256 << 10
LONGEST = 8 << 20  # bytes of a range: longer ones are several, which come beside each other
AT_ONCE = 32 << 20  # bytes of ranges that are on their way together


def cut_ranges(rows: Array, row_bytes: int, longest: int = LONGEST) -> Array:
    """Cuts of ascending rows: rows[cuts[i]:cuts[i + 1]] are read as one range of at most `longest` bytes, or one row.

    >>> cut_ranges(np.array([0, 1, 5000, 5001]), 100)
    array([0, 2, 4])
    """
    if not len(rows):
        return np.zeros(1, np.int64)
    apart = (np.diff(rows) - 1) * max(1, row_bytes) > GAP
    apart |= np.diff(rows // max(1, longest // max(1, row_bytes))) != 0
    return np.concatenate([[0], np.flatnonzero(apart) + 1, [len(rows)]])


def rounds(sizes: Array, room: int) -> Iterator[tuple[int, int]]:
    """Runs of ranges that have `room` bytes together; a longer one is alone.

    >>> list(rounds(np.array([4, 4, 4, 20, 1]), 10))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    upto = np.concatenate([[0], np.cumsum(sizes)])
    begin = 0
    while begin < len(sizes):
        end = max(begin + 1, int(np.searchsorted(upto, upto[begin] + room, side="right")) - 1)
        yield begin, end
        begin = end


def expected_read(wanted: Array, rows: Array, row_bytes: int) -> tuple[Array, Array]:
    """(bytes, requests) of reading `wanted` of `rows` rows that lie anywhere among them, as `cut_ranges` does it.

    >>> [round(float(value)) for value in expected_read(np.array(10.0), np.array(1e7), 1000)]  # each one by itself
    [10310, 10]
    >>> [round(float(value)) for value in expected_read(np.array(20_000.0), np.array(1e6), 512)]  # nearly all
    [511793364, 2]
    """
    through = GAP // max(1, row_bytes)  # rows between two that are read through
    share = np.clip(np.maximum(wanted, 1) / np.maximum(rows, 1), 1e-12, 1)
    apart = (1 - share) ** (through + 1)  # that a gap is wider
    gap = (1 - share) / share * (1 - apart) - (through + 1) * apart
    gaps = np.maximum(wanted, 1) - 1
    read = np.minimum(wanted + gaps * np.maximum(gap, 0), rows) * row_bytes
    return np.where(wanted > 0, read, 0), np.where(wanted > 0, 1 + gaps * apart, 0)
