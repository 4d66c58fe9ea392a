"""Columns of tables → numbers and strings; which rows cannot be read, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError, printable
from gamlp.graph.ingest.formats import PassOver
from gamlp.graph.ingest.tables import TableBatch

OnBad = Literal["stop", "skip"]
Column = Any  # an Arrow array


class BadRows:
    """Bad rows: stop at the first with its file, row and column, or drop and count them by kind."""

    def __init__(self, policy: OnBad) -> None:
        self.skip = policy == "skip"
        self.counts: Counter[str] = Counter()

    def ragged(self) -> PassOver | None:
        """For `Table.batches`: pass over CSV rows that are no rows of text of this table, or stop at them."""
        return (lambda kind: self.counts.update([kind])) if self.skip else None


class CheckedRows:
    """The rows of one batch while they are checked: `good[i]` until something is found wrong with row i."""

    def __init__(self, batch: TableBatch, bad: BadRows) -> None:
        self.batch = batch
        self.good: Array = np.ones(batch.columns.num_rows, bool)
        self._bad = bad

    def refuse(
        self, kind: str, wrong: Array, column: str, problem: Callable[[int], str], hint: str | None = None
    ) -> None:
        """Rows where `wrong` is set are bad; `problem(i)` says of the first what is wrong with it."""
        wrong = wrong & self.good
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return
        if not self._bad.skip:
            first = int(np.argmax(wrong))
            raise GamlpError(problem(first), file=self.batch.file, row=self.batch.row(first), column=column, hint=hint)
        self._bad.counts[kind] += count
        self.good &= ~wrong

    def column(self, name: str) -> Column:
        """A column, with dictionaries (categories) and extension types undone."""
        return plain(self.batch.columns.column(self.batch.columns.schema.get_field_index(name)))


def plain(column: Column) -> Column:
    """Values themselves: no dictionary, no extension type, strings of one kind."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary).take(column.indices)  # values first: Arrow decodes no views of text
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    return column


def is_text(column: Column) -> bool:
    return bool(pa.types.is_large_string(column.type))


def is_null(column: Column) -> Array:
    """Boolean mask of missing values."""
    if column.null_count == 0:
        return np.zeros(len(column), bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def numbers(column: Column, kind: pa.DataType) -> tuple[Array, Array]:
    """(values, readable): a column as int64 or float64; what is missing or cannot be read is 0 and False.

    Text is read by Arrow's rules after trimming spaces, value by value only where a whole batch fails.
    """
    if is_text(column):
        column = numbers_of_text(column, kind)
    elif pa.types.is_null(column.type):
        column = pa.array([None] * len(column), kind)
    elif column.type != kind:
        try:
            # Of a large integer float64 keeps the first 53 bits, which is more than features keep.
            rounds = pa.types.is_integer(column.type) and pa.types.is_floating(kind)
            column = column.cast(kind, safe=not rounds)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            column = _one_by_one(column, kind)
    readable = ~is_null(column)
    values = column.fill_null(0) if column.null_count else column
    return np.asarray(values.to_numpy(zero_copy_only=False)), readable


def numbers_of_text(column: Column, kind: pa.DataType) -> Column:
    """Text as numbers, null where it is none."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        column = pc.utf8_trim_whitespace(column)
    certain: Column = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
    if certain.null_count == 0 and pc.all(certain).as_py():
        return column.cast(kind)
    sure = pc.if_else(certain, column, pa.scalar(None, column.type)).cast(kind)
    doubtful = np.flatnonzero(~certain.fill_null(True).to_numpy(zero_copy_only=False))
    if len(doubtful) == 0:
        return sure
    parsed = _one_by_one(column.take(pa.array(doubtful)), kind)
    places = np.full(len(column), -1, np.int64)
    places[doubtful] = np.arange(len(doubtful))
    return pc.coalesce(sure, parsed.take(pa.array(places, mask=places < 0)))


def _one_by_one(column: Column, kind: pa.DataType) -> Column:
    def read(value: Any) -> Any:
        try:
            return value.cast(kind).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    return pa.array([read(value) for value in column], kind)


def shown(column: Column, index: int) -> str:
    """A value as an error quotes it."""
    text = printable(str(column[index].as_py()))
    return text if len(text) <= 40 else f"{text[:37]}..."
