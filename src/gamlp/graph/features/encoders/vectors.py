"""Lists of numbers: untouched, or scaled to length 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.features.encoders.reading import Column, floats, kind_of, nulls, plain_values
from gamlp.graph.features.encoders.state import MOST_FEATURES, State, Unseen


@dataclass(frozen=True)
class FoundVectors:
    """The lists of some rows.

    width: of the shortest. ragged: they differ in length. gap: no list. readable: a list of numbers that float32 holds,
    or a gap. lengths: of every list. values: all numbers one after the other, zero where one is missing.
    """

    width: int
    ragged: bool
    gap: Array
    readable: Array
    lengths: Array
    values: Array

    def matrix(self) -> Array:
        """float64 `[rows, width]`, zeros for gaps; only of lists of one length."""
        if not self.gap.any():
            return self.values.reshape(len(self.gap), self.width)
        matrix = np.zeros((len(self.gap), self.width))
        matrix[~self.gap] = self.values.reshape(-1, self.width)
        return matrix

    def norms(self) -> Array:
        """float64 lengths of the vectors, of those that are no gaps; of none where they are ragged."""
        if self.ragged or self.width == 0:
            return np.zeros(0)
        return _norms(self.values.reshape(-1, self.width))


def read_vectors(column: Column) -> FoundVectors:
    """A column of lists of numbers."""
    kind = kind_of(column.type)
    gap = nulls(column)
    if kind != "vector":
        return FoundVectors(0, False, gap, gap, np.zeros(len(column), np.int64), np.zeros(0))
    lengths = np.asarray(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)
    if pa.types.is_fixed_size_list(column.type) and gap.any():
        column = column.filter(pa.array(~gap))  # a gap of a list of fixed length holds numbers too
    flat = plain_values(column.flatten())
    values, missing = floats(flat)
    wrong = missing | ~(np.abs(values) <= np.finfo(np.float32).max)
    readable = np.ones(len(gap), bool)
    if wrong.any():
        readable[np.repeat(np.arange(len(gap)), np.where(gap, 0, lengths))[wrong]] = False
        values = np.where(wrong, 0.0, values)
    held = lengths[~gap]
    width, widest = (int(held.min()), int(held.max())) if len(held) else (0, 0)
    return FoundVectors(width, width != widest, gap, readable, lengths, values)


class VectorState(State):
    """`width` numbers a row, untouched or divided by their length."""

    kind: Literal["vector"] = "vector"
    width: Annotated[int, Field(gt=0, le=MOST_FEATURES)]
    l2: bool = False

    def feature_names(self, name: str) -> list[str]:
        return [f"{name}[{place}]" for place in range(self.width)]

    def readable(self, column: Column) -> Array:
        found = read_vectors(column)
        return np.asarray(found.readable & (found.gap | (found.lengths == self.width)))

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        found = read_vectors(column)
        if not found.gap.all():
            if found.ragged or found.width != self.width:
                raise GamlpError(f"lists of {found.width} numbers where {self.width} are expected")
            matrix = found.matrix()
            if self.l2:
                sizes = _norms(matrix)[:, None]
                matrix = np.divide(matrix, sizes, out=np.zeros_like(matrix), where=sizes > 0)
            out[:] = matrix
        else:
            out[:] = 0
        return found.gap, Unseen()


def _norms(matrix: Array) -> Array:
    """Euclidean lengths of rows, also of those whose squares float64 does not hold."""
    largest = np.abs(matrix).max(1, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)[:, None]
    return np.asarray(np.sqrt(np.square(matrix / scale).sum(1)) * scale[:, 0])
