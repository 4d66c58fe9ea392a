"""Rows of mapped files that are not in memory: read past the map, many requests at a time."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io.files import more_files
from gamlp.io.parallel import parallel_map

# A page fault waits for the disk, and reads what lies around besides: 8 MB a fault where the system reads so far ahead.
# On one virtual disk 6,400 rows of 3.5 KB came a second by faults, 58,000 by sixteen readers.
READERS = 16
_SAMPLES = 8  # rows of a part that are looked at
_MOST_BUFFERS = 1024  # a call: IOV_MAX


@dataclass(frozen=True)
class FileRows:
    """Rows of one mapped file, ascending, and where in the result each belongs."""

    values: Any  # np.memmap `[rows, ...]`
    rows: Array
    places: Array

    @property
    def in_memory(self) -> bool:
        """By a look at some; True also where the system does not tell, or the file is no longer there."""
        values, library = self.values, _libc()
        if library is None or not isinstance(values, np.memmap) or not len(self.rows) or not values.nbytes:
            return True
        size = values.strides[0]
        told = (ctypes.c_ubyte * (size // mmap.PAGESIZE + 2))()
        for row in self.rows[np.linspace(0, len(self.rows) - 1, _SAMPLES).astype(np.int64)]:
            begin = values.ctypes.data + int(row) * size
            first = begin // mmap.PAGESIZE * mmap.PAGESIZE
            if library.mincore(ctypes.c_void_p(first), ctypes.c_size_t(begin + size - first), told):
                return True
            pages = -(-(begin + size - first) // mmap.PAGESIZE)
            if not all(told[page] & 1 for page in range(pages)):
                return not (values.filename and Path(values.filename).exists())
        return True


def _opened(name: Any) -> int:
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(name, flags)
    except OSError as error:
        if error.errno != errno.EMFILE or not more_files():
            raise
    return os.open(name, flags)


def read_scattered(parts: Sequence[FileRows], out: Array) -> None:
    """out[place] = the first bytes of each row, as many as a row of `out` has; rows side by side in one request."""
    with ExitStack() as stack:
        requests: list[tuple[int, FileRows, int, int]] = []
        for part in parts:
            file = _opened(part.values.filename)
            stack.callback(os.close, file)
            if hasattr(os, "posix_fadvise"):  # what lies behind a row is not wanted
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            requests += [(file, part, begin, end) for begin, end in _runs(part)]
        step = max(1, len(requests) // (4 * READERS))
        groups = [requests[begin : begin + step] for begin in range(0, len(requests), step)]

        def read(group: list[tuple[int, FileRows, int, int]]) -> None:
            for request in group:
                _read_run(*request, out)

        for _ in parallel_map(min(READERS, len(groups)), read, groups):
            pass


def _runs(part: FileRows) -> Iterator[tuple[int, int]]:
    """Bounds of rows that follow each other in the file, as many as one request takes."""
    most = _MOST_BUFFERS // 2
    bounds = [0, *(np.flatnonzero(np.diff(part.rows) != 1) + 1).tolist(), len(part.rows)]
    for first, last in pairwise(bounds):
        for begin in range(first, last, most):
            yield begin, min(begin + most, last)


def _read_run(file: int, part: FileRows, begin: int, end: int, out: Array) -> None:
    places, size = part.places[begin:end], part.values.strides[0]
    rest = size - out[0].nbytes  # of a row that is not asked for
    if not rest and places[-1] - places[0] == len(places) - 1 and (np.diff(places) == 1).all():
        buffers = [out[places[0] : places[-1] + 1]]
    else:
        skipped = np.empty(rest, np.uint8)
        buffers = [piece for place in places for piece in ((out[place], skipped) if rest else (out[place],))]
    views = [buffer.data.cast("B") for buffer in buffers]
    at = part.values.offset + int(part.rows[begin]) * size
    while views:
        try:
            got = os.preadv(file, views, at)
        except OSError as error:
            raise GamlpError(f"cannot be read ({error.strerror})", file=part.values.filename) from error
        if not got:
            raise GamlpError("file is shorter than it was", file=part.values.filename, hint="make it again")
        at, views = at + got, _unread(views, got)


def _unread(views: list[memoryview], got: int) -> list[memoryview]:
    """What a read of so many bytes left unfilled: nothing, but for signals and the most that a call reads."""
    for index, view in enumerate(views):
        if got < len(view):
            return [view[got:], *views[index + 1 :]]
        got -= len(view)
    return []


@cache
def _libc() -> Any:
    if sys.platform != "linux" or not hasattr(os, "preadv"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "mincore") else None
