"""One hop over a range of rows: dst[i] = factors[i] · Σ_j w_ij · src[j], neighbours in ascending order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.kernel.dtypes import CODES, as_torch
from gamlp.kernel.native import native

LANES = 8  # a matrix's width is a multiple of it


@dataclass(frozen=True)
class HopTask:
    """Everything a hop needs but its rows. `src[n, w]` and `dst` are of the storage type.

    With `rows` (node numbers, ascending, inside the block) position i of dst receives row rows[i]; otherwise dst is
    indexed by node. With `accumulate` sums begin with what dst holds: neighbours may come in several goes, ascending.
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
        )
    )


def _hop_with_torch(task: HopTask, begin: int, end: int) -> int:
    import torch

    rows = np.arange(begin, end) if task.rows is None else task.rows[begin:end] - task.start
    first, last = task.offsets[rows], task.offsets[rows + 1]
    counts = last - first
    inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = np.repeat(first, counts) + inside
    columns = np.asarray(task.neighbours[entries], np.int64)
    values = np.ones(len(columns), np.float32) if task.weights is None else np.asarray(task.weights[entries])
    # Rows are independent here too: a chunk's neighbours alone are gathered, so half types are widened chunk by chunk.
    src = as_torch(task.src, task.storage)
    nodes = rows + task.start
    into = slice(begin, end) if task.rows is not None else slice(task.start + begin, task.start + end)
    dst = as_torch(task.dst, task.storage)[into]
    total = dst.float().clone() if task.accumulate else torch.zeros(len(rows), task.src.shape[1])
    owner = torch.from_numpy(np.repeat(np.arange(len(rows)), counts))
    step = max(1, (64 << 20) // (4 * task.src.shape[1]))
    for at in range(0, len(columns), step):
        part = slice(at, at + step)
        gathered = src[torch.from_numpy(columns[part])].float() * torch.from_numpy(values[part])[:, None]
        total.index_add_(0, owner[part], gathered)
    if task.loops:
        total += src[torch.from_numpy(nodes)].float()
    if task.factors is not None:
        total *= torch.from_numpy(task.factors[nodes])[:, None]
    dst.copy_(total)
    return int((~torch.isfinite(dst)).sum()) if task.storage == "float16" else 0
