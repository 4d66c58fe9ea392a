"""What a first pass over a column sees: added batch by batch, merged in any order, always with the same result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.features.encoders.gathered import Dates, Numbers, Vectors
from gamlp.graph.features.encoders.reading import (
    Column,
    Kind,
    category_keys,
    dates_or_texts,
    floats,
    gaps_of_texts,
    in_calendar,
    kind_of,
    microseconds,
    nulls,
    numbers_or_texts,
    plain_values,
    quick_numbers,
    read_texts,
    truths,
)
from gamlp.graph.features.encoders.samples import TextSample
from gamlp.graph.features.encoders.vectors import read_vectors
from gamlp.graph.features.encoders.words import LEFT_OUT, NUMBER_TYPES, SPREAD_TYPES, VECTOR_TYPES, known_type

_PARTS = {"numbers": Numbers, "dates": Dates, "vectors": Vectors, "words": TextSample}


class Fitting:
    """One column. `wanted` is a column type, where somebody named one: then only what it needs is gathered.

    Cells of a text column are numbers, dates or other words, each gathered on its own (dates are words too), so that
    what the whole column is can be said at the end, whatever came first.
    """

    def __init__(self, name: str, wanted: str | None = None) -> None:
        self.name = name
        self.wanted = None if wanted is None else known_type(wanted, name)
        self.rows = 0
        self.gaps = 0
        self.source: str | None = None  # the Arrow type, as text
        self.kind: Kind | None = None
        self.infinite = 0  # rows: infinite numbers, or days outside of the calendar
        self.letters = 0  # of words that are neither numbers nor gaps
        self.numbers = Numbers(spread=self.wanted is None or self.wanted in SPREAD_TYPES)
        self.dates = Dates()
        self.vectors = Vectors()
        self.words = TextSample()
        self.worded = 0  # rows whose cell is a word

    @property
    def filled(self) -> int:
        """Rows that are no gaps."""
        return self.rows - self.gaps

    def add(self, values: Any) -> None:
        """Add rows: an Arrow array of any type. NaN and words such as NA are gaps."""
        column = plain_values(values)
        kind = kind_of(column.type)
        self.rows += len(column)
        if kind is None:
            self.gaps += len(column)
            return
        self._is(kind, str(column.type))
        wanted = self.wanted
        if wanted in LEFT_OUT or wanted == "text":
            self.gaps += int(np.count_nonzero(gaps_of_texts(column) if kind == "text" else nulls(column)))
        elif wanted in NUMBER_TYPES:
            self._add_numbers(*numbers_or_texts(column))
        elif wanted == "boolean":
            self._add_numbers(*truths(column))
        elif wanted == "date":
            self._add_dates(*dates_or_texts(column))
        elif wanted == "category":
            self._add_keys(column)
        elif wanted in VECTOR_TYPES or kind == "vector":
            self._add_vectors(column)
        elif kind == "text":
            self._add_texts(column)
        elif kind == "date":
            days, gap = microseconds(column)
            known = gap | in_calendar(days)
            self.infinite += int(np.count_nonzero(~known))
            self._add_dates(days[known], gap[known], known[known])
        elif kind == "other":
            self.gaps += int(np.count_nonzero(nulls(column)))
        else:
            numbers, gap = floats(column)
            self._add_numbers(numbers, gap, np.ones(len(numbers), bool))

    def merge(self, other: Fitting) -> None:
        """Add what another fitting of the same column saw; the other is of no use afterwards."""
        if other.name != self.name or other.wanted != self.wanted:
            raise ValueError("fittings of different columns")
        if other.kind is not None:
            self._is(other.kind, other.source or "")
        for count in ("rows", "gaps", "infinite", "letters", "worded"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        for part in _PARTS:
            getattr(self, part).merge(getattr(other, part))

    def to_plain(self) -> dict[str, Any]:
        """As plain data that JSON keeps, some hundred kilobytes at most."""
        facts = ("name", "wanted", "rows", "gaps", "source", "kind", "infinite", "letters", "worded")
        return {fact: getattr(self, fact) for fact in facts} | {part: getattr(self, part).to_plain() for part in _PARTS}

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Fitting:
        fitting = Fitting(plain["name"], plain["wanted"])
        for fact, value in plain.items():
            part: Any = _PARTS.get(fact)
            setattr(fitting, fact, value if part is None else part.from_plain(value))
        return fitting

    def _is(self, kind: Kind, source: str) -> None:
        if self.kind is None:
            self.kind, self.source = kind, source
        elif self.kind != kind:
            raise GamlpError(f"holds {source} here and {self.source} before", column=self.name)
        elif self.source != source:
            self.source = max(self.source or "", source)  # int32 in one file and int64 in another: any order

    def _add_numbers(self, values: Array, gap: Array, readable: Array) -> None:
        self._refuse(~readable)
        self.gaps += int(np.count_nonzero(gap))
        if gap.any():
            values = values[~gap]
        if not (finite := np.isfinite(values)).all():
            self.infinite += int(np.count_nonzero(~finite))
            values = values[finite]
        self.numbers.add(values)

    def _add_dates(self, values: Array, gap: Array, readable: Array) -> None:
        self._refuse(~readable)
        self.gaps += int(np.count_nonzero(gap))
        self.dates.add(values[~gap] if gap.any() else values)

    def _add_keys(self, column: Column) -> None:
        keys, places = category_keys(column)
        self.gaps += int(np.count_nonzero(places < 0))
        self._add_words(keys, np.bincount(places[places >= 0], minlength=len(keys)).astype(np.int64))

    def _add_words(self, words: Column, counts: Array) -> None:
        self.worded += int(counts.sum())
        self.words.add(words, counts)

    def _add_vectors(self, column: Column) -> None:
        found = read_vectors(column)
        self._refuse(~found.readable)
        self.gaps += int(np.count_nonzero(found.gap))
        if not found.gap.all():
            self.vectors.add(found.width, found.ragged, found.norms())

    def _add_texts(self, column: Column) -> None:
        # Programs write numbers that can be read at once; a column of words is not tried again.
        if (self.worded == 0 or self.numbers.moments.count) and (quick := quick_numbers(column)) is not None:
            self._add_numbers(*quick, np.ones(len(column), bool))
            return
        texts = read_texts(column)
        counts = texts.counts()
        self.gaps += int(np.count_nonzero(texts.places < 0)) + int(counts[texts.gap].sum())
        if texts.numeric.any():
            rows = texts.places[np.append(texts.numeric, False)[texts.places]]
            self.numbers.add(texts.numbers[rows])
        if texts.dated.any():
            rows = texts.places[np.append(texts.dated, False)[texts.places]]
            self.dates.add(texts.dates[rows])
        others = np.flatnonzero(~texts.gap & ~texts.numeric)
        if len(others):
            words = texts.words if len(others) == len(texts.words) else texts.words.take(pa.array(others))
            held = counts[others]
            if not texts.apart:
                coded = words.dictionary_encode()
                words = coded.dictionary
                held = np.bincount(coded.indices.to_numpy(), held, minlength=len(words)).astype(np.int64)
            self.letters += int((np.asarray(pc.utf8_length(words).to_numpy()) * held).sum())
            self._add_words(words, held)

    def _refuse(self, wrong: Array) -> None:
        """Rows that cannot be read as what is wanted; whoever reads a table names them before (`unreadable`)."""
        if wrong.any():
            raise GamlpError(f"row {int(np.argmax(wrong)) + 1} of a batch is no {self.wanted}", column=self.name)
