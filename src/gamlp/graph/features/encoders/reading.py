"""Cells of a table → numbers, booleans, dates, texts; which are gaps and which cannot be read as what is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array

Column = Any  # an Arrow array
Kind = Literal["number", "boolean", "date", "text", "vector", "other"]

# How programs write that a value is missing: the list of pandas, and what C and C++ write. An empty text is always
# missing.
GAP_WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null", "NAN", "-NAN", "nan(ind)", "-nan(ind)", "nan(snan)", "-nan(snan)",
)  # fmt: skip
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "t", "y"), ("false", "no", "f", "n")
DAY = 86_400_000_000  # microseconds
FIRST, LAST = -719_162 * DAY, 2_932_897 * DAY - 1  # of the years 1 and 9999

# 007 is a code and no number, and so is a whole number that float64 cannot hold.
_NUMBER = r"^[-+]?(?:(?:0|[1-9][0-9]{0,14})(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
_TIME = r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[-+][0-9]{2}:?[0-9]{2})?"
_DATE = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:{_TIME})?$"
_ZONE = r"[0-9](?:Z|[-+][0-9]{2}:?[0-9]{2})$"
_FINER = r"(\.[0-9]{6})[0-9]+"  # than microseconds


def plain_values(values: Any) -> Column:
    """One array of values themselves: no chunks, no dictionary, no extension type, strings of one kind."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # chunks that one array cannot hold stay apart
        values = pa.concat_arrays(values.chunks)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    return values


def kind_of(arrow: pa.DataType) -> Kind | None:
    """What an Arrow type holds; None: nothing but gaps."""
    types = pa.types
    if types.is_null(arrow):
        return None
    if types.is_boolean(arrow):
        return "boolean"
    if types.is_integer(arrow) or types.is_floating(arrow) or types.is_decimal(arrow):
        return "number"
    if types.is_time(arrow) or types.is_duration(arrow):
        return "number"
    if types.is_date(arrow) or types.is_timestamp(arrow):
        return "date"
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return "text"
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return "vector" if kind_of(arrow.value_type) in ("number", "boolean") else "other"
    return "other"


def nulls(column: Column) -> Array:
    """Boolean mask of missing values."""
    if column.null_count == 0:
        return np.zeros(len(column), bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def gaps_of_texts(column: Column) -> Array:
    """Missing texts, and words that say so."""
    words = pa.array([*GAP_WORDS, ""], pa.large_string())
    found = pc.is_in(pc.utf8_trim_whitespace(column), value_set=words)
    return np.asarray(nulls(column) | _mask(found))


def floats(column: Column) -> tuple[Array, Array]:
    """(float64, gap) of a column of numbers, booleans, times or durations: NaN is a gap, where the value is 0.

    Times and durations are seconds.
    """
    arrow = column.type
    gap = nulls(column)
    if pa.types.is_boolean(arrow):
        column = column.cast(pa.uint8())
    elif pa.types.is_time(arrow) or pa.types.is_duration(arrow):
        unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow.unit]
        whole = column.cast(pa.int32()).cast(pa.int64()) if arrow in (pa.time32("s"), pa.time32("ms")) else column
        column = pc.divide(whole.cast(pa.int64()).cast(pa.float64(), safe=False), float(unit))
    elif pa.types.is_float16(arrow):
        column = column.cast(pa.float32())
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = column.fill_null(0)
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    unknown = np.isnan(values)
    if unknown.any():
        gap = gap | unknown
        values = np.where(unknown, 0.0, values)
    return values, gap


def microseconds(column: Column) -> tuple[Array, Array]:
    """(int64 since 1970 in UTC, gap) of a column of dates or timestamps; finer parts of a second are cut off.

    What lies outside of the years 1 to 9999 is a microsecond before or after them: no calendar has it.
    """
    gap = nulls(column)
    arrow = column.type
    unit = arrow.unit if pa.types.is_timestamp(arrow) else "ms"
    if pa.types.is_date32(arrow):
        column, unit = column.cast(pa.int32()), "day"
    whole = column.cast(pa.int64())
    values = np.asarray((whole.fill_null(0) if whole.null_count else whole).to_numpy(zero_copy_only=False))
    if unit == "ns":
        values = values // 1000
    else:
        # Cut off before they are multiplied: seconds may be more than microseconds hold.
        factor = {"us": 1, "ms": 1000, "s": 1_000_000, "day": DAY}[unit]
        values = np.clip(values, FIRST // factor - 1, LAST // factor + 1) * factor
    return np.clip(values, FIRST - 1, LAST + 1), gap


def in_calendar(values: Array) -> Array:
    """Which microseconds lie in the years 1 to 9999."""
    return np.asarray((values >= FIRST) & (values <= LAST))


@dataclass(frozen=True)
class Texts:
    """Texts of some rows by the distinct ones among them.

    words: distinct texts, trimmed. gap, numeric, dated: masks over words. numbers, dates: what the words say, else 0.
    places: the word of every row, -1 where there is none. apart: no two words are equal after trimming.
    """

    words: Column
    apart: bool
    gap: Array
    numeric: Array
    numbers: Array
    dated: Array
    dates: Array
    places: Array

    def counts(self) -> Array:
        """Rows of every word."""
        return np.bincount(self.places[self.places >= 0], minlength=len(self.words)).astype(np.int64)


def read_texts(column: Column, dates: bool = True) -> Texts:
    """Read each distinct text once; `dates`: look for dates too."""
    coded = column.dictionary_encode()
    words = pc.utf8_trim_whitespace(coded.dictionary)
    places = coded.indices
    places = (places.fill_null(-1) if places.null_count else places).to_numpy(zero_copy_only=False)
    gap = _mask(pc.is_in(words, value_set=pa.array([*GAP_WORDS, ""], pa.large_string())))
    numeric = _mask(pc.match_substring_regex(words, _NUMBER)) & ~gap
    numbers = _parsed(words, numeric, _as_numbers, np.float64)
    numeric &= np.isfinite(numbers)
    dated = np.zeros(len(words), bool)
    moments = np.zeros(len(words), np.int64)
    if dates:
        dated = _mask(pc.match_substring_regex(words, _DATE))
        if dated.any():
            moments, dated = _dates(words, dated)
    apart = words.nbytes == coded.dictionary.nbytes  # nothing was trimmed
    return Texts(words, apart, gap, numeric, numbers, dated, moments, places)


def quick_numbers(column: Column, codes: bool = True) -> tuple[Array, Array] | None:
    """(float64, gap) of texts that are all numbers as a program writes them; None: each is to be looked at.

    codes: texts such as 007 are no numbers.
    """
    values = _cast_or_none(column)
    # Words for gaps among numbers are common, and soon taken out. A cast takes some of them for NaN.
    if values is None or pc.any(pc.is_nan(values)).as_py():
        known = pc.is_in(column, value_set=pa.array([*GAP_WORDS, ""], pa.large_string()))
        if not pc.any(known).as_py():
            return None
        column = pc.if_else(known, pa.scalar(None, column.type), column)
        values = _cast_or_none(column)
        if values is not None and pc.any(pc.is_nan(values)).as_py():
            return None
    if values is None or (codes and _may_be_codes(column)):
        return None
    numbers, gap = floats(values)
    return (numbers, gap) if np.isfinite(numbers).all() else None


def _cast_or_none(column: Column) -> Column | None:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def number_key(value: float) -> str:
    """A number as a category is called: 3 for 3.0."""
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)


def category_keys(column: Column) -> tuple[Column, Array]:
    """(distinct keys, the key of every row and -1 for a gap) of a column of any kind but vectors."""
    kind = kind_of(column.type)
    if kind is None:
        return pa.array([], pa.large_string()), np.full(len(column), -1)
    if kind == "text":
        texts = read_texts(column, dates=False)
        keys = texts.words
        if texts.numeric.any():
            named = keys.to_pylist()
            for place in np.flatnonzero(texts.numeric):
                named[place] = number_key(float(texts.numbers[place]))
            keys = pa.array(named, pa.large_string())
        return _merged(keys, texts.gap, texts.places)
    if kind == "boolean":
        column = column.cast(pa.uint8())
        names = pa.array(["false", "true"], pa.large_string())
        return names, np.where(nulls(column), -1, column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    coded = column.dictionary_encode()
    places = (coded.indices.fill_null(-1) if coded.indices.null_count else coded.indices).to_numpy(zero_copy_only=False)
    words = coded.dictionary
    if kind == "number" and not pa.types.is_integer(words.type):  # times and durations too: seconds, as when fitted
        values, gap = floats(words)
        return _merged(pa.array([number_key(float(value)) for value in values], pa.large_string()), gap, places)
    return words.cast(pa.large_string()), places


def truths(column: Column) -> tuple[Array, Array, Array]:
    """(float64 0 or 1, gap, readable) of booleans, of 0 and 1, of words for yes and no."""
    kind = kind_of(column.type)
    if kind is None:
        return np.zeros(len(column)), np.ones(len(column), bool), np.ones(len(column), bool)
    if kind == "text":
        texts = read_texts(column, dates=False)
        lower = pc.utf8_lower(texts.words)
        yes = _mask(pc.is_in(lower, value_set=pa.array([*TRUE_WORDS], pa.large_string())))
        no = _mask(pc.is_in(lower, value_set=pa.array([*FALSE_WORDS], pa.large_string())))
        yes |= texts.numeric & (texts.numbers == 1)
        no |= texts.numeric & (texts.numbers == 0)
        gap = _of_rows(texts.gap, texts.places, missing=True)
        true = _of_rows(yes, texts.places, missing=False)
        return true.astype(np.float64), gap, true | gap | _of_rows(no, texts.places, missing=False)
    if kind in ("boolean", "number"):
        values, gap = floats(column)
        return np.where(gap, 0, values), gap, gap | (values == 0) | (values == 1)
    return np.zeros(len(column)), nulls(column), nulls(column)


def _of_rows(mask: Array, places: Array, missing: bool) -> Array:
    """What holds for the words of rows; a row without a word has `missing`."""
    return np.append(mask, missing)[places]


def numbers_or_texts(column: Column) -> tuple[Array, Array, Array]:
    """(float64, gap, readable) of a column read as numbers, whatever it is."""
    kind = kind_of(column.type)
    if kind is None:
        return np.zeros(len(column)), np.ones(len(column), bool), np.ones(len(column), bool)
    if kind == "text":
        if (quick := quick_numbers(column, codes=False)) is not None:  # a code that is asked for as a number is one
            return *quick, np.ones(len(column), bool)
        texts = read_texts(column, dates=False)
        # A code that was asked for as a number is one: 007 is 7.
        loose = ~texts.numeric & ~texts.gap & _mask(pc.match_substring_regex(texts.words, r"^[-+]?[0-9]+$"))
        values = np.where(loose, _parsed(texts.words, loose, _as_numbers, np.float64), texts.numbers)
        gap = _of_rows(texts.gap, texts.places, missing=True)
        readable = gap | _of_rows((texts.numeric | loose) & np.isfinite(values), texts.places, missing=True)
        return np.append(values, 0.0)[texts.places], gap, readable
    if kind in ("number", "boolean"):
        values, gap = floats(column)
        return values, gap, np.isfinite(values)
    return np.zeros(len(column)), nulls(column), nulls(column)


def dates_or_texts(column: Column) -> tuple[Array, Array, Array]:
    """(int64 microseconds, gap, readable) of a column read as dates."""
    kind = kind_of(column.type)
    if kind is None:
        return np.zeros(len(column), np.int64), np.ones(len(column), bool), np.ones(len(column), bool)
    if kind == "text":
        texts = read_texts(column)
        gap = _of_rows(texts.gap, texts.places, missing=True)
        return (
            np.append(texts.dates, 0)[texts.places],
            gap,
            gap | _of_rows(texts.dated, texts.places, missing=True),
        )
    if kind == "date":
        values, gap = microseconds(column)
        return values, gap, gap | in_calendar(values)
    return np.zeros(len(column), np.int64), nulls(column), nulls(column)


def _merged(keys: Column, gap: Array, places: Array) -> tuple[Column, Array]:
    """Keys that are equal made one, those of gaps taken out."""
    coded = keys.dictionary_encode()
    new = np.where(gap, -1, coded.indices.to_numpy(zero_copy_only=False))
    used = np.unique(new[new >= 0])
    numbers = np.full(len(coded.dictionary) + 1, -1)
    numbers[used] = np.arange(len(used))
    return coded.dictionary.take(pa.array(used)), np.append(numbers[new], -1)[places]


def _mask(found: Column) -> Array:
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _parsed(words: Column, which: Array, parse: Any, dtype: Any) -> Array:
    values = np.zeros(len(words), dtype)
    if which.any():
        values[which] = parse(words.filter(pa.array(which)))
    return values


def _as_numbers(words: Column) -> Array:
    return np.asarray(pc.replace_substring_regex(words, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False))


def _dates(words: Column, dated: Array) -> tuple[Array, Array]:
    """(microseconds, those that are days of the calendar)."""
    zoned = dated & _mask(pc.match_substring_regex(words, r"T|:")) & _mask(pc.match_substring_regex(words, _ZONE))
    values, good = np.zeros(len(words), np.int64), dated.copy()
    for which, arrow in ((dated & ~zoned, pa.timestamp("us")), (zoned, pa.timestamp("us", "UTC"))):
        places = np.flatnonzero(which)
        if len(places) == 0:
            continue
        some = pc.replace_substring_regex(words.take(pa.array(places)), _FINER, r"\1")
        try:
            values[places] = some.cast(arrow).cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # one of them is no day: 2021-02-30
            for place, word in zip(places, some):
                try:
                    values[place] = word.cast(arrow).cast(pa.int64()).as_py()
                except pa.ArrowInvalid:
                    good[place] = False
    return values, good


def _may_be_codes(column: Column) -> bool:
    """Whether some texts begin with a zero before another digit, or are longer than a number that float64 holds."""
    if len(column) == 0 or column.buffers()[2] is None:
        return False
    offsets = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    data = np.frombuffer(column.buffers()[2], np.uint8)
    lengths = np.diff(offsets)
    starts = offsets[:-1][lengths > 1]
    if len(starts) == 0:
        return False
    first = data[starts]
    signed = (first == ord("-")) | (first == ord("+"))
    starts = starts + signed
    second = data[np.minimum(starts + 1, len(data) - 1)]
    zero = (data[np.minimum(starts, len(data) - 1)] == ord("0")) & (second >= ord("0")) & (second <= ord("9"))
    within = starts + 1 < offsets[1:][lengths > 1]
    if (zero & within).any():
        return True
    return _has_long_number(data, starts, offsets[1:][lengths > 1])


def _has_long_number(data: Array, starts: Array, stops: Array) -> bool:
    """Whether a text begins with 16 digits. Fractions are out at their point; a regular expression would read all."""
    for place in range(16):
        there = starts + place < stops
        starts, stops = starts[there], stops[there]
        digit = data[starts + place] - np.uint8(ord("0")) < 10
        starts, stops = starts[digit], stops[digit]
        if len(starts) == 0:
            return False
    return True
