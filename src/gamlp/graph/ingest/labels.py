"""A column of labels, one or many a node → class numbers; class names sorted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import UNKNOWN, Labels
from gamlp.graph.ingest.columns import CheckedRows, Column, is_null, is_text, plain

MOST_CLASSES = 1 << 16
_INTEGER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")  # 3.0 is how a table with gaps often writes 3


class LabelColumn:
    """Gathers labels batch by batch. A list column, or text with a separator, gives many labels a node."""

    def __init__(self, name: str, separator: str | None = None) -> None:
        self.name = name
        self.multi_label = separator is not None
        self._separator = separator
        self._codes: dict[str, int] = {}  # in order of appearance
        self._parts: list[Array] = []  # codes: one a node, or those of all nodes one after the other
        self._counts: list[Array] = []  # many labels: number of codes a node, UNKNOWN where there is no list

    def read(self, rows: CheckedRows) -> Column:
        """Labels of a batch as text (lists of text), null where unknown."""
        column = rows.column(self.name)
        if self._separator is not None and is_text(column):
            column = pc.split_pattern(column, self._separator)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            if self._parts and not self.multi_label:
                raise GamlpError(
                    "labels are lists here and single values before", file=rows.batch.file, column=self.name
                )
            self.multi_label = True
            return column
        if self.multi_label and pa.types.is_null(column.type):
            return column.cast(pa.large_list(pa.large_string()))
        if self.multi_label:
            raise GamlpError(
                f"labels are {column.type}",
                file=rows.batch.file,
                column=self.name,
                hint="many labels a node are a list column",
            )
        return self._as_text(rows, column)

    def add(self, labels: Column) -> None:
        """Append labels that `read` gave."""
        if not self.multi_label:
            self._parts.append(self._encode(labels))
            return
        lengths = pc.list_value_length(labels).fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32)
        codes = self._encode(trimmed(labels.flatten()))
        self._counts.append(lengths)
        self._parts.append(codes)

    def labels(self, kept: Array | None, create: Callable[[tuple[int, int]], Array]) -> Labels | None:
        """Labels of the kept rows; None where no node has one. `create` makes the array for many labels."""
        codes = np.concatenate([np.zeros(0, np.int32), *self._parts])
        if self.multi_label:
            return self._many(codes, kept, create)
        codes = codes if kept is None else codes[kept]
        names, numbers = self._classes(np.unique(codes[codes >= 0]))
        return Labels(numbers[codes], names) if names else None

    def _many(self, codes: Array, kept: Array | None, create: Callable[[tuple[int, int]], Array]) -> Labels | None:
        counts = np.concatenate(self._counts)
        owners = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
        if kept is not None:
            place = np.cumsum(kept) - 1
            inside = kept[owners]
            owners, codes, counts = place[owners[inside]], codes[inside], counts[kept]
        owners, codes = owners[codes >= 0], codes[codes >= 0]
        names, numbers = self._classes(np.unique(codes))
        if not names:
            return None
        values = create((len(counts), len(names)))
        values[:] = 0
        values[counts < 0] = UNKNOWN
        values[owners, numbers[codes]] = 1
        return Labels(values, names)

    def _as_text(self, rows: CheckedRows, column: Column) -> Column:
        kind = column.type
        if pa.types.is_null(kind):
            return pa.nulls(len(column), pa.large_string())
        if pa.types.is_floating(kind):
            values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
            known = ~np.isnan(values)
            with np.errstate(invalid="ignore"):
                whole = ~known | ((values == np.floor(values)) & (np.abs(values) < 2**53))
            rows.refuse(
                "bad label",
                ~whole,
                self.name,
                lambda i: f"{values[i]:g} cannot name a class",
                "labels are integers or strings",
            )
            integers = np.where(known & whole, values, 0).astype(np.int64)
            return pa.array(integers, mask=~known).cast(pa.large_string())
        if not (is_text(column) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise GamlpError(
                f"labels are {kind}",
                file=rows.batch.file,
                column=self.name,
                hint="labels are integers, strings or lists",
            )
        text = column if is_text(column) else column.cast(pa.large_string())
        return pc.utf8_trim_whitespace(text)

    def _encode(self, text: Column) -> Array:
        coded = text.dictionary_encode()
        lookup = [self._code(value) for value in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(len(lookup)).to_numpy(zero_copy_only=False)
        codes: Array = np.asarray([*lookup, UNKNOWN], np.int32)[indices]
        return codes

    def _code(self, value: str | None) -> int:
        if not value:
            return UNKNOWN
        code = self._codes.setdefault(value, len(self._codes))
        if code >= MOST_CLASSES:
            raise too_many_classes(self.name)
        return code

    def _classes(self, used: Array) -> tuple[tuple[str, ...], Array]:
        """Names of the used codes, sorted, and the class number of every code (UNKNOWN at -1)."""
        return class_numbers(list(self._codes), used)


def class_numbers(texts: Sequence[str], used: Array) -> tuple[tuple[str, ...], Array]:
    """Names of the classes that the used labels `texts[used]` are, sorted, and the class of every label; last: -1."""
    spelled = {int(code): texts[code] for code in used}
    integers = {code: _INTEGER.fullmatch(text) for code, text in spelled.items()}
    if all(integers.values()):
        spelled = {code: str(int(match[1])) for code, match in integers.items() if match}
        names = tuple(sorted(set(spelled.values()), key=int))
    else:
        names = tuple(sorted(set(spelled.values())))
    position = {name: number for number, name in enumerate(names)}
    numbers = np.full(len(texts) + 1, UNKNOWN, np.int32)
    for code, name in spelled.items():
        numbers[code] = position[name]
    return names, numbers


def trimmed(labels: Column) -> Column:
    """Labels out of lists, of whatever type, as text."""
    return pc.utf8_trim_whitespace(plain(labels).cast(pa.large_string()))


def too_many_classes(column: str) -> GamlpError:
    """What is said of a column with more labels than could be classes."""
    return GamlpError(f"more than {MOST_CLASSES} different labels", column=column, hint="is it the column of classes?")


def split_roles(rows: CheckedRows, name: str) -> Array:
    """Roles of a batch from a split column: train, valid or val, test, empty."""
    column = rows.column(name)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int8)
    if not is_text(column):
        raise GamlpError(
            f"holds {column.type}",
            file=rows.batch.file,
            column=name,
            hint="a split is train, valid, test or empty",
        )
    text: Column = pc.utf8_trim_whitespace(column)
    coded: Column = text.dictionary_encode()
    known = {"": 0, "train": 1, "valid": 2, "val": 2, "test": 3}
    roles = np.asarray([*(known.get(value, -1) for value in coded.dictionary.to_pylist()), 0], np.int8)
    found = roles[coded.indices.fill_null(len(roles) - 1).to_numpy(zero_copy_only=False)]
    rows.refuse(
        "unknown split",
        (found < 0) & ~is_null(column),
        name,
        lambda i: f"'{text[i].as_py()}' is not a part of a split",
        "write train, valid, test or nothing",
    )
    return np.asarray(np.maximum(found, 0))
