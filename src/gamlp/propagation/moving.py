"""One pass through all its hops: state in memory, kept rows spilled to slabs where a later stage needs them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.graph import Relation
from gamlp.kernel import NUMPY, HopTask, hop, scale
from gamlp.progress import Progress
from gamlp.propagation.operator import Factors
from gamlp.propagation.passes import Pass, Piece
from gamlp.propagation.state import allocate
from gamlp.propagation.workers import each, even_ranges

Array = np.ndarray[Any, Any]
CHECKPOINT_SECONDS = 60.0
_HALF_TOP = 2.0**12  # float16 state: each column's largest first value is brought just below this


@dataclass(frozen=True)
class Slab:
    """Rows of one piece at one hop, as state (Z, not X): indexed by node, or by position among the part's rows."""

    values: Array
    by_node: bool


@dataclass
class PassRun:
    """Runs a pass; `run` returns a slab for every (piece, hop ≥ 1)."""

    relation: Relation
    count: int
    factors: Factors
    spec: Pass
    work: Path
    threads: int
    progress: Progress
    label: str
    keep_all: bool  # every hop must end in a slab on disk: later passes will reuse the memory
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    _saved: float = field(default=0.0, init=False)
    _half_factors: dict[str, Array] = field(default_factory=dict, init=False)

    def run(self) -> dict[tuple[str, int], Slab]:
        """Z^(k+1) = step ∘ (Ã Z^(k)); goes on from the last hop whose state is on disk."""
        pieces = self.spec.pieces
        wanted = [(piece, k) for piece in pieces for k in range(1, piece.signal.hops + 1)]
        if all(self._slab_path(piece, k).exists() for piece, k in wanted):
            return {(piece.name, k): self._open_slab(piece, k) for piece, k in wanted}
        # With several passes everything is spilled, and two matrices are enough.
        buffers = [allocate(self.count, self.spec.width, self.spec.dtype) for _ in range(self.spec.buffers)]
        begun = self._load_state(buffers[0])
        if begun == 0:
            self._enter(buffers[0])
        slabs = {(piece.name, k): self._open_slab(piece, k) for piece, k in wanted if k <= begun}
        self._saved = time.monotonic()
        current = 0
        for k in range(begun + 1, self.spec.depth + 1):
            following = (current + 1) % len(buffers)
            slabs |= self._hop(k, buffers[current], buffers[following], reused=k + len(buffers) <= self.spec.depth)
            current = following
        return slabs

    def _enter(self, state: Array) -> None:
        """Z^(0) = enter ∘ X^(0), straight into the storage type."""
        step = max(1, (4 << 20) // (4 * self.spec.width))
        up = {piece.name: self._up(piece) for piece in self.spec.pieces}

        def fill(begin: int) -> int:
            rows = slice(begin, min(begin + step, self.count))
            enter = None if self.factors.enter is None else self.factors.enter[rows]
            lost = 0
            for piece in self.spec.pieces:
                values = piece.part.read(rows, slice(piece.first, piece.last))
                into = state[rows, piece.at : piece.at + piece.width]
                lost += scale(
                    values, "float32", into, self.spec.dtype, row_factors=enter, column_factors=up[piece.name]
                )
            return lost

        self._refuse_lost(sum(each(self.threads, fill, range(0, self.count, step))), 0)

    def _hop(self, k: int, src: Array, dst: Array, *, reused: bool) -> dict[tuple[str, int], Slab]:
        moving = self.spec.moving(k)
        width = moving[-1].at + moving[-1].padded
        rows = self._only_rows(k, moving)
        if rows is not None:
            compact = dst.reshape(-1)[: len(rows) * width].reshape(len(rows), width)
            self._sum_rows(k, src[:, :width], compact, rows, [])
            done = {(piece.name, k): self._view(compact, piece, by_node=False) for piece in moving}
            return self._save_compact(k, moving, done) if self.keep_all else done
        slow = time.monotonic() - self._saved > self.checkpoint_seconds
        spilled = moving if self.keep_all or reused or slow else ()
        checkpoint = slow and k < self.spec.depth and any(piece.part.rows is not None for piece in moving)
        files = [_SlabFile(self._slab_path(piece, k), piece.part.rows, piece, self.count) for piece in spilled]
        if checkpoint:
            files.append(_SlabFile(self._state_path(k), None, None, self.count))
        self._sum_rows(k, src[:, :width], dst[:, :width], None, files)
        for file in files:
            file.finish()
        if checkpoint:
            for old in range(1, k):
                self._state_path(old).unlink(missing_ok=True)
        if slow:
            self._saved = time.monotonic()
        if self.keep_all or reused:
            return {(piece.name, k): self._open_slab(piece, k) for piece in moving}
        return {(piece.name, k): self._view(dst, piece, by_node=True) for piece in moving}

    def _sum_rows(self, k: int, src: Array, dst: Array, rows: Array | None, files: list[_SlabFile]) -> None:
        total = max(1, self.relation.entries)
        done = 0
        for block in self.relation.blocks:
            # Whole arrays, not subclasses of a map: the kernel takes plain memory.
            offsets, neighbours = np.asarray(block.offsets), np.asarray(block.neighbours)
            weights = None if block.weights is None else np.asarray(block.weights)
            inside, target = None, dst
            ranges = even_ranges(offsets, self._parts(len(neighbours)))
            if rows is not None:
                first, last = np.searchsorted(rows, [block.start, block.stop])
                inside, target = rows[first:last], dst[first:last]
                step = max(1, -(-len(inside) // self._parts(len(neighbours))))
                ranges = [(begin, min(begin + step, len(inside))) for begin in range(0, len(inside), step)]
            task = HopTask(
                offsets,
                neighbours,
                weights,
                self.factors.step,
                block.start,
                self.spec.operator.loops,
                src,
                target,
                self.spec.dtype,
                inside,
            )

            def work(limits: tuple[int, int], task: HopTask = task, start: int = block.start) -> tuple[int, int]:
                lost = hop(task, *limits)
                for file in files:
                    file.write(dst, start + limits[0], start + limits[1])
                if task.rows is not None:
                    return lost, (limits[1] - limits[0]) * len(task.neighbours) // max(1, len(task.rows))
                return lost, int(task.offsets[limits[1]] - task.offsets[limits[0]])

            for lost, entries in each(self.threads, work, ranges):
                self._refuse_lost(lost, k)
                done += entries
                self.progress(f"{self.label}hop {k} of {self.spec.depth}", min(done, total), total, "entries")
        self.progress(f"{self.label}hop {k} of {self.spec.depth}", total, total, "entries")

    def _parts(self, entries: int) -> int:
        """Row ranges in a block: large enough to be worth a call, small enough to be spilled while in cache."""
        return max(self.threads, min(entries // 100_000, self.threads * 64))

    def _only_rows(self, k: int, moving: tuple[Piece, ...]) -> Array | None:
        """At the last hop only kept rows are computed, when all pieces keep the same ones."""
        rows = moving[0].part.rows
        if k < self.spec.depth or rows is None or any(piece.part.rows is not rows for piece in moving):
            return None
        return rows

    def _save_compact(self, k: int, moving: tuple[Piece, ...], done: dict[tuple[str, int], Slab]) -> dict[Any, Slab]:
        for piece in moving:
            file = _SlabFile(self._slab_path(piece, k), None, None, len(done[piece.name, k].values))
            file.write(done[piece.name, k].values, 0, len(done[piece.name, k].values))
            file.finish()
        return {(piece.name, k): self._open_slab(piece, k) for piece in moving}

    def _load_state(self, state: Array) -> int:
        """Bring back the newest complete state on disk; 0 when there is none."""
        for k in range(self.spec.depth - 1, 0, -1):
            complete = all(
                self._slab_path(piece, j).exists()
                for piece in self.spec.pieces
                for j in range(1, min(k, piece.signal.hops) + 1)
            )
            if not complete:
                continue
            if (path := self._state_path(k)).exists():
                state[:] = self._map(path, self.spec.width)
                return k
            moving = self.spec.moving(k + 1)
            if all(piece.part.rows is None for piece in moving):
                for piece in moving:
                    state[:, piece.at : piece.at + piece.padded] = self._open_slab(piece, k).values
                return k
        return 0

    def _up(self, piece: Piece) -> Array | None:
        """float16: powers of two that bring a column's largest |Z^(0)| near 2^12, so that hubs keep their digits."""
        down = self.half_factors(piece)
        return None if down is None else 1.0 / down

    def half_factors(self, piece: Piece) -> Array | None:
        """What a float16 state is multiplied with on its way out; None for other types."""
        if self.spec.dtype != "float16":
            return None
        if piece.name not in self._half_factors:
            self._half_factors[piece.name] = self._column_scales(piece)
        return self._half_factors[piece.name]

    def _column_scales(self, piece: Piece) -> Array:
        step = max(1, (4 << 20) // (4 * piece.width))

        def largest(begin: int) -> Array:
            rows = slice(begin, min(begin + step, self.count))
            values = np.abs(piece.part.read(rows, slice(piece.first, piece.last)))
            if self.factors.enter is not None:
                values = values * self.factors.enter[rows, None]
            return np.asarray(values.max(0))

        peak = np.zeros(piece.width, np.float32)
        for found in each(self.threads, largest, range(0, self.count, step)):
            np.maximum(peak, found, out=peak)
        exponent = np.where(peak > 0, np.ceil(np.log2(np.where(peak > 0, peak, 1.0) / _HALF_TOP)), 0.0)
        return np.exp2(np.clip(exponent, -100, 100)).astype(np.float32)

    def _refuse_lost(self, lost: int, k: int) -> None:
        if lost:
            raise GamlpError(
                f"{lost} values at hop {k} are beyond what float16 holds", hint="use --dtype bfloat16 or float32"
            )

    def _slab_path(self, piece: Piece, k: int) -> Path:
        return self.work / f"{piece.name}-hop{k}.slab"

    def _state_path(self, k: int) -> Path:
        first, last = self.spec.pieces[0], self.spec.pieces[-1]
        return self.work / f"{first.name}-{last.name}-state{k}.slab"

    def files(self) -> set[str]:
        """Names of all files this pass may leave in the work folder."""
        slabs = {self._slab_path(piece, k).name for piece in self.spec.pieces for k in range(1, self.spec.depth + 1)}
        return slabs | {self._state_path(k).name for k in range(1, self.spec.depth + 1)}

    def _map(self, path: Path, width: int) -> Array:
        if path.stat().st_size == 0:
            return np.zeros((0, width), NUMPY[self.spec.dtype])
        return np.asarray(np.memmap(path, NUMPY[self.spec.dtype], "r")).reshape(-1, width)

    def _open_slab(self, piece: Piece, k: int) -> Slab:
        return Slab(self._map(self._slab_path(piece, k), piece.padded), by_node=piece.part.rows is None)

    @staticmethod
    def _view(state: Array, piece: Piece, *, by_node: bool) -> Slab:
        return Slab(state[:, piece.at : piece.at + piece.padded], by_node)


class _SlabFile:
    """Rows written by several threads at their places; renamed when all are there."""

    def __init__(self, path: Path, rows: Array | None, piece: Piece | None, count: int) -> None:
        self._path = path
        self._rows = rows
        self._columns = slice(None) if piece is None else slice(piece.at, piece.at + piece.padded)
        self._beside = path.with_suffix(".part")
        self._file = os.open(self._beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)

    def write(self, state: Array, begin: int, end: int) -> None:
        """Write the kept ones of the state rows begin..end."""
        if self._rows is None:
            position, values = begin, state[begin:end, self._columns]
        else:
            position, last = (int(at) for at in np.searchsorted(self._rows, [begin, end]))
            values = state[self._rows[position:last], self._columns]
        if values.size == 0:
            return
        data = memoryview(np.ascontiguousarray(values)).cast("B")
        offset = position * (len(data) // len(values))
        while len(data):
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def finish(self) -> None:
        os.close(self._file)
        self._beside.rename(self._path)
