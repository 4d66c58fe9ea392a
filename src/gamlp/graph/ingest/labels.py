"""A column of labels, one or many a node → class numbers; class names sorted. What cannot be meant is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.class_types import class_type_of
from gamlp.graph.features.encoders import GAP_WORDS
from gamlp.graph.graph import UNKNOWN, Labels
from gamlp.graph.ingest.columns import CheckedRows, Column, is_null, is_text, plain

MOST_CLASSES = 1 << 16
UNKNOWN_LABELS = GAP_WORDS  # a label that is missing is written as any other value is; an empty text is always unknown
_INTEGER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")  # 3.0 is how a table with gaps often writes 3
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_FEW_CLASSES = 20  # so many raise no doubt, however few rows there are
_SEPARATORS = "|;,/"


class LabelColumn:
    """Gathers labels batch by batch. A list column, or text with a separator, gives many labels a node.

    `unknown`: texts that say that the label is not known. `not_known` counts them, and '' what is missing.
    """

    def __init__(self, name: str, separator: str | None = None, unknown: Iterable[str] = UNKNOWN_LABELS) -> None:
        self.name = name
        self.multi_label = separator is not None
        self.not_known: Counter[str] = Counter()
        self.texts = False  # whether a typed table holds labels as texts: then texts they stay, whatever they spell
        self._separator = separator
        self._unknown = frozenset(_spelled(text) for text in unknown) | {""}
        self._codes: dict[str, int] = {}  # in order of appearance
        self._parts: list[Array] = []  # codes: one a node, or those of all nodes one after the other
        self._counts: list[Array] = []  # many labels: number of codes a node, UNKNOWN where there is no list

    def read(self, rows: CheckedRows, typed: bool = False) -> Column:
        """Labels of a batch as text (lists of text), null where unknown. `typed`: columns of the table have types."""
        column = rows.column(self.name)
        self.texts = self.texts or (typed and _holds_text(column.type))
        if self._separator is not None and is_text(column):
            column = pc.split_pattern(self.known(column), self._separator)
        elif _is_list(column):
            self._count_missing(is_null(column))
        if _is_list(column):
            if self._parts and not self.multi_label:
                raise GamlpError(
                    "labels are lists here and single values before", file=rows.batch.file, column=self.name
                )
            self.multi_label = True
            kind = column.type.value_type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                raise GamlpError(
                    f"labels are lists of {kind}",
                    file=rows.batch.file,
                    column=self.name,
                    hint="labels are integers, strings or lists of them",
                )
            return column
        if self.multi_label and pa.types.is_null(column.type):
            self._count_missing(is_null(column))
            return column.cast(pa.large_list(pa.large_string()))
        if self.multi_label:
            raise GamlpError(
                f"labels are {column.type}",
                file=rows.batch.file,
                column=self.name,
                hint="many labels a node are a list column",
            )
        return self.known(self._as_text(rows, column))

    def known(self, texts: Column, empty: bool = True) -> Column:
        """Texts, trimmed, and null for those that say that the label is not known; `empty`: missing ones count too."""
        coded: Column = pc.utf8_trim_whitespace(texts).dictionary_encode()
        values = coded.dictionary.to_pylist()
        absent = np.asarray([_spelled(value) in self._unknown for value in values] + [True], bool)
        places = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        if not (missing := absent[places]).any():
            return coded.dictionary_decode()
        counts = np.bincount(places[missing], minlength=len(absent))
        for place in np.flatnonzero(counts):
            text = values[place] if place < len(values) else ""
            if text or empty:
                self.not_known[text] += int(counts[place])
        return coded.dictionary.take(pa.array(places, mask=missing))

    def elements(self, labels: Column) -> Column:
        """The labels of all lists one after the other, as text, null where an element is none."""
        return self.known(plain(labels.flatten()).cast(pa.large_string()), empty=False)

    def _count_missing(self, missing: Array) -> None:
        if count := int(np.count_nonzero(missing)):
            self.not_known[""] += count

    def add(self, labels: Column) -> None:
        """Append labels that `read` gave."""
        if not self.multi_label:
            self._parts.append(self._encode(labels))
            return
        lengths = pc.list_value_length(labels).fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32)
        codes = self._encode(self.elements(labels))
        self._counts.append(lengths)
        self._parts.append(codes)

    def labels(self, kept: Array | None, create: Callable[[tuple[int, int]], Array]) -> Labels | None:
        """Labels of the kept rows; None where no node has one. `create` makes the array for many labels."""
        codes = np.concatenate([np.zeros(0, np.int32), *self._parts])
        if self.multi_label:
            return self._many(codes, kept, create)
        codes = codes if kept is None else codes[kept]
        names, numbers = self._classes(np.unique(codes[codes >= 0]))
        return Labels(numbers[codes], names, class_type_of(names, self.texts)) if names else None

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
        return Labels(values, names, class_type_of(names, self.texts))

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
                "labels are integers or strings; make classes of a quantity, or leave it out: --label ''",
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
        return column if is_text(column) else column.cast(pa.large_string())

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


def _spelled(text: str) -> str:
    """A label as it is compared: 3.0 is 3."""
    match = _INTEGER.fullmatch(text)
    return text if match is None else match[1]


def _holds_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts, or lists of them."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_list(column: Column) -> bool:
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def unknown_labels(counts: Mapping[str, int], column: str) -> str | None:
    """What is said of texts that were taken for an unknown label; None where there were none but empty ones."""
    told = [f"{count} '{text}'" for text, count in sorted(counts.items()) if text]
    if not told:
        return None
    return f"column '{column}': labels {', '.join(told)} are taken for unknown"


def check_classes(classes: Sequence[str], labelled: int, **place: Any) -> list[str]:
    """Refuse a quantity in place of classes; what else looks wrong with the classes of one label a node is returned.

    `place`: the file and column that are named.
    """
    column = place["column"]
    found: list[str] = []
    fractions = [name for name in classes if _NUMBER.fullmatch(name) and not _INTEGER.fullmatch(name)]
    if len(fractions) > max(_FEW_CLASSES, len(classes) // 2) and 10 * len(classes) > labelled:
        raise GamlpError(
            f"{len(classes)} different numbers such as {fractions[0]} on {labelled} nodes are a quantity, not classes",
            hint="make classes of it, such as low and high, or leave it out: --label ''",
            **place,
        )
    if len(classes) > _FEW_CLASSES and 2 * len(classes) > labelled:
        found.append(f"{len(classes)} classes for {labelled} labelled nodes: is '{column}' the column of classes?")
    found += [sentence for mark in _SEPARATORS if (sentence := _joined_labels(classes, mark, column))]
    return found


def _joined_labels(classes: Sequence[str], mark: str, column: str) -> str | None:
    """A sentence where labels look like several in one text: their parts are labels too, or come back in others."""
    joined = {name: [part.strip() for part in name.split(mark)] for name in classes if mark in name}
    uses = Counter(part for parts in joined.values() for part in set(parts))
    alone = set(classes)
    clear = [
        name for name, parts in joined.items() if all(part and (part in alone or uses[part] > 1) for part in parts)
    ]
    if not clear or 2 * len(clear) < len(joined):
        return None
    return (
        f"column '{column}': {len(joined)} of {len(classes)} classes hold '{mark}', such as '{clear[0]}', and each is"
        f" one class; if they are several labels, say gamlp ingest --many-labels '{mark}'"
    )


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
