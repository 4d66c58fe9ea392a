"""One hop over a range of rows: dst[i] = left[i] · Σ_j w_ij · right[j] · src[j], neighbours in ascending order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.kernel.native import native

Array = np.ndarray[Any, Any]
STORAGE = {"float32": 0, "float16": 1, "bfloat16": 2}
LANES = 8  # a matrix's width is a multiple of it


@dataclass(frozen=True)
class HopTask:
    """Everything a hop needs but its rows. `src[n, w]` and `dst` are float32, or uint16 bits of a half type.

    With `rows` (ascending, inside the block) position i of dst receives row rows[i]; otherwise dst is indexed by node.
    """

    offsets: Array
    neighbours: Array
    weights: Array | None
    left: Array | None
    right: Array | None
    start: int
    loops: bool
    src: Array
    dst: Array
    storage: str = "float32"
    rows: Array | None = None


def instructions() -> str:
    """Which loop runs: avx512, avx2, baseline, or torch where the extension is absent."""
    module = native()
    return "torch" if module is None else str(module.instructions)


def hop(task: HopTask, begin: int, end: int) -> int:
    """Compute rows begin..end of the block (or of `rows`); returns how many values the storage could not hold."""
    module = native()
    if module is None:
        return _hop_with_torch(task, begin, end)
    return int(
        module.hop(
            task.offsets,
            task.neighbours,
            task.weights,
            task.left,
            task.right,
            task.rows,
            task.start,
            begin,
            end,
            task.loops,
            task.src,
            task.dst,
            STORAGE[task.storage],
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
    factors = np.ones(len(columns), np.float32) if task.weights is None else np.asarray(task.weights[entries])
    if task.right is not None:
        factors = factors * task.right[columns]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(offsets),
        torch.from_numpy(columns),
        torch.from_numpy(np.ascontiguousarray(factors)),
        size=(len(rows), len(task.src)),
    )
    src = _as_torch(task.src, task.storage)
    total = (matrix @ src.float()).contiguous()
    nodes = rows + task.start
    if task.loops:
        own = torch.from_numpy(np.ones(len(rows), np.float32) if task.right is None else task.right[nodes])
        total += src[torch.from_numpy(nodes)].float() * own[:, None]
    if task.left is not None:
        total *= torch.from_numpy(task.left[nodes])[:, None]
    into = slice(begin, end) if task.rows is not None else slice(task.start + begin, task.start + end)
    dst = _as_torch(task.dst, task.storage)[into]
    dst.copy_(total)
    return int((~torch.isfinite(dst)).sum()) if task.storage == "float16" else 0


def _as_torch(values: Array, storage: str) -> Any:
    import torch

    tensor = torch.from_numpy(values.view(np.int16) if storage != "float32" else values)
    return tensor if storage == "float32" else tensor.view(getattr(torch, storage))
