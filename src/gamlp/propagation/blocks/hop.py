"""Columns that go through the hops together, block by block on shared storage: Z^(k+1) = step ∘ (Ã Z^(k)).

A task computes one block of one hop: it pulls the rows of the hop before that its neighbours need, multiplies with
the kernel, and puts its block back. It may be run twice, or anew after a crash: the same bytes appear, whole.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io import Place, npy_buffer, npy_size, open_rows, put_rows
from gamlp.kernel import NUMPY_DTYPES, scale
from gamlp.propagation.blocks.hubs import Hub, whole_sum
from gamlp.propagation.blocks.needs import Needs
from gamlp.propagation.blocks.parcels import Parcels
from gamlp.propagation.blocks.sums import BlockHop, let_go
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.first_values import First
from gamlp.propagation.local.hops import column_scales, half_floors
from gamlp.propagation.operator import Factors, Operator, factors_of

_STEP = 1 << 14  # rows that enter at a time
TOP = ""  # beside names of columns: the largest factor that a row enters with


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
    top: float = 1.0  # float16, weighted: the largest factor that a row enters with
    token: str = field(default_factory=lambda: uuid.uuid4().hex)  # of this driver's run: states do not change in it

    @property
    def depth(self) -> int:
        return self.columns[0].hops

    def with_hop(self, k: int) -> tuple[Columns, ...]:
        return tuple(columns for columns in self.columns if columns.hops >= k)

    def width(self, k: int) -> int:
        """Columns of the state at hop k."""
        last = self.with_hop(k)[-1]
        return last.at + last.padded

    def state(self, k: int, index: int) -> Place:
        return self.folder / f"hop{k}" / f"{index:05d}.npy"

    def kept(self, columns: Columns, k: int, index: int) -> Place:
        return self.folder / columns.name / f"hop{k}" / f"{index:05d}.npy"

    def only(self, k: int) -> Place | None:
        """At the last hop only kept rows are computed, where all columns keep the same ones."""
        rows = {columns.rows for columns in self.with_hop(k)}
        return rows.pop() if k == self.depth and k > 0 and len(rows) == 1 else None

    def parcels(self, k: int) -> Parcels | None:
        """What blocks send to each other of hop k, for the next one; None: rows are read from states alone."""
        if k >= self.depth or not self.needs.parcels:
            return None
        shares = None
        if self.only(k + 1) is not None:
            blocks = self.needs.blocks
            share = np.diff(self.with_hop(k + 1)[0].kept) / np.maximum(1, np.diff(blocks.bounds))
            shares = tuple(float(share[blocks.block_of(reader)]) for reader in range(blocks.readers))
        return Parcels(self.needs, self.folder / f"hop{k}" / "parcels", self.width(k + 1), self.dtype, shares)

    def _send(self, k: int, index: int, values: Array) -> int:
        """Before the state is put: where that is, its parcels are."""
        parcels = self.parcels(k)
        return 0 if parcels is None else parcels.write(index, values)

    def outputs(self, k: int) -> list[list[tuple[Place, int]]]:
        """For every block, the files that hop k leaves, with their bytes."""
        return [self._outputs_of(k, index) for index in range(len(self.needs.blocks))]

    def _outputs_of(self, k: int, index: int) -> list[tuple[Place, int]]:
        begin, end = self.needs.blocks.bounds[index : index + 2]
        dtype, files = NUMPY_DTYPES[self.dtype], []
        if self.only(k) is None:
            files.append((self.state(k, index), npy_size((end - begin, self.width(k)), dtype)))
        for columns in self.with_hop(k) if k else ():
            if columns.rows is not None:
                shape = (columns.kept[index + 1] - columns.kept[index], columns.padded)
                files.append((self.kept(columns, k, index), npy_size(shape, dtype)))
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
        """One task, for float16: the largest |Z^(0)| of every column in this block, and its largest factor."""
        begin, end = self.needs.blocks.bounds[index : index + 2]
        weighted = self.needs.blocks.weighted
        found: dict[str, Any] = {}
        enter = self._factors(slice(begin, end)).enter
        found[TOP] = float(enter.max(initial=0)) if weighted and enter is not None else 1.0
        for columns in self.columns:
            peak = np.zeros(columns.width, np.float32)
            for at in range(begin, end, _STEP):
                rows = slice(at, min(at + _STEP, end))
                values = columns.first.read(rows, slice(*columns.source))
                if weighted and enter is not None:
                    values = values * enter[at - begin : rows.stop - begin, None]
                np.maximum(peak, np.maximum(values.max(0), -values.min(0)), out=peak)
            found[columns.name] = [float(value) for value in peak]
        return found

    def enter(self, index: int) -> dict[str, Any]:
        """One task: Z^(0) = enter ∘ X^(0) of a block."""
        let_go()
        begin, end = self.needs.blocks.bounds[index : index + 2]
        whole, state = npy_buffer((end - begin, self.width(0)), NUMPY_DTYPES[self.dtype])
        lost = 0
        for at in range(begin, end, _STEP):
            rows = slice(at, min(at + _STEP, end))
            into = state[at - begin : rows.stop - begin]
            factors = self._factors(rows).enter
            for columns in self.columns:
                values = columns.first.read(rows, slice(*columns.source))
                up = None if (down := self.down(columns)) is None else 1.0 / down
                place = into[:, columns.at : columns.at + columns.width]
                lost += scale(
                    values, "float32", place, self.dtype, row_factors=factors, column_factors=up,
                    row_floors=self._row_floors(factors),
                )  # fmt: skip
                into[:, columns.at + columns.width : columns.at + columns.padded] = 0
        refuse_lost(lost, "first values", self.dtype)
        sent = self._send(0, index, state)
        self.state(0, index).put(whole)
        return {"bytes": len(whole) + sent}

    def down(self, columns: Columns) -> Array | None:
        """What a float16 state is multiplied with on its way out; None for other types."""
        return np.asarray(self.scales[columns.name], np.float32) if columns.name in self.scales else None

    def column_floors(self, columns: Columns) -> Array | None:
        """What stored values of float16 columns may be rounded to zero below; None: no value above can be."""
        return None if (down := self.down(columns)) is None else half_floors(down, self.top)

    def _row_floors(self, enter: Array | None) -> Array | None:
        return None if self.dtype != "float16" or enter is None else half_floors(enter, self.top)

    def hop(self, k: int, index: int) -> dict[str, Any]:
        """One task: block `index` of hop k; one that is there already, by a task that died later, is left."""
        if all(place.size() == size for place, size in self._outputs_of(k, index)):
            return {"read": 0, "written": 0}
        begin, end = self.needs.blocks.bounds[index : index + 2]
        rows, only = np.arange(end - begin), self.only(k)
        if only is not None:
            columns = self.with_hop(k)[0]
            rows = np.asarray(open_rows(only)[columns.kept[index] : columns.kept[index + 1]]) - begin
        whole, dst = npy_buffer((len(rows), self.width(k)), NUMPY_DTYPES[self.dtype])
        factors = self._factors(slice(begin, end))
        floors, hub = self._row_floors(factors.enter), self.needs.blocks.hub_of(index)
        if hub is not None:
            lost, read = self._hub(k, hub, factors.step, floors, dst) if len(rows) else (0, 0)
        else:
            sums = BlockHop(
                self.needs, index, rows, factors.step, self.operator.loops, self.memory, floors, self.parcels(k - 1),
                f"{self.token}-{k}",
            )  # fmt: skip
            lost, read = sums.run(lambda block: self.state(k - 1, block), dst, self.dtype)
            refuse_lost(lost, f"hop {k}", self.dtype)
        written = self._send(k, index, dst)
        for columns in self.with_hop(k):
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

    def hub_part(self, k: int, part: int) -> Place:
        return self.folder / f"hop{k}" / "hubs" / f"{part:05d}.npy"

    def missing_hubs(self, k: int) -> list[int]:
        """Parts of hubs that hop k still needs."""
        wanted = {index for index in self.missing(k) if self._computes(k, index)}
        there = _parent(self.hub_part(k, 0)).sizes() if wanted else {}
        parts = enumerate(self.needs.blocks.parts)
        return [at for at, (hub, _) in parts if hub.block in wanted and self.hub_part(k, at).name not in there]

    def _computes(self, k: int, index: int) -> bool:
        """Whether hop k computes rows of a block: the last one may not."""
        kept = self.with_hop(k)[0].kept
        return self.only(k) is None or kept[index] < kept[index + 1]

    def hub_sums(self, k: int, at: int) -> dict[str, Any]:
        """One task: a part of a hub at hop k."""
        hub, part = self.needs.blocks.parts[at]
        reader = len(self.needs.blocks) + at
        loop = int(self.needs.read("loop", reader)[0])
        one = np.ones(1, np.float32)
        sums = BlockHop(
            self.needs, reader, np.arange(1), one, self.operator.loops, self.memory, None, self.parcels(k - 1)
        )
        units, read = sums.hub_sums(
            hub, part, loop, lambda block: self.state(k - 1, block), self.width(k), self.dtype
        )  # fmt: skip
        put_rows(self.hub_part(k, at), units)
        return {"read": read, "written": units.nbytes}

    def _hub(self, k: int, hub: Hub, step: Array, floors: Array | None, dst: Array) -> tuple[int, int]:
        """A hub's row from the sums of its parts: how many values it could not hold, and the bytes that were pulled."""
        parts = [at for at, (each, _) in enumerate(self.needs.blocks.parts) if each == hub]
        units = np.concatenate([np.asarray(open_rows(self.hub_part(k, at))) for at in parts])
        lost = scale(whole_sum(units), "float32", dst, self.dtype, row_factors=step, row_floors=floors)
        return lost, units.nbytes

    def _factors(self, rows: slice) -> Factors:
        of_rows, of_columns = self.needs.sums()
        return factors_of(of_rows[rows], of_columns[rows], self.operator, directed=self.needs.blocks.directed)


def _parent(place: Place) -> Place:
    return Place(place.url.rsplit("/", 1)[0])


def scales_of(peaks: list[list[float]]) -> tuple[float, ...]:
    """float16: the power of two that every column leaves with, from the largest values of all blocks."""
    return tuple(float(value) for value in column_scales(np.max(np.asarray(peaks, np.float32), axis=0)))
