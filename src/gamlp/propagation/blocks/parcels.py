"""Rows that other blocks want of a block, put beside its state for each of them: one range is read in place of many.

Behind a URL a request costs as much as many rows (`gamlp.io.ranges.GAP`). Where a block wants few rows of another and
they lie anywhere, ranges would be nearly the whole file; a parcel is written once and read once. Which blocks send
parcels to which follows from the numbers of wanted rows alone: who sends and who reads need not ask each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gamlp.arrays import Array
from gamlp.io import Place, RowShards, put_rows
from gamlp.kernel import NUMPY_DTYPES
from gamlp.propagation.blocks.needs import Needs
from gamlp.propagation.blocks.sizing import parcels_pay

_FILE = 256 << 20  # bytes of a file of parcels: what a task holds of it on its disk


@dataclass(frozen=True)
class Parcel:
    """Rows of the parcels of a block, from `begin` on."""

    values: RowShards
    begin: int


@dataclass(frozen=True)
class Parcels:
    """Of one hop: rows of `width` columns.

    `shares[t]`: the part of reader t's rows that the next hop computes, and about the part of a parcel that it reads.
    """

    needs: Needs
    folder: Place
    width: int
    dtype: str
    shares: tuple[float, ...] | None = None

    @cached_property
    def _counts(self) -> Array:
        return np.asarray(self.needs.counts())

    @cached_property
    def _sent(self) -> Array:
        """The counts again, 0 where ranges cost less than a parcel that is written, and read with one request."""
        rows = np.diff(np.asarray(self.needs.blocks.bounds))
        used = None if self.shares is None else self._counts * np.asarray(self.shares)[:, None]
        dear = parcels_pay(self._counts, rows[None, :], self._row_bytes, used)
        np.fill_diagonal(dear, val=False)
        return np.where(dear, self._counts, 0)

    @property
    def _row_bytes(self) -> int:
        return self.width * int(np.dtype(NUMPY_DTYPES[self.dtype]).itemsize)

    def write(self, index: int, values: Array) -> int:
        """All that block `index` sends, one parcel after the other; returns the bytes."""
        sent = self._sent[:, index]
        if not sent.any():
            return 0
        wanted = np.asarray(self.needs.read("wanted", index))
        rows = wanted[np.repeat(sent > 0, self._counts[:, index])]
        begin = 0
        for place, end in zip(*self._files(index)):
            put_rows(place, _Picked(values[:, : self.width], rows[begin:end]))
            begin = end
        return len(rows) * self._row_bytes

    def parcel(self, source: int, target: int) -> Parcel | None:
        """What block `source` sends to reader `target`, in the order in which that one needs it; None: no parcel."""
        sent = self._sent[:, source]
        if not sent[target]:
            return None
        shards = RowShards(*self._files(source), (self.width,), NUMPY_DTYPES[self.dtype])
        return Parcel(shards, int(sent[:target].sum()))

    def _files(self, index: int) -> tuple[list[Place], list[int]]:
        """Files of equal size, however parcels lie in them."""
        total, step = int(self._sent[:, index].sum()), max(1, _FILE // max(1, self._row_bytes))
        stops = [*range(step, total, step), total]
        return [self.folder / f"{index:05d}-{number:03d}.npy" for number in range(len(stops))], stops


class _Picked:
    """Rows of a state that are picked when they are written, some at a time."""

    def __init__(self, values: Array, rows: Array) -> None:
        self.values, self.rows = values, rows
        self.shape, self.dtype = (len(rows), values.shape[1]), values.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> Array:
        return self.values[self.rows[part]]
