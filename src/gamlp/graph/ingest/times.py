"""Times in tables: moments or plain numbers, and cuts in them that a person writes, such as --before 2024-05-31."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.ingest.columns import CheckedRows, Column, is_null, is_text, numbers, shown

USUAL_TIMES = ("time", "timestamp", "date", "created_at")  # names of columns that hold times
TIME_HINT = "times are such as 2024-05-31, 2024-05-31T12:00:00Z, or numbers"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_NAIVE, _ZONED = rf"^{_DAY}({_CLOCK})?$", rf"^{_DAY}{_CLOCK} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)$"
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Numbers since 1970 tell their unit by their size: 1e8 seconds is 1973, 1e11 seconds is 5138.
_SIZES = {"s": (1e8, 1e11), "ms": (1e11, 1e14), "us": (1e14, 1e17), "ns": (1e17, 1e19)}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_FAR = 1 << 62  # microseconds: more is no time that anybody means
Kind = Literal["moment", "number"]


@dataclass(frozen=True)
class Cut:
    """A time that a person wrote: `before` it, or `until` it.

    A day, a month or a year is all of it: until 2024-05 is until the end of May, before 2024-05 before its beginning.
    """

    option: str  # that gave it
    text: str
    included: bool  # until: what is at this time is on this side of the cut
    number: int | float | None  # as a plain number
    bounds: tuple[int, int] | None  # as a moment: its first microsecond since 1970 (UTC), and the first after it

    @classmethod
    def of(cls, option: str, text: str, *, included: bool) -> Cut:
        """Read it; what is no time is refused."""
        text = text.strip()
        number, bounds = _plain_number(text), _bounds(text)
        if number is None and bounds is None:
            raise GamlpError(f"{option} {text}: is no time", hint=TIME_HINT)
        return cls(option, text, included, number, bounds)

    def __str__(self) -> str:
        return f"{'until' if self.included else 'before'} {self.text}"

    @property
    def _moment(self) -> int:
        assert self.bounds is not None
        return self.bounds[1 if self.included else 0]

    def keeps(self, times: Times) -> Array:
        """Which times are on this side of the cut."""
        if times.kind == "moment":
            if self.bounds is None:
                raise self._refused(times, f"a date such as {_told(times.first)}")
            return np.asarray(times.values < self._moment)
        if self.number is not None:
            return np.asarray(times.values <= self.number if self.included else times.values < self.number)
        if times.unit is None:
            raise self._refused(times, f"a number such as {times.first}")
        values, exact = times.values, self._moment * _PER_SECOND[times.unit]
        if values.dtype.kind == "f":
            return np.asarray(values < exact / 10**6)
        return np.asarray(values < -(-exact // 10**6))  # a whole number is below a bound if it is below its ceiling

    def check_after(self, other: Cut) -> None:
        """Refuse a cut that is not later than another."""
        mine, its = (self.number, other.number), (self.bounds, other.bounds)
        both = mine if None not in mine else its
        if None in both:
            raise GamlpError(f"{other.option} {other.text} and {self.option} {self.text} are times of different sorts")
        if both[0] <= both[1]:  # type: ignore[operator]
            raise GamlpError(f"{self.option} {self.text} is not later than {other.option} {other.text}")

    def _refused(self, times: Times, expected: str) -> GamlpError:
        return GamlpError(f"{self.option} {self.text} cannot be compared with column '{times.column}': give {expected}")


@dataclass(frozen=True)
class Times:
    """Times of a batch: microseconds since 1970 (UTC), or numbers as they are; `known` marks those that are there."""

    column: str
    kind: Kind
    values: Array
    known: Array
    first: Any  # the first of the whole table
    unit: str | None = None  # of numbers that count from 1970


class TimeColumn:
    """A column of times, read batch by batch; what the first value is, all others must be."""

    def __init__(self, name: str, cuts: Sequence[Cut] = ()) -> None:
        self.name = name
        self.naive = 0  # moments that say no zone
        self._dated = any(cut.number is None for cut in cuts)  # numbers are compared with dates
        self.missing = 0
        self._kind: Kind | None = None
        self._first: Any = None
        self._unit: str | None = None

    def read(self, rows: CheckedRows, *, needed: bool) -> Times:
        """Times of all rows; a row with something else is bad, and one without a time where it is `needed`."""
        column = rows.column(self.name)
        if is_text(column):
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        absent = is_null(column)
        if needed:
            rows.refuse("missing time", absent, self.name, lambda _: "missing time", TIME_HINT)
        if self._kind is None and not absent.all():
            self._kind = self._kind_of(rows, column, int(np.argmin(absent)))
        if self._kind is None:
            nothing = np.zeros(len(column), np.int64)
            return Times(self.name, "number", nothing, ~absent, None)
        values, readable = self._numbers(column) if self._kind == "number" else self._moments(column)
        other = "a time" if self._kind == "moment" else "a number, as those before are"
        rows.refuse(
            "bad time", ~readable & ~absent, self.name, lambda i: f"'{shown(column, i)}' is not {other}", TIME_HINT
        )
        known = readable & ~absent & rows.good
        self.missing += int(np.count_nonzero(absent & rows.good))
        if known.any():
            self._settle(rows, values, known)
        return Times(self.name, self._kind, values, known, self._first, self._unit)

    def called(self, name: str, naive: int = 0) -> TimeColumn:
        """One that knows what this one's first value is, and reads a column of another name."""
        made = TimeColumn(name)
        made._dated, made._kind, made._first, made._unit = self._dated, self._kind, self._first, self._unit
        made.naive = naive
        return made

    def notes(self) -> list[str]:
        """What was taken for granted, in sentences."""
        found = []
        if self.naive:
            found.append(f"column '{self.name}': {self.naive:,} times name no zone and are taken for UTC")
        if self._unit is not None:
            found.append(f"column '{self.name}': numbers such as {self._first} are {_UNITS[self._unit]} since 1970")
        return found

    def _kind_of(self, rows: CheckedRows, column: Column, at: int) -> Kind:
        held = column.type
        if pa.types.is_timestamp(held) or pa.types.is_date(held):
            return "moment"
        if pa.types.is_integer(held) or pa.types.is_floating(held):
            return "number"
        if is_text(column):
            return "number" if re.fullmatch(_NUMBER, column[at].as_py()) else "moment"
        raise GamlpError(f"holds {held}, no times", file=rows.batch.file, column=self.name, hint=TIME_HINT)

    def _settle(self, rows: CheckedRows, values: Array, known: Array) -> None:
        """The first value, and the unit that its size tells where it counts from 1970; all others have that size."""
        if self._first is None:
            self._first = values[int(np.argmax(known))].item()
            sizes = _SIZES.items() if self._kind == "number" and self._dated else ()
            self._unit = next((unit for unit, (low, high) in sizes if low <= abs(self._first) < high), None)
        if self._unit is None:
            return
        low, high = _SIZES[self._unit]
        size = np.abs(values.astype(np.float64))
        rows.refuse(
            "bad time",
            known & ((size < low) | (size >= high)),
            self.name,
            lambda i: (
                f"{values[i]} is of another size than {self._first}, which is {_UNITS[str(self._unit)]} since 1970"
            ),
        )

    def _numbers(self, column: Column) -> tuple[Array, Array]:
        """Whole numbers stay whole: of nanoseconds since 1970 a float would lose the last digits."""
        if not pa.types.is_floating(column.type):
            values, readable = numbers(column, pa.int64())
            if (readable | is_null(column)).all():
                return values, readable
        values, readable = numbers(column, pa.float64())
        return values, readable & np.isfinite(values)

    def _moments(self, column: Column) -> tuple[Array, Array]:
        if is_text(column):
            return self._moments_of_text(column)
        held = column.type
        if not (pa.types.is_timestamp(held) or pa.types.is_date(held)):
            return np.zeros(len(column), np.int64), np.zeros(len(column), bool)
        if pa.types.is_date(held):
            column = column.cast(pa.timestamp("s" if pa.types.is_date32(held) else "ms"))
        elif held.tz is None:
            self.naive += len(column) - column.null_count
        ticks = np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
        scale = _PER_SECOND[column.type.unit]
        if scale > 10**6:
            return ticks // (scale // 10**6), ~is_null(column)
        factor = 10**6 // scale
        readable = ~is_null(column) & (np.abs(ticks.astype(np.float64)) < _FAR / factor)
        return np.where(readable, ticks, 0) * factor, readable

    def _moments_of_text(self, column: Column) -> tuple[Array, Array]:
        values, readable = np.zeros(len(column), np.int64), np.zeros(len(column), bool)
        for pattern, zone in ((_NAIVE, None), (_ZONED, "UTC")):
            fits: Column = pc.match_substring_regex(column, pattern).fill_null(False)
            places = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
            if not len(places):
                continue
            found = _parsed(column.take(pa.array(places)), zone)
            values[places] = found.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            readable[places] = ~is_null(found)
            if zone is None:
                clock: Column = pc.match_substring(column.take(pa.array(places)), ":")
                self.naive += int(pc.sum(clock).as_py() or 0)
        return values, readable


def time_by_name(names: Sequence[str]) -> str | None:
    """A column that is called as times usually are."""
    return next((name for usual in USUAL_TIMES for name in names if name.strip().lower() == usual), None)


def holds_times(column: Column) -> bool:
    """Whether some rows of a column hold moments: by their type, or as ISO text in every one of them."""
    if is_text(column):
        some = column.drop_null()
        fits: Column = pc.match_substring_regex(pc.utf8_trim_whitespace(some), f"{_NAIVE}|{_ZONED}")
        return len(some) > 0 and bool(pc.all(fits).as_py())
    return bool(pa.types.is_timestamp(column.type) or pa.types.is_date(column.type))


def _parsed(text: Column, zone: str | None) -> Column:
    """ISO text as microseconds, null where the day or the hour does not exist."""
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    if zone is not None:  # Arrow reads +02:00 and +0200 beside the seconds
        text = pc.replace_substring_regex(text, r" (Z|[+-]\d{2}(:?\d{2})?)$", r"\1")
    kind = pa.timestamp("us", zone)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([_one(value, zone) for value in text.to_pylist()], pa.int64()).cast(kind)


def _one(text: str, zone: str | None) -> int | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if (found.tzinfo is None) != (zone is None):
        return None
    return _microseconds(found)


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def _plain_number(text: str) -> int | float | None:
    if not re.fullmatch(_NUMBER, text):
        return None
    return int(text) if re.fullmatch(r"[-+]?\d{1,18}", text) else float(text)


def _bounds(text: str) -> tuple[int, int] | None:
    """First microsecond of a time and the first after it: of a year, a month, a day, or one moment."""
    try:
        if match := re.fullmatch(r"(\d{4})(?:-(\d{2}))?", text):
            year, month = int(match[1]), match[2] and int(match[2])
            begin = datetime(year, month or 1, 1)
            months = 12 if month is None else 1
            year, month = divmod(year * 12 + begin.month - 1 + months, 12)
            end = datetime(year, month + 1, 1)
            return _microseconds(begin), _microseconds(end)
        begin = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = _microseconds(begin)
    whole_day = re.fullmatch(rf"{_DAY}|\d{{8}}", text) is not None
    if not whole_day and "T" not in text and " " not in text:  # a week, or a day by its number in the year
        return None
    return at, at + (timedelta(days=1) // _MICROSECOND if whole_day else 1)


def _told(microseconds: int | None) -> str:
    if microseconds is None:  # none could be read yet
        return "2024-05-31"
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).date().isoformat()
    except OverflowError:  # beyond the year 9999
        return "2024-05-31"
