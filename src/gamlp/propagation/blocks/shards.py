"""Blocks of hops → the store's shards, one task a shard: the local engine's assembly over files on shared storage."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io import Place, RowShards, map_array
from gamlp.kernel import NUMPY_DTYPES
from gamlp.propagation.blocks.hop import BlockPass, Columns
from gamlp.propagation.operator import Operator, factors_of
from gamlp.propagation.passes import Piece
from gamlp.propagation.signals import Signal, SignalPart
from gamlp.propagation.store.shards import Assembly, Shard, ShardSource


@dataclass(frozen=True)
class StoredColumns:
    """Columns of a pass, the number of their part, and a file of where its rows lie among the signal's (or None)."""

    moved: BlockPass
    columns: Columns
    part: int
    positions: Place | None


@dataclass(frozen=True)
class _StoredSlab:
    """A hop of some columns, by position among the rows that are kept."""

    values: RowShards
    at: int
    padded: int

    def open(self) -> _StoredSlab:
        return self

    def rows(self, begin: int, end: int, nodes: Array | None) -> tuple[Array, Array | None]:
        return self.values[begin:end, self.at : self.at + self.padded], None

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Leave:
    """X = leave ∘ Z: the factors of the nodes that are asked for."""

    sums: RowShards
    operator: Operator

    def __getitem__(self, nodes: Any) -> Array:
        sums = self.sums[nodes]
        leave = factors_of(sums, sums, self.operator, directed=False).leave
        assert leave is not None
        return leave


@dataclass(frozen=True)
class ShardWriting:
    """One signal's shards; `write(i)` is a task."""

    name: str
    hops: int
    width: int
    operator: Operator
    dtype: str
    count: int  # rows
    columns: tuple[StoredColumns, ...]
    folder: Place

    def planned(self) -> list[Shard]:
        """The same shards as the local engine's."""
        return self._assembly(()).planned()

    def write(self, index: int) -> dict[str, Any]:
        """One task: shard i."""
        assembly = self._assembly(tuple(self._source(stored) for stored in self.columns))
        return asdict(assembly.write_shard(assembly.planned()[index]))

    def _assembly(self, sources: tuple[ShardSource, ...]) -> Assembly:
        rows = np.broadcast_to(np.int64(0), (self.count,))  # only its length is asked for
        signal = Signal(self.name, "", {}, self.hops, self.width, self.operator, self.dtype, rows, ())
        leave: Any = None
        if sources and self.operator.r > 0.0:
            leave = _Leave(self.columns[0].moved.needs.sums()[1], self.operator)
        return Assembly(signal, sources, leave, self.count, self.folder)

    def _source(self, stored: StoredColumns) -> ShardSource:
        columns, moved = stored.columns, stored.moved
        rows = None if columns.rows is None else map_array(columns.rows.local_copy())
        positions = None if stored.positions is None else map_array(stored.positions.local_copy())
        part = SignalPart(stored.part, columns.first, rows, positions)
        signal = Signal(self.name, "", {}, self.hops, self.width, self.operator, self.dtype, None, ())
        piece = Piece(signal, part, *columns.source, columns.at)
        slabs = {k: _slab(moved, columns, k) for k in range(1, self.hops + 1)}
        return ShardSource(piece, slabs, moved.down(columns), moved.column_floors(columns))


def _slab(moved: BlockPass, columns: Columns, k: int) -> _StoredSlab:
    indices, dtype = range(len(moved.needs.blocks)), NUMPY_DTYPES[moved.dtype]
    if columns.rows is None:
        places = [moved.state(k, index) for index in indices]
        shards = RowShards(places, moved.needs.blocks.bounds[1:], (moved.width(k),), dtype)
        return _StoredSlab(shards, columns.at, columns.padded)
    places = [moved.kept(columns, k, index) for index in indices]
    return _StoredSlab(RowShards(places, columns.kept[1:], (columns.padded,), dtype), 0, columns.padded)
