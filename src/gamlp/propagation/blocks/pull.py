"""Rows of the hop before, as a task pulls them: mapped where a file is here, in ranges or parcels from elsewhere."""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import AT_ONCE, LONGEST, Place, RemoteRows, open_rows
from gamlp.kernel import NUMPY_DTYPES, copy_rows, scale
from gamlp.propagation.blocks.parcels import Parcel

_SHARE = 8  # of a task's memory, this part at most is for ranges on their way


def room_for_ranges(memory: int) -> int:
    """Bytes that are on their way at a time, of a task that may hold so many."""
    return min(AT_ONCE, memory // _SHARE)


def pull(place: Place, count: int, rows: Array, into: Array, dtype: str, storage: str, room: int, at: int = 0) -> int:
    """Ascending rows of a block of `count` rows, columns from `at` on; returns the bytes that were read for it."""
    values, end = open_rows(place), at + int(into.shape[1])
    if values.dtype != NUMPY_DTYPES[dtype] or len(values) != count or values.ndim != 2 or values.shape[1] < end:
        raise GamlpError("is no block of this hop", file=place, hint="run the same command again: it is made anew")
    if not isinstance(values, RemoteRows):
        _copy(values[:, at:end], rows, into, dtype, storage)
        return into.size * int(values.itemsize)
    for part, some, places in values.parts(rows, room):
        _copy(some[:, at:end], places, into[part], dtype, storage)
    return int(values.pulled)


def pull_parcel(parcel: Parcel, some: Array | None, into: Array, dtype: str, storage: str, room: int) -> int | None:
    """The same from what the other block sent, or `some` of its rows; None: it is gone since, as where a hop is
    computed again.
    """
    step = max(1, min(LONGEST, room) // max(1, into.shape[1] * np.dtype(NUMPY_DTYPES[dtype]).itemsize))
    try:
        for at in range(0, len(into), step):
            end = min(at + step, len(into))
            if some is None:
                values = parcel.values.range(parcel.begin + at, parcel.begin + end)
            else:
                values = parcel.values.take(parcel.begin + some[at:end])
            _copy(values, np.arange(end - at), into[at:end], dtype, storage)
    except GamlpError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    return parcel.values.pulled


def _copy(values: Array, rows: Array, into: Array, dtype: str, storage: str) -> None:
    if dtype == storage and len(rows) == len(values):
        into[:] = values
    elif dtype == storage:
        copy_rows(values, rows, into)
    else:
        scale(values, dtype, into, storage, rows=rows)
