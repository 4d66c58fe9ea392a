"""Columns that go through the hops together, block by block on shared storage: Z^(k+1) = step ∘ (Ã Z^(k)).

A task computes one block of one hop: it pulls the rows of the hop before that its neighbours need, multiplies with
the kernel, and puts its block back. It may be run twice, or anew after a crash: the same bytes appear, whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.kernel import NUMPY, scale
from gamlp.propagation.block_hop import BlockHop
from gamlp.propagation.blocks import Needs
from gamlp.propagation.first import First
from gamlp.propagation.moving import column_scales
from gamlp.propagation.operator import Factors, Operator, factors_of
from gamlp.row_arrays import bytes_of, new_rows, open_rows, put_rows
from gamlp.storage import Place

Array = np.ndarray[Any, Any]
_STEP = 1 << 14  # rows that enter at a time


@dataclass(frozen=True)
class Columns:
    """Columns of one part of a signal, at `at..at + padded` of the state; `rows` is a file of the rows that are kept.

    `kept[i]` of them lie before block i; without `rows` all rows are kept, and the state itself is read back.
    """

    name: str
    first: First
    source: tuple[int, int]  # columns of the first values
    at: int
    padded: int
    hops: int
    rows: Place | None = None
    kept: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return self.source[1] - self.source[0]


@dataclass(frozen=True)
class BlockPass:
    """A pass as tasks know it: `columns` deepest first. `memory` bounds what a task holds beside its block."""

    needs: Needs
    operator: Operator
    dtype: str
    columns: tuple[Columns, ...]
    folder: Place
    memory: int
    scales: dict[str, tuple[float, ...]] = field(default_factory=dict)  # float16: what columns leave with

    @property
    def depth(self) -> int:
        return self.columns[0].hops

    def moving(self, k: int) -> tuple[Columns, ...]:
        return tuple(columns for columns in self.columns if columns.hops >= k)

    def width(self, k: int) -> int:
        """Columns of the state at hop k."""
        last = self.moving(k)[-1]
        return last.at + last.padded

    def state(self, k: int, index: int) -> Place:
        return self.folder / f"hop{k}" / f"{index:05d}.npy"

    def kept(self, columns: Columns, k: int, index: int) -> Place:
        return self.folder / columns.name / f"hop{k}" / f"{index:05d}.npy"

    def only(self, k: int) -> Place | None:
        """At the last hop only kept rows are computed, where all columns keep the same ones."""
        rows = {columns.rows for columns in self.moving(k)}
        return rows.pop() if k == self.depth and k > 0 and len(rows) == 1 else None

    def outputs(self, k: int) -> list[list[tuple[Place, int]]]:
        """For every block, the files that hop k leaves, with their bytes."""
        return [self._outputs_of(k, index) for index in range(len(self.needs.blocks))]

    def _outputs_of(self, k: int, index: int) -> list[tuple[Place, int]]:
        begin, end = self.needs.blocks.bounds[index : index + 2]
        dtype, files = NUMPY[self.dtype], []
        if self.only(k) is None:
            files.append((self.state(k, index), bytes_of((end - begin, self.width(k)), dtype)))
        for columns in self.moving(k) if k else ():
            if columns.rows is not None:
                shape = (columns.kept[index + 1] - columns.kept[index], columns.padded)
                files.append((self.kept(columns, k, index), bytes_of(shape, dtype)))
        return files

    def missing(self, k: int) -> list[int]:
        """Blocks of a hop that are not there, or not whole."""
        return self._lacking(self.outputs(k))

    def _lacking(self, wanted: list[list[tuple[Place, int]]]) -> list[int]:
        folders = {_parent(place): _parent(place).sizes() for place, _ in wanted[0]} if wanted else {}
        return [
            index
            for index, files in enumerate(wanted)
            if any(folders[_parent(place)].get(place.name) != size for place, size in files)
        ]

    def missing_kept(self, k: int) -> list[int]:
        """The same of what is kept of a hop, whether or not its state is still there."""
        states = {self.state(k, index) for index in range(len(self.needs.blocks))}
        return self._lacking([[file for file in files if file[0] not in states] for files in self.outputs(k)])

    def largest(self, index: int) -> dict[str, Any]:
        """One task, for float16: the largest |Z^(0)| of every column in this block."""
        begin, end = self.needs.blocks.bounds[index : index + 2]
        weighted, found = self.needs.blocks.weighted, {}
        for columns in self.columns:
            peak = np.zeros(columns.width, np.float32)
            for at in range(begin, end, _STEP):
                rows = slice(at, min(at + _STEP, end))
                values = columns.first.read(rows, slice(*columns.source))
                enter = self._factors(rows).enter
                if weighted and enter is not None:
                    values = values * enter[:, None]
                np.maximum(peak, np.maximum(values.max(0), -values.min(0)), out=peak)
            found[columns.name] = [float(value) for value in peak]
        return found

    def enter(self, index: int) -> dict[str, Any]:
        """One task: Z^(0) = enter ∘ X^(0) of a block."""
        begin, end = self.needs.blocks.bounds[index : index + 2]
        whole, state = new_rows((end - begin, self.width(0)), NUMPY[self.dtype])
        lost = 0
        for at in range(begin, end, _STEP):
            rows = slice(at, min(at + _STEP, end))
            into = state[at - begin : rows.stop - begin]
            factors = self._factors(rows).enter
            for columns in self.columns:
                values = columns.first.read(rows, slice(*columns.source))
                up = None if (down := self.down(columns)) is None else 1.0 / down
                place = into[:, columns.at : columns.at + columns.width]
                lost += scale(values, "float32", place, self.dtype, row_factors=factors, column_factors=up)
                into[:, columns.at + columns.width : columns.at + columns.padded] = 0
        _refuse_lost(lost, 0)
        self.state(0, index).put(whole)
        return {"bytes": len(whole)}

    def down(self, columns: Columns) -> Array | None:
        """What a float16 state is multiplied with on its way out; None for other types."""
        return np.asarray(self.scales[columns.name], np.float32) if columns.name in self.scales else None

    def hop(self, k: int, index: int) -> dict[str, Any]:
        """One task: block `index` of hop k; one that is there already, by a task that died later, is left."""
        if all(place.size() == size for place, size in self._outputs_of(k, index)):
            return {"read": 0, "written": 0}
        begin, end = self.needs.blocks.bounds[index : index + 2]
        rows, only = np.arange(end - begin), self.only(k)
        if only is not None:
            columns = self.moving(k)[0]
            rows = np.asarray(open_rows(only)[columns.kept[index] : columns.kept[index + 1]]) - begin
        whole, dst = new_rows((len(rows), self.width(k)), NUMPY[self.dtype])
        of_block = slice(begin, end)
        sums = BlockHop(self.needs, index, rows, self._factors(of_block).step, self.operator.loops, self.memory)
        lost, read = sums.run(lambda block: self.state(k - 1, block), dst, self.dtype)
        _refuse_lost(lost, k)
        written = 0
        for columns in self.moving(k):
            if columns.rows is not None:
                some = slice(None)
                if only is None:
                    kept = open_rows(columns.rows)[columns.kept[index] : columns.kept[index + 1]]
                    some = np.asarray(kept) - begin  # type: ignore[assignment]
                values = dst[some, columns.at : columns.at + columns.padded]
                put_rows(self.kept(columns, k, index), values)
                written += values.nbytes
        if only is None:
            self.state(k, index).put(whole)
            written += len(whole)
        return {"read": read, "written": written}

    def _factors(self, rows: slice) -> Factors:
        of_rows, of_columns = self.needs.sums()
        return factors_of(of_rows[rows], of_columns[rows], self.operator, directed=self.needs.blocks.directed)


def _parent(place: Place) -> Place:
    return Place(place.url.rsplit("/", 1)[0])


def _refuse_lost(lost: int, k: int) -> None:
    if lost:
        raise GamlpError(
            f"{lost} values at hop {k} are beyond what float16 holds", hint="use --dtype bfloat16 or float32"
        )


def scales_of(peaks: list[list[float]]) -> tuple[float, ...]:
    """float16: the power of two that every column leaves with, from the largest values of all blocks."""
    return tuple(float(value) for value in column_scales(np.max(np.asarray(peaks, np.float32), axis=0)))
