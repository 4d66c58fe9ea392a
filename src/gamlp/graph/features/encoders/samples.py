"""Distinct values of a column and how often each occurs, up to a limit; beyond it, those whose hash is smallest.

What is kept depends on the values alone, not on their order nor on how rows are cut: a value whose hash is among the
smallest at the end was among them all the time, so that its count is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.graph.id_hash import hash_key, id_hashes

# Distinct values that are counted one by one. scikit-learn's QuantileTransformer looks at 10,000 rows; codes of a real
# table (schools, postal areas) are some thousands; and 16,384 are some hundred kilobytes on the way to Spark's driver.
MOST_DISTINCT = 1 << 14

_KEY = hash_key(0, "distinct values of a column")
Values = TypeVar("Values", Array, Any)


class Sample(ABC, Generic[Values]):
    """Distinct values with counts. `values` and `counts` are told by `settled`, in order of the values."""

    def __init__(self) -> None:
        self._parts: list[tuple[Values, Array]] = []
        self._held = 0
        self._limit: int | None = None  # hashes below it are kept; None: all are

    @property
    def whole(self) -> bool:
        """Whether every distinct value is there."""
        self._settle()
        return self._limit is None

    def add(self, values: Values, counts: Array) -> None:
        """Values that differ from one another, and how often each was seen."""
        if self._limit is not None and len(values):
            kept = self._hashes(values) < np.uint64(self._limit)
            values, counts = self._pick(values, np.flatnonzero(kept)), counts[kept]
        if len(values) == 0:
            return
        self._parts.append((values, counts))
        self._held += len(values)
        if self._held > 4 * MOST_DISTINCT:
            self._settle()

    def overflow(self) -> None:
        """Say that values are missing here."""
        if self._limit is None:
            self._limit = (1 << 64) - 1

    def merge(self, other: Sample[Values]) -> None:
        if other._limit is not None and (self._limit is None or other._limit < self._limit):
            self._lower(other._limit)
        for values, counts in other._parts:
            self.add(values, counts)

    def settled(self) -> tuple[Values, Array]:
        """(values ascending, counts int64)."""
        self._settle()
        return self._parts[0] if self._parts else (self._none(), np.zeros(0, np.int64))

    def distinct(self) -> int:
        """How many values differ: counted, or estimated from how densely the smallest hashes lie."""
        values, _ = self.settled()
        if self._limit is None:
            return len(values)
        return int((len(values)) / (self._limit / 2.0**64))

    def to_plain(self) -> dict[str, Any]:
        values, counts = self.settled()
        return {"values": self._as_list(values), "counts": counts.tolist(), "limit": self._limit}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Sample[Values]:
        sample = cls()
        if plain["values"]:
            sample._parts = [(sample._of_list(plain["values"]), np.asarray(plain["counts"], np.int64))]
        sample._held, sample._limit = len(plain["values"]), plain["limit"]
        return sample

    def _settle(self) -> None:
        if len(self._parts) > 1:
            self._parts = [self._joined(self._parts)]
        if self._parts and len(self._parts[0][0]) > MOST_DISTINCT:
            hashes = np.partition(self._hashes(self._parts[0][0]), MOST_DISTINCT)
            self._lower(int(hashes[MOST_DISTINCT]))
        self._held = sum(len(values) for values, _ in self._parts)

    def _lower(self, limit: int) -> None:
        self._limit = limit
        kept = [
            (values, counts, np.flatnonzero(self._hashes(values) < np.uint64(limit))) for values, counts in self._parts
        ]
        self._parts = [(self._pick(values, places), counts[places]) for values, counts, places in kept if len(places)]

    # What numbers and texts do in different ways.

    @abstractmethod
    def _none(self) -> Values: ...

    @abstractmethod
    def _hashes(self, values: Values) -> Array: ...

    @abstractmethod
    def _pick(self, values: Values, places: Array) -> Values: ...

    @abstractmethod
    def _joined(self, parts: list[tuple[Values, Array]]) -> tuple[Values, Array]: ...

    @abstractmethod
    def _as_list(self, values: Values) -> list[Any]: ...

    @abstractmethod
    def _of_list(self, values: list[Any]) -> Values: ...


class NumberSample(Sample[Array]):
    """Of finite float64 values; -0.0 is 0.0."""

    def add_rows(self, values: Array) -> None:
        """Values of rows, in any number."""
        if self._limit is not None:
            values = values[self._hashes(values) < np.uint64(self._limit)]
        distinct, counts = np.unique(values, return_counts=True)
        self.add(distinct, counts.astype(np.int64))

    def _none(self) -> Array:
        return np.zeros(0)

    def _hashes(self, values: Array) -> Array:
        """Of the bits of a float: the finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
        mixed = (values + 0.0).view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))

    def _pick(self, values: Array, places: Array) -> Array:
        return np.asarray(values[places])

    def _joined(self, parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        values, places = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, places, np.concatenate([part for _, part in parts]))
        return values, counts

    def _as_list(self, values: Array) -> list[Any]:
        return [float(value).hex() for value in values]

    def _of_list(self, values: list[Any]) -> Array:
        return np.asarray([float.fromhex(value) for value in values])


class TextSample(Sample[Any]):
    """Of texts: Arrow arrays of large strings without nulls."""

    def _none(self) -> Any:
        return pa.array([], pa.large_string())

    def _hashes(self, values: Any) -> Array:
        return id_hashes(values, _KEY)

    def _pick(self, values: Any, places: Array) -> Any:
        return values.take(pa.array(places))

    def _joined(self, parts: list[tuple[Any, Array]]) -> tuple[Any, Array]:
        coded = pa.concat_arrays([values for values, _ in parts]).dictionary_encode()
        counts = np.zeros(len(coded.dictionary), np.int64)
        np.add.at(counts, coded.indices.to_numpy(), np.concatenate([part for _, part in parts]))
        order = np.asarray(pa.compute.sort_indices(coded.dictionary).to_numpy())
        return coded.dictionary.take(pa.array(order)), counts[order]

    def _as_list(self, values: Any) -> list[Any]:
        return list(values.to_pylist())

    def _of_list(self, values: list[Any]) -> Any:
        return pa.array(values, pa.large_string())
