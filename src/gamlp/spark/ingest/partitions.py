"""One block a partition: keys that Spark's hash puts apart.

Spark partitions by a hash of values. By block numbers themselves it would leave more than a third of the partitions
empty, and give five blocks to the fullest: the stage would take five times as long as it must.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gamlp.arrays import Array

_SEED = 42  # of Spark's partitioning
SLOT = "slot"  # the column of keys


@lru_cache(maxsize=8)
def one_a_partition(count: int) -> Array:
    """keys[i], an int32 that goes to partition i of `count`."""
    keys = np.full(count, -1, np.int32)
    begin, step = 0, 16 * count + 64
    while (keys < 0).any():
        tried = np.arange(begin, begin + step, dtype=np.int32)
        partitions, first = np.unique(partition_of(tried, count), return_index=True)
        new = keys[partitions] < 0
        keys[partitions[new]] = tried[first[new]]
        begin += step
    return keys


def partition_of(keys: Array, count: int) -> Array:
    """Where Spark puts int32 keys: their Murmur3 hash, modulo the number of partitions, never negative."""
    with np.errstate(over="ignore"):
        mixed = _rotated(keys.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)  # bytes of a key
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashed ^= hashed >> np.uint32(16)
    return np.asarray(hashed.view(np.int32).astype(np.int64) % count)


def _rotated(values: Array, bits: int) -> Array:
    return np.asarray((values << np.uint32(bits)) | (values >> np.uint32(32 - bits)))
