"""What columns of features are called and hold, as data; features of another table are put into their order by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from gamlp.arrays import Array

_MOST_NAMES = 5  # that a sentence lists


# Untouched numbers and lists of them, of graphs without states; and the types of encoders that give features.
ColumnType = Literal[
    "number", "list", "standard", "robust", "quantile", "as-is", "boolean", "category", "date", "vector", "vector-l2",
    "text",
]  # fmt: skip
_STATELESS = ("number", "list", "as-is", "vector")


class FeatureColumn(BaseModel):
    """One column of a node table and the `width` features it became.

    type: a word of `graph.features.encoders`, with the state that makes its features as plain data and the Arrow type
    of the table; without a state a `number` or a `list` of `width` numbers, untouched.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    type: ColumnType = "number"
    width: PositiveInt = 1
    source: str | None = None
    state: dict[str, Any] | None = None
    asked: str | None = None  # the type that somebody named; None: it was found out

    @model_validator(mode="after")
    def _can_be_applied(self) -> FeatureColumn:
        if self.state is None and self.type not in _STATELESS:
            raise ValueError(f"column '{self.name}' of type {self.type} has no state")
        return self

    @model_serializer(mode="wrap")
    def _without_nothing(self, inner: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A column without a state is written as it was before there were any."""
        return {key: value for key, value in inner(self).items() if value is not None}

    def __str__(self) -> str:
        if self.type == "list":
            return f"a list of {self.width} numbers"
        return "a number" if self.type == "number" else f"a column of type {self.type}"


FeatureSchema = tuple[FeatureColumn, ...]  # side by side, in the order of the features


def total_width(columns: Iterable[FeatureColumn]) -> int:
    """Features that the columns hold together."""
    return sum(column.width for column in columns)


def repeated_name(columns: Iterable[FeatureColumn]) -> str | None:
    """A name that two columns have, where there is one."""
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            return column.name
        seen.add(column.name)
    return None


@dataclass(frozen=True)
class MatchedColumns:
    """How columns that are found serve those that are wanted.

    order: for every wanted feature the place of the found one; None: they are the same, side by side.
    missing: wanted columns that are not there. ignored: columns that nobody wants.
    changed: (wanted, found) columns of one name that hold different things.
    """

    order: Array | None
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
    changed: tuple[tuple[FeatureColumn, FeatureColumn], ...]


def match_columns(found: FeatureSchema, wanted: FeatureSchema) -> MatchedColumns:
    """By name, whatever their order.

    >>> age, income = FeatureColumn(name="age"), FeatureColumn(name="income")
    >>> match_columns((income, age), (age, income)).order.tolist()
    [1, 0]
    >>> match_columns((age,), (age, income)).missing
    ('income',)
    """
    places: dict[str, tuple[int, FeatureColumn]] = {}
    at = 0
    for column in found:
        places[column.name] = at, column
        at += column.width
    missing = tuple(column.name for column in wanted if column.name not in places)
    there = [(column, *places[column.name]) for column in wanted if column.name in places]
    changed = tuple((column, other) for column, _, other in there if column != other)
    names = {column.name for column in wanted}
    ignored = tuple(column.name for column in found if column.name not in names)
    order: Array | None = None
    if found != wanted and not missing and not changed:
        order = np.concatenate([np.zeros(0, np.int64), *(np.arange(at, at + one.width) for one, at, _ in there)])
    return MatchedColumns(order, missing, ignored, changed)


def name_some(names: Sequence[str]) -> str:
    """Names as a sentence tells them: all of a few, the first of many.

    >>> name_some(["a", "b"]), name_some(list("abcdefg"))
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    shown = ", ".join(f"'{name}'" for name in names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


class MadeRows:
    """What looks like an array `[rows, columns]`, whose rows are made as they are read."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def __getitem__(self, key: Any) -> Array:
        raise NotImplementedError

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return 2

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)


class EncodedAgain(MadeRows):
    """Features that are encoded from raw columns as they are read."""


class PickedColumns(MadeRows):
    """Some columns of an array `[rows, columns]`, in any order: picked as rows are read, so that nothing is copied."""

    def __init__(self, values: Any, order: Array) -> None:
        self.values, self.order = values, order
        self.shape = len(values), len(order)
        self.dtype = np.dtype(values.dtype)

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        # `take` lays columns side by side, as kernels read them; an index would not.
        return np.take(np.asarray(self.values[rows]), self.order[columns], axis=-1)
