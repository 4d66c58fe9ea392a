"""Storage types: float32 and half types, as the kernel and files know them; values from one to another."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.kernel.native import native

FloatName = Literal["float32", "float16", "bfloat16"]
CODES = {"float32": 0, "float16": 1, "bfloat16": 2}  # the kernel's numbers for them
# How arrays hold them, in memory and in files: bfloat16, which numpy lacks, as the uint16 of its bits.
NUMPY_DTYPES: dict[str, type[np.generic]] = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


def scale(
    src: Array,
    src_storage: str,
    dst: Array,
    dst_storage: str,
    *,
    rows: Array | None = None,
    row_factors: Array | None = None,
    column_factors: Array | None = None,
    row_floors: Array | None = None,
    column_floors: Array | None = None,
    baseline: bool = False,
) -> int:
    """dst[i, c] = src[rows[i], c] · row_factors[i] · column_factors[c]; returns how many values dst could not hold.

    These are the ones that are infinite or no number in dst. With floors they are also those that became zero in a half
    type and were above row_floors[i] · column_floors[c].
    """
    if rows is not None:
        _check_rows(rows, len(src))
    module = native()
    if module is None:
        floors = None
        if row_floors is not None or column_floors is not None:
            by_row = np.ones(len(dst), np.float32) if row_floors is None else row_floors
            floors = by_row[:, None] * (np.float32(1) if column_floors is None else column_floors)
        return _scale_with_torch(src, src_storage, dst, dst_storage, rows, row_factors, column_factors, floors)
    given = {"row_floors": row_floors, "column_floors": column_floors}
    floors_given = {name: floors for name, floors in given.items() if floors is not None}
    codes = CODES[src_storage], CODES[dst_storage]
    return int(module.scale(src, codes[0], dst, codes[1], rows, row_factors, column_factors, baseline, **floors_given))


def copy_rows(src: Array, rows: Array, dst: Array) -> None:
    """dst[i] = src[rows[i]], bits as they are; rows that lie anywhere are asked for ahead, as numpy does not."""
    _check_rows(rows, len(src))
    module = native()
    if module is None:
        dst[:] = src[rows]
    elif dst.size:
        module.copy_rows(src.view(np.uint8), rows, dst.view(np.uint8))


def _check_rows(rows: Array, count: int) -> None:
    if len(rows) and int(rows.view(np.uint64).max()) >= count:  # a negative one is huge
        raise IndexError(f"rows {rows.min()}..{rows.max()} of a matrix with {count} rows")


def _scale_with_torch(
    src: Array,
    src_storage: str,
    dst: Array,
    dst_storage: str,
    rows: Array | None,
    row_factors: Array | None,
    column_factors: Array | None,
    floors: Array | None,
) -> int:
    import torch

    values = as_torch(src if rows is None else src[rows], src_storage).float()
    if row_factors is not None:
        values = values * torch.from_numpy(np.ascontiguousarray(row_factors))[:, None]
    if column_factors is not None:
        values = values * torch.from_numpy(column_factors)
    into = as_torch(dst, dst_storage)
    into.copy_(values)
    return count_lost(values, into, None if floors is None else torch.from_numpy(np.ascontiguousarray(floors)))


def count_lost(values: Any, stored: Any, floors: Any) -> int:
    """Of tensors: how many are not finite as stored, or are zero there and were above their floor."""
    lost = ~stored.isfinite()
    if floors is not None:
        lost |= (stored == 0) & (values.abs() > floors)
    return int(lost.sum())


def as_torch(values: Array, storage: str) -> Any:
    """A tensor over the same memory."""
    import torch

    if storage == "float32":
        return torch.from_numpy(_writable(values))
    return torch.from_numpy(_writable(values).view(np.int16)).view(getattr(torch, storage))


def _writable(values: Array) -> Array:
    # torch warns about read-only memory (a mapped file), though only dst is ever written.
    return values if values.flags.writeable else np.array(values)


def store_as(values: Array, dtype: FloatName) -> Array:
    """Finite float32 values as float32, float16 or the uint16 bits of bfloat16, rounded to nearest even.

    A value that is too large becomes infinite, one that is too small zero: see `not_held`.
    """
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def not_held(values: Array, stored: Array, dtype: FloatName) -> Array:
    """Mask of values that are infinite as they are stored, or zero and were not."""
    if dtype == "bfloat16":
        return np.asarray(((stored & 0x7F80) == 0x7F80) | (((stored & 0x7FFF) == 0) & (values != 0)))
    return np.asarray(~np.isfinite(stored) | ((stored == 0) & (values != 0)))


def cannot_hold(value: float, dtype: FloatName, **place: Any) -> GamlpError:
    """What is said of a feature that is too large or too small for the dtype."""
    others = "float32 or bfloat16" if dtype == "float16" else "float32"
    wrong = "more than" if abs(value) > 1 else "nearer to zero than"
    return GamlpError(f"{value:g} is {wrong} {dtype} can hold", hint=f"store features as {others}", **place)
