"""One pass through all its hops: state in memory, kept rows spilled to slabs where a later stage needs them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore
from typing import TypeVar

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Relation, digest
from gamlp.io import parallel_map
from gamlp.kernel import HopTask, hop, nonzero_rows, scale, window_bits
from gamlp.progress import Progress
from gamlp.propagation.checks import check_neighbours, refuse_lost
from gamlp.propagation.first_values import First, streamed_first
from gamlp.propagation.local.entries import WAITING, BlockEntries, Entries, entries_of
from gamlp.propagation.local.reading import Reading, Way
from gamlp.propagation.local.slabs import OnDisk, Resident, Slab, allocate, spill
from gamlp.propagation.operator import Factors
from gamlp.propagation.passes import Pass, Piece

T = TypeVar("T")
CHECKPOINT_SECONDS = 60.0
_SPARSE = 0.1  # share of rows that are not zeros below which leaving the others out pays (benchmarks/tried.py)
_CHECKPOINT_RATE = 64 << 20  # bytes of state a second between two checkpoints: writing one is a few per cent of it
_HALF_TOP = 2.0**12  # float16 state: each column's largest first value is brought just below this
_HALF_ZERO = 2.0**-25  # and below: zero in float16


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
    room: int | None = None  # bytes of files that a cache holds beside the state; larger ones are streamed. None: all
    peaks: dict[tuple[str, int], Array] = field(default_factory=dict)  # of all columns of parts, for all passes
    _saved: float = field(default=0.0, init=False)
    _entries: tuple[BlockEntries, ...] = field(default=(), init=False)
    _checked: bool = field(default=False, init=False)  # neighbours have been seen to be nodes
    _filled: bool = field(default=False, init=False)  # most rows of the state are no longer zeros
    _touched: bool = field(default=False, init=False)  # a hop has been written: its memory is there
    _reading: Reading = field(default_factory=lambda: Reading(0), init=False)

    def run(self) -> dict[tuple[str, int], Slab]:
        """Z^(k+1) = step ∘ (Ã Z^(k)); goes on from the last hop whose state is on disk."""
        wanted = [(piece, k) for piece in self.spec.pieces for k in range(1, piece.signal.hops + 1)]
        on_disk = {(piece.name, k): self._on_disk(piece, k) for piece, k in wanted}
        if all(slab.path.exists() for slab in on_disk.values()):
            return dict(on_disk)
        # Before the state: files are verified through the cache.
        self._entries = entries_of(self.relation, self.room, self.progress)
        try:
            return self._all_hops(on_disk)
        finally:
            for entries in self._entries:
                entries.close()

    def _all_hops(self, on_disk: dict[tuple[str, int], OnDisk]) -> dict[tuple[str, int], Slab]:
        buffers = [allocate(self.count, self.spec.width, self.spec.dtype) for _ in range(self.spec.buffers)]
        self._reading = Reading(window_bits(buffers[0]))
        begun = self._load_state(buffers[0])
        if begun == 0:
            self._enter(buffers[0])
        for k in range(1, begun + 1):
            self._tell(k, self.relation.entries)
        slabs: dict[tuple[str, int], Slab] = {key: slab for key, slab in on_disk.items() if key[1] <= begun}
        self._saved = time.monotonic()
        # Hop k is spilled by a thread of its own while hop k + 1 reads it, and is waited for before its buffer is
        # written to again.
        with ThreadPoolExecutor(1) as spiller:
            spills: dict[int, list[Future[None]]] = {}
            for k in range(begun + 1, self.spec.depth + 1):
                src, dst = buffers[(k - 1 - begun) % len(buffers)], buffers[(k - begun) % len(buffers)]
                for spilling in spills.pop(k - len(buffers), []):
                    spilling.result()
                found, files = self._hop(k, src, dst)
                slabs |= found
                spills[k] = [spiller.submit(self._spill, *file) for file in files]
            for spilling in (future for futures in spills.values() for future in futures):
                spilling.result()
        if self.keep_all:  # otherwise the last hops are in memory alone, and a state leads back to them
            self._drop_states()
        return slabs

    def _spill(self, path: Path, state: Array, rows: Array | None) -> None:
        if path in self._state_paths():
            self._drop_states()  # first: a state may be as large as all slabs, and is there to save time alone
        spill(path, state, rows)

    def _enter(self, state: Array) -> None:
        """Z^(0) = enter ∘ X^(0), straight into the storage type."""
        step = max(1, (4 << 20) // (4 * self.spec.width))
        up, floors = {piece.name: self._up(piece) for piece in self.spec.pieces}, self._row_floors()

        def fill(begin: int) -> int:
            rows = slice(begin, min(begin + step, self.count))
            enter = None if self.factors.enter is None else self.factors.enter[rows]
            lost = 0
            for piece in self.spec.pieces:
                values = firsts[piece.name].read(rows, slice(piece.first, piece.last))
                into = state[rows, piece.at : piece.at + piece.width]
                lost += scale(
                    values,
                    "float32",
                    into,
                    self.spec.dtype,
                    row_factors=enter,
                    column_factors=up[piece.name],
                    row_floors=None if floors is None else floors[rows],
                )
            return lost

        with ExitStack() as opened:
            firsts = {piece.name: self._first(piece, opened) for piece in self.spec.pieces}
            streaming = any(firsts[piece.name] is not piece.part.first for piece in self.spec.pieces)
            workers = self.threads + WAITING if streaming else self.threads
            found = parallel_map(workers, fill, range(0, self.count, step))
            lost = sum(self._telling(found, f"{self.label}first values", step, streaming))
        refuse_lost(lost, self._state(0), self.spec.dtype)

    def _first(self, piece: Piece, opened: ExitStack) -> First:
        if self.room is None:
            return piece.part.first
        first, streams = streamed_first(piece.part.first, self.room)
        for stream in streams:
            opened.callback(stream.close)
        return first

    def _hop(
        self, k: int, src: Array, dst: Array
    ) -> tuple[dict[tuple[str, int], Slab], list[tuple[Path, Array, Array | None]]]:
        """Compute hop k into dst; returns where its slabs are, and (path, state, rows) of those to be spilled."""
        pieces = self.spec.with_hop(k)
        width = pieces[-1].at + pieces[-1].padded
        rows = self._only_rows(k, pieces)
        if rows is not None:
            compact = dst.reshape(-1)[: len(rows) * width].reshape(len(rows), width)
            self._sum_rows(k, src[:, :width], compact, rows)
            return self._slabs_of(k, pieces, compact, by_node=False, spilled=self.keep_all)
        self._sum_rows(k, src[:, :width], dst[:, :width], None)
        overwritten = k + self.spec.buffers <= self.spec.depth
        slow = time.monotonic() - self._saved > max(self.checkpoint_seconds, dst.nbytes / _CHECKPOINT_RATE)
        spilled = self.keep_all or overwritten or slow
        slabs, files = self._slabs_of(k, pieces, dst, by_node=True, spilled=spilled)
        if slow:
            self._saved = time.monotonic()
            if k < self.spec.depth and any(piece.part.rows is not None for piece in pieces):
                files.append((self._state_path(k), dst, None))
        return slabs, files

    def _slabs_of(
        self, k: int, pieces: tuple[Piece, ...], state: Array, *, by_node: bool, spilled: bool
    ) -> tuple[dict[tuple[str, int], Slab], list[tuple[Path, Array, Array | None]]]:
        slabs: dict[tuple[str, int], Slab] = {}
        files: list[tuple[Path, Array, Array | None]] = []
        for piece in pieces:
            values = state[:, piece.at : piece.at + piece.padded]
            slabs[piece.name, k] = self._on_disk(piece, k) if spilled else Resident(values, by_node)
            if spilled:
                files.append((self._on_disk(piece, k).path, values, piece.part.rows if by_node else None))
        return slabs, files

    def _sum_rows(self, k: int, src: Array, dst: Array, rows: Array | None) -> None:
        """Rows of hop k (None: all; else dst has these alone)."""
        done, floors, nonzero = 0, self._row_floors(), self._nonzero(src)
        summing = Semaphore(self.threads)  # others wait for the disk: more than a thread a core would share its caches
        # Without windows, ranges whose zero rows are left out are not compared: some have more of them than others.
        compared = rows is None and self._touched and (self._reading.large or nonzero is None)

        def work(task: tuple[BlockEntries, tuple[int, int]]) -> tuple[int, int]:
            (entries, (begin, end)), target, inside = task, dst, None
            block = entries.block
            if rows is not None:
                first, last = np.searchsorted(rows, [block.start + begin, block.start + end])
                inside, target = rows[first:last], dst[first:last]
                if first == last:
                    return 0, 0
            count = int(block.offsets[end] - block.offsets[begin])
            with entries.part(begin, end) as part, summing:
                if not self._checked:
                    check_neighbours(_neighbours_of(part, end - begin), self.count)
                decided = self._reading.decided
                way = self._reading.take() if compared else Way(near=decided is not None and decided.near)
                # While ways are compared, all of them read all rows.
                leave_out = way.window_bits == 0 and (not compared or decided is not None)
                hop_task = HopTask(
                    part.offsets,
                    part.neighbours,
                    part.weights,
                    self.factors.step,
                    part.start,
                    self.spec.operator.loops,
                    src,
                    target,
                    self.spec.dtype,
                    inside,
                    floors=floors,
                    nonzero=nonzero if leave_out else None,
                    window_bits=way.window_bits,
                    near=way.near,
                )
                begun = time.thread_time()
                lost = hop(hop_task, *_rows_of(part, end - begin, inside))
                if compared:
                    self._reading.took(way, count, time.thread_time() - begun)
            return lost, count

        # Ranges of all blocks one after the other: nobody waits at the end of a block.
        tasks = ((entries, limits) for entries in self._entries for limits in entries.ranges(self.threads))
        workers = max((entries.workers(self.threads) for entries in self._entries), default=1)
        for lost, count in parallel_map(workers, work, tasks):
            refuse_lost(lost, self._state(k), self.spec.dtype)
            done += count
            self._tell(k, done)
        self._checked = rows is None or self._checked
        self._touched = True
        self._tell(k, max(1, self.relation.entries))

    def _nonzero(self, src: Array) -> Array | None:
        """Bits of rows that hold anything, while they are few: of labels, the first hop or two.

        Not where windows are faster: looking at a bit then takes as long as reading a row.
        """
        windows = self._reading.decided is not None and self._reading.decided.window_bits > 0
        if self._filled or not src.flags.c_contiguous or windows:
            return None
        step = 1 << 16  # rows, a multiple of eight
        begins = range(0, self.count, step)
        bits = np.zeros(-(-self.count // 8), np.uint8)

        def look(begin: int) -> int:
            found = nonzero_rows(src[begin : begin + step])
            bits[begin // 8 : begin // 8 + len(found)] = found
            return int(np.bitwise_count(found).sum())

        self._filled = sum(parallel_map(self.threads, look, begins)) > _SPARSE * self.count
        return None if self._filled else bits

    def _tell(self, k: int, done: int) -> None:
        total = max(1, self.relation.entries)
        self.progress(f"{self.label}hop {k} of {self.spec.depth}", min(done, total), total, "entries")

    def _telling(self, found: Iterator[T], stage: str, step: int, streaming: bool) -> Iterator[T]:
        """The same; of rows that are streamed from disk it is told how many are done."""
        for count, one in enumerate(found, 1):
            if streaming:
                self.progress(stage, min(count * step, self.count), self.count, "rows")
            yield one

    def _only_rows(self, k: int, pieces: tuple[Piece, ...]) -> Array | None:
        """At the last hop only kept rows are computed, when all pieces keep the same ones."""
        rows = pieces[0].part.rows
        if k < self.spec.depth or rows is None or any(piece.part.rows is not rows for piece in pieces):
            return None
        return rows

    def _load_state(self, state: Array) -> int:
        """Bring back the newest complete state on disk; 0 when there is none."""
        for k in range(self.spec.depth - 1, 0, -1):
            earlier = [
                self._on_disk(piece, j).path
                for piece in self.spec.pieces
                for j in range(1, min(k, piece.signal.hops) + 1)
            ]
            if not all(path.exists() for path in earlier):
                continue
            if self._state_path(k).exists():
                self._read_slab(OnDisk(self._state_path(k), self.spec.width, self.spec.dtype), state)
                return k
            pieces = self.spec.with_hop(k + 1)
            if all(piece.part.rows is None for piece in pieces):
                for piece in pieces:
                    self._read_slab(self._on_disk(piece, k), state[:, piece.at : piece.at + piece.padded])
                return k
        return 0

    def _read_slab(self, slab: OnDisk, into: Array) -> None:
        reader = slab.open()
        step = max(1, (4 << 20) // (into.shape[1] * into.dtype.itemsize))
        for begin in range(0, len(into), step):
            end = min(begin + step, len(into))
            into[begin:end] = reader.rows(begin, end, None)[0]
        reader.close()

    def _up(self, piece: Piece) -> Array | None:
        """float16: powers of two that bring a column's largest |Z^(0)| near 2^12, so that hubs keep their digits."""
        down = self.half_factors(piece)
        return None if down is None else 1.0 / down

    def half_factors(self, piece: Piece) -> Array | None:
        """What a float16 state is multiplied with on its way out; None for other types."""
        if self.spec.dtype != "float16":
            return None
        return column_scales(self._peaks(piece)[piece.first : piece.last])

    def column_floors(self, piece: Piece) -> Array | None:
        """What stored values of a float16 column may be rounded to zero below; None: no value above can be."""
        down = self.half_factors(piece)
        return None if down is None else half_floors(down, self._top())

    def _row_floors(self) -> Array | None:
        """The same of the rows of a float16 state."""
        enter = self.factors.enter
        return None if self.spec.dtype != "float16" or enter is None else half_floors(enter, self._top())

    def _top(self) -> float:
        enter = self.factors.enter
        return float(enter.max(initial=0)) if self.relation.weighted and enter is not None else 1.0

    def _state(self, k: int) -> str:
        return " and ".join(dict.fromkeys(piece.signal.name for piece in self.spec.with_hop(k))) + f" at hop {k}"

    def _peaks(self, piece: Piece) -> Array:
        """The largest |Z^(0)| of every column of a piece's part: one sweep, however many passes it has."""
        known = piece.signal.name, piece.part.index
        if known in self.peaks:
            return self.peaks[known]
        step = max(1, (4 << 20) // (4 * piece.signal.width))
        with ExitStack() as opened:
            first = self._first(piece, opened)

            def largest(begin: int) -> Array:
                rows = slice(begin, min(begin + step, self.count))
                values = first.read(rows, slice(0, piece.signal.width))
                if self.relation.weighted and self.factors.enter is not None:
                    values = values * self.factors.enter[rows, None]  # unweighted: at most 1, |X| is bound enough
                return np.asarray(np.maximum(values.max(0), -values.min(0)))

            peak = np.zeros(piece.signal.width, np.float32)
            streaming = first is not piece.part.first
            workers = self.threads + WAITING if streaming else self.threads
            found = parallel_map(workers, largest, range(0, self.count, step))
            for one in self._telling(found, f"largest values of {piece.signal.name}", step, streaming):
                np.maximum(peak, one, out=peak)
        self.peaks[known] = peak
        return peak

    def _on_disk(self, piece: Piece, k: int) -> OnDisk:
        return OnDisk(self.work / f"{piece.name}-hop{k}.slab", piece.padded, self.spec.dtype)

    def _state_path(self, k: int) -> Path:
        first, last = self.spec.pieces[0], self.spec.pieces[-1]
        return self.work / f"{first.name}-{digest(last.name)}-state{k}.slab"

    def _state_paths(self) -> list[Path]:
        return [self._state_path(k) for k in range(1, self.spec.depth)]

    def _drop_states(self) -> None:
        for path in self._state_paths():
            path.unlink(missing_ok=True)


def column_scales(peak: Array) -> Array:
    """float16: the power of two that brings a column's largest value near 2^12 when the column is divided by it."""
    exponent = np.where(peak > 0, np.ceil(np.log2(np.where(peak > 0, peak, 1.0) / _HALF_TOP)), 0.0)
    return np.asarray(np.exp2(np.clip(exponent, -100, 100)), np.float32)


def half_floors(sizes: Array, top: float) -> Array | None:
    """float16: the floors of rows or columns below which a value may become zero; None: no value above them does.

    What is below float16's own rounding (2^-11) of the largest first value of its column is no loss. Columns leave with
    2^-12 to 2^-11 of that value, so `column_scales` are their floors; the state's columns begin at 2^11 to 2^12, so the
    factors that rows enter with are theirs. Scales of a weighted graph are those of Z: X is 1 / `top` of it or more.
    """
    floors = np.asarray(sizes / np.float32(top or 1.0), np.float32)
    return floors if float(floors.min(initial=1.0)) < _HALF_ZERO else None


def _rows_of(part: Entries, count: int, rows: Array | None) -> tuple[int, int]:
    """What the kernel is asked for: rows of the part, or all of the named ones."""
    return (part.first, part.first + count) if rows is None else (0, len(rows))


def _neighbours_of(part: Entries, count: int) -> Array:
    return part.neighbours[int(part.offsets[part.first]) : int(part.offsets[part.first + count])]
