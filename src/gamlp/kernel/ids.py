"""Ids, integers or strings → rows: a hash table that is built once in C++, else what numpy and Arrow offer."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.kernel.csr import MOST_NODES
from gamlp.kernel.native import native

Strings = Any  # an Arrow array of strings or large strings
UNKNOWN_ROW = -1


class IdTable(Protocol):
    """Rows of ids, by the ids of all rows."""

    rebuilds: bool  # whether every lookup goes through all ids: then few large lookups beat many small ones

    def rows(self, ids: Any) -> Array:
        """int32: the first row with each id, UNKNOWN_ROW where there is none (or the id is null)."""

    def first_rows(self) -> Array | None:
        """For every row the first one with the same id; None where all differ."""


def id_table(ids: Array | Strings) -> IdTable:
    """A table of ids, none null: a numpy array of int64, or an Arrow array of strings, which is not copied."""
    if len(ids) > MOST_NODES:
        raise GamlpError(f"{len(ids)} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
    if isinstance(ids, np.ndarray):
        return _SortedIntegers(ids) if native() is None else _HashedIntegers(ids)
    if ids.null_count:
        raise ValueError("an id is null")
    return _ArrowStrings(ids) if native() is None else _HashedStrings(ids)


class _HashedIntegers:
    rebuilds = False

    def __init__(self, ids: Array) -> None:
        module: Any = native()
        self._ids = np.ascontiguousarray(ids, np.int64)
        self._table = module.IntegerIds(self._ids)

    def rows(self, ids: Array) -> Array:
        return np.asarray(self._table.rows(np.ascontiguousarray(ids, np.int64), os.cpu_count() or 1))

    def first_rows(self) -> Array | None:
        return None if self._table.distinct == len(self._ids) else self.rows(self._ids)


class _HashedStrings:
    rebuilds = False

    def __init__(self, ids: Strings) -> None:
        module: Any = native()
        self._table = module.StringIds(*_parts(ids))
        self._repeated = None if self._table.distinct == len(ids) else ids

    def rows(self, ids: Strings) -> Array:
        rows = np.asarray(self._table.rows(*_parts(ids), os.cpu_count() or 1))
        if ids.null_count:  # whatever bytes are under a null
            rows[ids.is_null().to_numpy(zero_copy_only=False)] = UNKNOWN_ROW
        return rows

    def first_rows(self) -> Array | None:
        return None if self._repeated is None else self.rows(self._repeated)


class _SortedIntegers:
    rebuilds = False

    def __init__(self, ids: Array) -> None:
        self._order = np.argsort(ids, kind="stable").astype(np.int32)
        self._sorted = ids[self._order]

    def rows(self, ids: Array) -> Array:
        if len(self._sorted) == 0:
            return np.full(len(ids), UNKNOWN_ROW, np.int32)
        # Sorted queries walk the table in order: three times as fast as in the order of the edges.
        order = np.argsort(ids)
        queries = ids[order]
        place = np.minimum(np.searchsorted(self._sorted, queries), len(self._sorted) - 1)
        rows = np.empty(len(ids), np.int32)
        rows[order] = np.where(self._sorted[place] == queries, self._order[place], UNKNOWN_ROW)
        return rows

    def first_rows(self) -> Array | None:
        ascending = self._sorted
        if np.all(ascending[1:] > ascending[:-1]):
            return None
        head = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
        first = np.empty(len(ascending), np.int32)
        first[self._order] = np.repeat(self._order[head], np.diff(np.append(head, len(ascending))))
        return first


class _ArrowStrings:
    rebuilds = True

    def __init__(self, ids: Strings) -> None:
        self._ids = ids.cast(pa.large_string())

    def rows(self, ids: Strings) -> Array:
        found = pc.index_in(ids.cast(pa.large_string()), value_set=self._ids)
        return np.asarray(found.fill_null(UNKNOWN_ROW).to_numpy(zero_copy_only=False), np.int32)

    def first_rows(self) -> Array | None:
        first = self.rows(self._ids)
        return None if np.array_equal(first, np.arange(len(first))) else first


def _parts(strings: Strings) -> tuple[Array, Array]:
    """Offsets (int64, one more than strings) and bytes of an Arrow array, without copying the bytes."""
    if len(strings) == 0:  # may have no buffers at all
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    strings = strings.cast(pa.large_string())  # of short strings, copies the offsets only
    _, offsets, data = strings.buffers()
    if offsets.size < 8 * (strings.offset + len(strings) + 1):
        raise ValueError("fewer offsets than strings")
    numbers = np.frombuffer(offsets, np.int64, len(strings) + 1, 8 * strings.offset)
    # A file may put a buffer at any place, which C++ must not read numbers from.
    numbers = np.require(numbers, requirements=["C", "A"])
    empty = data is None or data.size == 0
    return numbers, np.zeros(0, np.uint8) if empty else np.frombuffer(data, np.uint8)
