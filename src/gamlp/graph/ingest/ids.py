"""Ids, integers or strings → row numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.graph.ingest.columns import Column, is_null, is_text, numbers, numbers_of_text
from gamlp.kernel import UNKNOWN_ROW, IdTable, id_table

_SPARSEST = 4  # an array may have this many places an id: 16 bytes, about what a hash table takes


class IdColumn:
    """Gathers the ids of a node table: integers as long as every id is one, else strings."""

    def __init__(self) -> None:
        self._integers: list[Array] = []
        self._strings: list[Column] | None = None

    def add(self, column: Column, typed: bool) -> None:
        """Append ids, none missing; text that is not `typed` (CSV) may be integers."""
        strings = self._strings is not None or (typed and is_text(column))
        integers = None if strings else as_integers(column)
        if integers is not None:
            self._integers.append(integers)
            return
        if self._strings is None:
            # Lossless: ids were taken for integers only where the text is how an integer is written.
            self._strings = [as_text(pa.array(part)) for part in self._integers]
            self._integers = []
        self._strings.append(as_text(column))

    def values(self) -> Array | Column:
        """int64 numpy array, or an Arrow array of large strings. To be called once: the parts are let go."""
        strings, integers = self._strings, self._integers
        self._strings, self._integers = None, []
        if strings is not None:
            return pa.concat_arrays(strings)
        return np.concatenate([np.zeros(0, np.int64), *integers])


def first_rows(ids: Array | Column) -> Array | None:
    """For every row, the first row with the same id; None where all differ."""
    if isinstance(ids, np.ndarray) and np.all(ids[1:] > ids[:-1]):
        return None
    return id_table(ids).first_rows()


class IdMap:
    """id → row. Compact integers by their place in an array, others and strings by a table of ids."""

    def __init__(self, ids: Array | Column) -> None:
        self._places: Array | None = None
        self._table: IdTable | None = None
        self._text = not isinstance(ids, np.ndarray)
        self._low = 0
        if not isinstance(ids, np.ndarray):
            self._table = id_table(ids)
            return
        self._low = int(ids.min(initial=0)) if len(ids) else 0
        span = (int(ids.max()) - self._low + 1) if len(ids) else 0
        if span <= _SPARSEST * len(ids) + 1024:
            self._places = np.full(span, UNKNOWN_ROW, np.int32)
            self._places[ids - self._low] = np.arange(len(ids), dtype=np.int32)
        else:
            self._table = id_table(ids)

    @property
    def by_hash(self) -> bool:
        """Whether a lookup builds a hash table of all ids: then few large lookups beat many small ones."""
        return self._table is not None and self._table.rebuilds

    def rows(self, column: Column) -> Array:
        """Rows of ids, int32; UNKNOWN_ROW for an id that no node has."""
        if self._table is not None and self._text:
            return self._table.rows(as_text(column))
        ids, readable = id_integers(column)
        if self._table is not None:
            rows = self._table.rows(ids)
            return rows if readable.all() else np.where(readable, rows, np.int32(UNKNOWN_ROW))
        assert self._places is not None
        place = ids - self._low
        # The difference may wrap around at the ends of int64; a wrapped one is out of the table too.
        outside = (place < 0) | (place >= len(self._places)) | ~readable
        if not outside.any():
            return np.asarray(self._places[place])
        place[outside] = 0
        rows = self._places[place] if len(self._places) else np.full(len(ids), UNKNOWN_ROW, np.int32)
        rows[outside] = UNKNOWN_ROW
        return rows


def is_id(kind: pa.DataType) -> bool:
    """Whether a column of this (plain) type can hold ids."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_large_string(kind) or types.is_null(kind))


def id_integers(column: Column) -> tuple[Array, Array]:
    """(int64, readable): ids as integers. One that is not written plainly (007, -0, +7, 0x10) is none, and is 0."""
    if not is_text(column):
        return numbers(column, pa.int64())
    whole = _whole_integers(column)
    if whole is None:
        plainly: Column = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,18})$")
        whole = numbers_of_text(pc.if_else(plainly, column, pa.scalar(None, column.type)), pa.int64())
    readable = ~is_null(whole)
    return np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False)), readable


def as_integers(column: Column) -> Array | None:
    """int64, or None where an id is not an integer written plainly (007 and +7 are strings)."""
    if is_text(column):
        integers = _whole_integers(column)
    else:
        try:
            integers = column.cast(pa.int64())
        except pa.ArrowInvalid:  # uint64 beyond int64
            return None
    return None if integers is None else np.asarray(integers.to_numpy(zero_copy_only=False))


def _whole_integers(column: Column) -> Column | None:
    """A column of text that holds nothing but integers written plainly, and nulls."""
    try:
        integers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return integers if integers.cast(pa.large_string()).equals(column) else None


def as_text(column: Column) -> Column:
    """Ids as strings."""
    return column if is_text(column) else column.cast(pa.large_string())


def missing(column: Column) -> Array:
    """Mask of ids that are not there: null or an empty string."""
    absent = is_null(column)
    if is_text(column):
        empty: Column = pc.equal(pc.binary_length(column), pa.scalar(0, pa.int64()))
        absent |= np.asarray(empty.fill_null(True).to_numpy(zero_copy_only=False))
    return absent
