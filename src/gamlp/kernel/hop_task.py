"""One hop over a range of rows: dst[i] = factors[i] · Σ_j w_ij · src[j], neighbours in ascending order, in blocks.

A row's entries are its neighbours and, with loops, the row itself in its ascending place. `BLOCK` of them are summed by
themselves, then sums of `BLOCK` blocks, and so on: a plain float32 sum over a million neighbours is off by a percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.kernel.dtypes import CODES, as_torch, count_lost
from gamlp.kernel.native import native

LANES = 8  # a matrix's width is a multiple of it
# Entries of a row that are summed by themselves. Of a million leaves with 0.1 the mean is off by 2.3e-7; in blocks of
# 1,024 it would be by 1.4e-6, in a plain sum by 9.6e-4.
BLOCK = 128
# A state of more bytes may be read faster in windows of a gigabyte: tables of pages that processors keep end at about
# 4 GB, or at 8. Rows of more columns than WINDOW_COLUMNS miss a page less often than a line.
WINDOWED = 3 << 30
WINDOW_COLUMNS = 32
WINDOW = 1 << 30
_GATHERED = 1 << 16  # entries that are gathered at a time


@dataclass(frozen=True)
class HopTask:
    """Everything a hop needs but its rows. `src[n, w]` and `dst` are of the storage type.

    With `rows` (node numbers, ascending, inside the block) position i of dst receives row rows[i]; otherwise dst is
    indexed by node. With `accumulate` sums begin with what dst holds: a row's entries may come in several goes,
    ascending and `BLOCK` in all (longer rows are cut with `cut_rows`; sums of pieces are summed by another hop).
    `floors[n]`: a value above its row's floor that a half type turns to zero counts as one that it could not hold.
    `nonzero[n / 8]`: bits, lowest first; rows of src whose bit is 0 hold zeros alone and are not read, which pays while
    less than a tenth of the bits are set. Bytes are the same with and without. Not together with `accumulate`.
    `window_bits`: rows of src are read in windows of 2^window_bits rows (0: not), by many rows of dst together. Bytes
    are the same with and without; not with `rows`, `accumulate` or `nonzero`.
    `near`: rows are fetched into all caches and further ahead, which some processors do faster. The same bytes.
    """

    offsets: Array
    neighbours: Array
    weights: Array | None
    factors: Array | None
    start: int
    loops: bool
    src: Array
    dst: Array
    storage: str = "float32"
    rows: Array | None = None
    accumulate: bool = False
    floors: Array | None = None
    nonzero: Array | None = None
    window_bits: int = 0
    near: bool = False


def instructions() -> str:
    """Which loop runs: avx512, avx2, baseline, or torch where the extension is absent."""
    module = native()
    return "torch" if module is None else str(module.instructions)


def hop(task: HopTask, begin: int, end: int, *, baseline: bool = False) -> int:
    """Compute rows begin..end of the block (or of `rows`); returns how many values the storage could not hold.

    Offsets and neighbours are trusted to stay inside their arrays: who maps a file checks them once before.
    """
    if task.rows is not None and 0 <= begin < end <= len(task.rows):
        lowest, highest = int(task.rows[begin]), int(task.rows[end - 1])  # ascending
        if lowest < task.start or highest >= task.start + len(task.offsets) - 1:
            raise IndexError(f"rows {lowest}..{highest} reach outside the block that begins at {task.start}")
    module = native()
    if module is None:
        return _hop_with_torch(task, begin, end)
    given = {"floors": task.floors, "nonzero": task.nonzero}
    return int(
        module.hop(
            offsets=task.offsets,
            neighbours=task.neighbours,
            weights=task.weights,
            factors=task.factors,
            rows=task.rows,
            start=task.start,
            begin=begin,
            end=end,
            loops=task.loops,
            src=task.src,
            dst=task.dst,
            storage=CODES[task.storage],
            baseline=baseline,
            accumulate=task.accumulate,
            window_bits=task.window_bits,
            near=task.near,
            **{name: values for name, values in given.items() if values is not None},
        )
    )


def window_bits(state: Array) -> int:
    """`HopTask.window_bits` that may be faster than 0, which depends on the processor; 0: the state is not large."""
    count, width = state.shape
    if native() is None or width > WINDOW_COLUMNS or state.size * state.itemsize <= WINDOWED:
        return 0
    # At most 64 windows, whatever the size; a power of two, so that a node's window is a shift.
    return int(max(WINDOW // (width * state.itemsize), count // 32)).bit_length() - 1


def nonzero_rows(values: Array) -> Array:
    """Bits, lowest first, of the rows of a state that are not all zeros, for `HopTask.nonzero`; -0 is no zero here.

    Rows in several goes: each but the last of a multiple of eight rows, then the bytes one after the other.
    """
    as_words = values.view(np.uint64)  # a width is a multiple of LANES
    module = native()
    if module is None:
        return np.packbits(as_words.any(axis=1), bitorder="little")
    bits = np.empty(-(-len(values) // 8), np.uint8)
    module.nonzero_rows(as_words, bits)
    return bits


def cut_rows(offsets: Array) -> tuple[Array, Array]:
    """(pieces, cuts): rows cut into pieces of at most `BLOCK` entries; pieces[i]..pieces[i + 1] are those of row i.

    Piece j has the entries cuts[j]..cuts[j + 1]. A row without entries has no piece.
    """
    counts = -(-np.diff(offsets) // BLOCK)
    pieces = np.concatenate([[0], np.cumsum(counts)])
    inside = np.arange(pieces[-1]) - np.repeat(pieces[:-1], counts)
    return pieces, np.append(np.repeat(offsets[:-1], counts) + inside * BLOCK, offsets[-1])


def gather_rows(
    offsets: Array, neighbours: Array, weights: Array | None, rows: Array, loops: Array | None
) -> tuple[Array, Array, Array | None]:
    """Entries of some rows as a CSR of their own; `loops` are the rows' own numbers, put in their ascending places.

    Some rows at a time: beside what is returned, little is held.
    """
    counts = offsets[rows + 1] - offsets[rows]
    own = np.concatenate([[0], np.cumsum(counts + (loops is not None))])
    columns = np.empty(own[-1], neighbours.dtype)
    values = None if weights is None else np.empty(own[-1], weights.dtype)
    begin = 0
    while begin < len(rows):
        end = max(begin + 1, int(np.searchsorted(own, own[begin] + _GATHERED, side="right")) - 1)
        part, into = rows[begin:end], slice(int(own[begin]), int(own[end]))
        some = None if loops is None else loops[begin:end]
        columns[into], found = _gather(offsets[part], counts[begin:end], neighbours, weights, some)
        if values is not None:
            values[into] = found
        begin = end
    return own, columns, values


def _gather(
    first: Array, counts: Array, neighbours: Array, weights: Array | None, loops: Array | None
) -> tuple[Array, Array | None]:
    own = np.concatenate([[0], np.cumsum(counts)])
    entries = np.arange(own[-1]) + np.repeat(first - own[:-1], counts)
    columns, values = neighbours[entries], None if weights is None else weights[entries]
    if loops is None:
        return columns, values
    before = np.concatenate([[0], np.cumsum(columns < np.repeat(loops, counts))])
    places = own[:-1] + before[own[1:]] - before[own[:-1]]
    return np.insert(columns, places, loops), None if values is None else np.insert(values, places, 1.0)


def _hop_with_torch(task: HopTask, begin: int, end: int) -> int:
    import torch

    rows = np.arange(begin, end) if task.rows is None else task.rows[begin:end] - task.start
    nodes = rows + task.start
    offsets, columns, weights = gather_rows(
        task.offsets, task.neighbours, task.weights, rows, nodes if task.loops else None
    )
    into = slice(begin, end) if task.rows is not None else slice(task.start + begin, task.start + end)
    dst = as_torch(task.dst, task.storage)[into]
    # Rows are independent here too: a chunk's neighbours alone are gathered, so half types are widened chunk by chunk.
    src = as_torch(task.src, task.storage)
    if task.accumulate:
        total = _add_entries(dst.float(), offsets, src, columns, weights)
    else:
        pieces, cuts = cut_rows(offsets)
        sums = _add_entries(torch.zeros(len(cuts) - 1, src.shape[1]), cuts, src, columns, weights)
        while int(np.diff(pieces).max(initial=0)) > 1:
            pieces, cuts = cut_rows(pieces)
            sums = _add_entries(torch.zeros(len(cuts) - 1, src.shape[1]), cuts, sums, np.arange(len(sums)), None)
        total = torch.zeros(len(rows), src.shape[1])
        total[torch.from_numpy(np.diff(pieces) == 1)] = sums  # a row without entries has no piece
    if task.factors is not None:
        total *= torch.from_numpy(task.factors[nodes])[:, None]
    dst.copy_(total)
    return count_lost(total, dst, None if task.floors is None else torch.from_numpy(task.floors[nodes])[:, None])


def _add_entries(total: Any, offsets: Array, src: Any, columns: Array, weights: Array | None) -> Any:
    """total[i] += Σ w src[columns], one after the other, over the entries offsets[i]..offsets[i + 1]."""
    import torch

    owner = torch.from_numpy(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
    step = max(1, (64 << 20) // (4 * src.shape[1]))
    for at in range(0, len(columns), step):
        part = slice(at, at + step)
        gathered = src[torch.from_numpy(np.asarray(columns[part], np.int64))].float()
        if weights is not None:
            gathered *= torch.from_numpy(weights[part])[:, None]
        total.index_add_(0, owner[part], gathered)
    return total
