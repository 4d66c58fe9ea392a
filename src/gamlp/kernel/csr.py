"""Edge list → CSR rows: neighbours ascending, duplicates merged, self-loops dropped."""

from __future__ import annotations

import os

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.kernel.native import native

MOST_NODES = 2**31 - 1  # neighbours are int32


def build_csr(
    rows: Array,
    columns: Array,
    weights: Array | None = None,
    *,
    start: int,
    stop: int,
    symmetric: bool,
    drop_loops: bool = True,
    threads: int | None = None,
) -> tuple[Array, Array, Array | None]:
    """(offsets int64, neighbours int32, weights float32 or None) of the rows `start <= row < stop`.

    Unweighted duplicates merge to one entry; weighted ones add up in the order of the list.
    A column outside of [0, 2³¹-1) is a ValueError.
    """
    if stop > MOST_NODES:
        raise GamlpError(f"{stop} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
    dtype = np.int32 if rows.dtype == np.int32 and columns.dtype == np.int32 else np.int64
    rows, columns = np.ascontiguousarray(rows, dtype), np.ascontiguousarray(columns, dtype)
    if (module := native()) is not None:
        threads = threads or os.cpu_count() or 1
        built: tuple[Array, Array, Array | None] = module.csr(
            rows, columns, weights, start, stop, symmetric, drop_loops, threads
        )
        return built
    return _build_with_numpy(rows, columns, weights, start, stop, symmetric, drop_loops)


def spread_rows(
    rows: Array, columns: Array, weights: Array | None, *, symmetric: bool, width: int, count: int
) -> tuple[Array, Array, Array, Array | None]:
    """(begin `[count + 1]`, rows, columns, weights) of int32 edges by range of `width` rows.

    Within a range edges keep the order of the list; `symmetric`: each both ways, one after the other, so that
    duplicates add up in the order of the list.
    """
    rows, columns = np.ascontiguousarray(rows, np.int32), np.ascontiguousarray(columns, np.int32)
    if (module := native()) is not None:
        weights = None if weights is None else np.ascontiguousarray(weights, np.float32)
        found: tuple[Array, Array, Array, Array | None] = module.spread(rows, columns, weights, symmetric, width, count)
        return found
    if symmetric:
        rows, columns = np.stack([rows, columns], 1).ravel(), np.stack([columns, rows], 1).ravel()
        weights = None if weights is None else np.repeat(weights, 2)
    ranges = rows // width
    if len(rows) and (ranges.min() < 0 or ranges.max() >= count):
        raise ValueError("a row is in no range")
    order = np.argsort(ranges.astype(np.uint16) if count < 1 << 16 else ranges, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(ranges, minlength=count))])
    return begin, rows[order], columns[order], None if weights is None else weights[order]


def add_up(places: Array, weights: Array | None, sums: Array) -> None:
    """sums[places[i]] += weights[i] (or 1), in float64 and in order; every place must be inside."""
    if (module := native()) is not None:
        module.add_up(places, weights, sums)
        return
    found = np.bincount(places, weights=None if weights is None else weights.astype(np.float64))
    sums[: len(found)] += found


def _build_with_numpy(
    rows: Array, columns: Array, weights: Array | None, start: int, stop: int, symmetric: bool, drop_loops: bool
) -> tuple[Array, Array, Array | None]:
    if symmetric:  # interleaved, so that duplicates add up in the order of the list
        rows, columns = np.stack([rows, columns], 1).ravel(), np.stack([columns, rows], 1).ravel()
        weights = None if weights is None else np.repeat(weights, 2)
    keep = (rows >= start) & (rows < stop)
    if drop_loops:
        keep &= rows != columns
    if (wrong := columns[keep & ((columns < 0) | (columns >= MOST_NODES))]).size:
        raise ValueError(f"neighbour {wrong[0]} is not a node number from 0 to {MOST_NODES - 1}")
    key = (rows[keep].astype(np.int64) - start) << 32 | columns[keep]
    merged = None
    if weights is None:
        key = np.unique(key)
    else:
        order = np.argsort(key, kind="stable")
        key, first = np.unique(key[order], return_index=True)
        sums = np.add.reduceat(weights[keep][order].astype(np.float64), first) if len(first) else np.zeros(0)
        merged = sums.astype(np.float32)
    offsets = np.zeros(stop - start + 1, np.int64)
    np.cumsum(np.bincount(key >> 32, minlength=stop - start), out=offsets[1:])
    return offsets, (key & 0xFFFFFFFF).astype(np.int32), merged
