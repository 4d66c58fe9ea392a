"""The hops of one view in tasks: which rows every block needs, then pass by pass, then the store's shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from gamlp.graph.manifest import digest
from gamlp.propagation.block_first import FirstFiles, Run
from gamlp.propagation.block_pass import BlockPass, Columns, scales_of
from gamlp.propagation.block_shards import ShardWriting, StoredColumns
from gamlp.propagation.blocks import Blocks, Needs
from gamlp.propagation.passes import Pass, Piece
from gamlp.propagation.shards import Shard
from gamlp.propagation.signals import Signal
from gamlp.row_arrays import put_rows
from gamlp.storage import Place


class BlockTasks(Protocol):
    """A task for each number; with the `width` of a state, of blocks so small that some may share one."""

    def __call__(
        self, work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, width: int | None = None
    ) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class StoredHops:
    """All hops of a view's signals, in blocks."""

    columns: dict[str, list[StoredColumns]] = field(default_factory=dict)

    def write(self, signal: Signal, count: int, folder: Place, run: Run) -> list[Shard]:
        """The shards of one signal of `count` rows, one task each."""
        writing = ShardWriting(
            signal.name,
            signal.hops,
            signal.width,
            signal.operator,
            signal.dtype,
            count,
            tuple(self.columns[signal.name]),
            folder,
        )
        answers = run(writing.write, range(len(writing.planned())), f"write {signal.name}")
        return [Shard(**answer) for answer in answers]


@dataclass(frozen=True)
class ViewRun:
    """Blocks of a view, a folder for their states, and the bytes a task may hold."""

    blocks: Blocks
    folder: Place
    memory: int
    first: FirstFiles
    tasks: BlockTasks

    def run(self, passes: Sequence[Pass]) -> StoredHops:
        """All hops of all passes; goes on from what is whole."""
        needs, stored = self._find_needs(), StoredHops()
        for spec in passes:
            moved = self._move(spec, needs)
            for piece, columns in zip(spec.pieces, moved.columns):
                stored.columns.setdefault(piece.signal.name, []).append(
                    StoredColumns(moved, columns, piece.part.index, self._positions(piece))
                )
        return stored

    def _find_needs(self) -> Needs:
        needs = Needs(self.blocks, self.folder / "needs")
        self.tasks(needs.find, needs.missing(), "neighbours")
        if self.blocks.directed:
            self.tasks(needs.add_columns, needs.missing_columns(), "column sums")
        return needs

    def _move(self, spec: Pass, needs: Needs) -> BlockPass:
        """All hops of one pass; goes on from the last hop that is whole."""
        name = digest([[piece.name for piece in spec.pieces], spec.dtype, spec.operator.r])
        folder, kept = self.folder / f"pass-{name}", _KeptRows(self.blocks.bounds, self.folder / f"pass-{name}")
        columns = tuple(self._columns(piece, kept) for piece in spec.pieces)
        moved = BlockPass(needs, spec.operator, spec.dtype, columns, folder, self.memory)
        if spec.dtype == "float16":
            peaks = self.tasks(moved.largest, range(len(self.blocks)), "largest values")
            scales = {each.name: scales_of([peak[each.name] for peak in peaks]) for each in columns}
            moved = replace(moved, scales=scales)
        done = _whole_hops(moved)
        for k in range(done + 1, moved.depth + 1):
            if k == 1:
                self.tasks(moved.enter, moved.missing(0), "first values", spec.width)
            stage = f"hop {k} of {moved.depth}"
            self.tasks(partial(moved.hop, k), moved.missing(k), stage, moved.width(k))
            if all(each.rows is not None for each in moved.moving(k - 1)):
                (folder / f"hop{k - 1}").remove()  # what is kept of it lies beside
        return moved

    def _columns(self, piece: Piece, kept_rows: _KeptRows) -> Columns:
        rows, kept = kept_rows.of(piece)
        at, source = piece.at, (piece.first, piece.last)
        return Columns(piece.name, self.first.of(piece), source, at, piece.padded, piece.signal.hops, rows, kept)

    def _positions(self, piece: Piece) -> Place | None:
        if piece.part.positions is None:
            return None
        place = self.folder / "positions" / f"{piece.name}.npy"
        put_rows(place, piece.part.positions)
        return place


class _KeptRows:
    """Files of the rows that are kept: one for all pieces of a pass that keep the same."""

    def __init__(self, bounds: Sequence[int], folder: Place) -> None:
        self._bounds, self._folder = bounds, folder
        self._put: list[tuple[Any, Place, tuple[int, ...]]] = []

    def of(self, piece: Piece) -> tuple[Place | None, tuple[int, ...]]:
        """The file, and how many of its rows lie before each block; None: all rows are kept."""
        wanted = piece.part.rows
        if wanted is None:
            return None, ()
        for rows, place, kept in self._put:
            if rows is wanted or (len(rows) == len(wanted) and np.array_equal(rows, wanted)):
                return place, kept
        place = self._folder / f"{piece.name}.rows.npy"
        put_rows(place, wanted)
        kept = tuple(int(at) for at in np.searchsorted(wanted, self._bounds))
        self._put.append((wanted, place, kept))
        return place, kept


def _whole_hops(moved: BlockPass) -> int:
    """How many hops need not be computed again: all that is read back of them is there, and the last one's state."""
    whole = 0
    for k in range(1, moved.depth + 1):
        reads_state = any(columns.rows is None for columns in moved.moving(k))
        missing = set(moved.missing(k)) if reads_state or moved.only(k) is not None else set(moved.missing_kept(k))
        if missing:
            break
        whole = k
    while 0 < whole < moved.depth and moved.missing(whole):
        whole -= 1
    return whole
