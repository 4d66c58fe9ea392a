"""A truncated SVD of wide features: X ≈ X V Vᵀ, V the leading right singular vectors; rows become X V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from gamlp.graph.graph import Array, Features
from gamlp.progress import Progress

SAMPLE = 50_000  # rows that a basis is fitted on, at most
_BYTES = 1 << 31  # of a sample, were all of its values kept
_PIECE = 64 << 20  # bytes of wide rows in memory while they are read
_FEW = 0.1  # of values that are not zero: below it rows are worked on as sparse ones


def basis(features: Sequence[Features], width: int, seed: int, progress: Progress) -> Array:
    """V[wide, width] of the rows of all these features together, or of a seeded sample where they are many.

    No centring: zeros stay zeros, and X V keeps products of rows, (X V)(X V)ᵀ ≈ X Xᵀ. The largest value of every
    column is positive, so that signs do not depend on chance. Where rows or their rank are fewer than `width`, the
    last columns are zero.
    """
    wide = features[0].width
    counts = [len(each.values) for each in features]
    total = sum(counts)
    most = min(total, SAMPLE, max(_BYTES // (4 * wide), 4 * width))
    rows = np.sort(np.random.default_rng(seed).choice(total, most, replace=False)) if most < total else np.arange(total)
    parts, start = [], 0
    for each, count in zip(features, counts):
        inside = rows[(rows >= start) & (rows < start + count)] - start
        step = max(1, _PIECE // (4 * wide))
        for begin in range(0, len(inside), step):
            parts.append(lighter(each.read(inside[begin : begin + step])))
            progress("reduced features: rows read", min(len(rows), sum(part.shape[0] for part in parts)), most, "rows")
        start += count
    return _fitted(_stacked(parts), width, wide, seed)


def _stacked(parts: list[Any]) -> Any:
    """One matrix: sparse where most of its parts are."""
    if not parts:
        return np.zeros((0, 1), np.float32)
    few = sum(part.shape[0] for part in parts if sparse.issparse(part))
    if 2 * few > sum(part.shape[0] for part in parts):
        return sparse.vstack([sparse.csr_array(part) for part in parts]).tocsr()
    return np.concatenate([part.toarray() if sparse.issparse(part) else part for part in parts])


def _fitted(sample: Any, width: int, wide: int, seed: int) -> Array:
    out = np.zeros((wide, width), np.float32)
    kept = min(width, *sample.shape)
    if not sample.shape[0] or not sample.size:
        return out
    if min(sample.shape) <= 2 * width:  # so small that the exact decomposition costs no more
        dense = sample.toarray() if sparse.issparse(sample) else sample
        _, values, components = np.linalg.svd(dense.astype(np.float64), full_matrices=False)
    else:
        # Seven rounds of power iteration: spectra of bags of words fall slowly, and four leave a visible error.
        _, values, components = randomized_svd(sample, kept, n_oversamples=32, n_iter=7, random_state=seed)
    inside = values[:kept] > 1e-6 * values[0]  # below it float32 holds nothing but noise
    components = components[:kept][inside]
    largest = np.abs(components).argmax(1)
    components *= np.sign(components[np.arange(len(components)), largest])[:, None]
    out[:, : len(components)] = components.T
    return out


def lighter(rows: Array) -> Any:
    """The same rows as a sparse matrix where most of their values are zero."""
    return sparse.csr_array(rows) if np.count_nonzero(rows) < _FEW * rows.size else rows


class Projected:
    """X V[n, width], computed as it is written: features may be larger than memory."""

    dtype = np.dtype(np.float32)

    def __init__(self, features: Features, shared: Array, kind: str, progress: Progress) -> None:
        self.features, self.shared, self.kind, self.progress = features, shared, kind, progress
        self.shape = (len(features.values), shared.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice, /) -> Array:
        begin, end, _ = part.indices(len(self))
        out = np.empty((end - begin, self.shape[1]), np.float32)
        step = max(1, _PIECE // (4 * self.features.width))
        for first in range(begin, end, step):
            last = min(end, first + step)
            out[first - begin : last - begin] = lighter(self.features.read(slice(first, last))) @ self.shared
            self.progress(f"reduced features of '{self.kind}'", last, len(self), "rows")
        return out
