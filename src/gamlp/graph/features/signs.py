"""Sparse random signs for every node, drawn by a hash of its original id: nothing is kept, any row at any time.

The same node has the same signs in any graph with its id, so that what is made of them holds in a graph that has grown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.graph import Ids
from gamlp.graph.id_hash import hash_key, id_hashes

_BYTES = 8  # of a word: one sign each
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
# 43 of 256 values of a byte are +1 and as many -1, a sixth each (Achlioptas, 2003); the others are 0.
_SIGNS = np.zeros(256, np.float32)
_SIGNS[:43], _SIGNS[43:86] = 1.0, -1.0


class DrawnSigns:
    """`[n, width]` of +1, -1 and 0, made as rows are read; stands where an array of features would.

    >>> signs = DrawnSigns(Ids(5), 4, seed=0)
    >>> bool((signs[2:4] == signs[[2, 3]]).all()), signs.shape
    (True, (5, 4))
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)
    ndim = 2

    def __init__(self, ids: Ids, width: int, seed: int) -> None:
        self._ids, self._key = ids, hash_key(seed, "signs")
        self.shape = (ids.count, width)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        numbers = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        hashes = id_hashes(self._ids.take(numbers), self._key)
        first, last, _ = columns.indices(self.shape[1])
        words = np.arange(first // _BYTES, -(-last // _BYTES), dtype=np.uint64)
        drawn = _mixed(hashes[:, None] + (words + np.uint64(1)) * _STEP).astype("<u8", copy=False)
        signs: Array = _SIGNS[drawn.view(np.uint8)]
        begin = first - first // _BYTES * _BYTES
        return np.ascontiguousarray(signs[:, begin : begin + max(0, last - first)])


def _mixed(words: Array) -> Array:
    """SplitMix64 (Steele, Lea and Flood, 2014): neighbouring numbers become words that share nothing."""
    for bits, factor in _MIX:
        words = (words ^ (words >> bits)) * factor
    return np.asarray(words ^ (words >> np.uint64(31)))
