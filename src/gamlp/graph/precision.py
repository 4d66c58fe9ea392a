"""float32 → the dtypes that features are stored in."""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import FloatName

# How arrays on disk hold them: bfloat16, which numpy lacks, as the uint16 of its bits.
STORED = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


def store_as(values: Array, dtype: FloatName) -> Array:
    """Finite float32 values as float32, float16 or the uint16 bits of bfloat16, rounded to nearest even.

    A value too large becomes infinite: see `too_large`.
    """
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def too_large(stored: Array, dtype: FloatName) -> Array:
    """Mask of stored values that the dtype could not hold."""
    if dtype == "bfloat16":
        return np.asarray((stored & 0x7F80) == 0x7F80)
    return ~np.isfinite(stored)


def cannot_hold(value: float, dtype: FloatName, **place: Any) -> GamlpError:
    """What is said of a feature that is too large for the dtype."""
    others = "float32 or bfloat16" if dtype == "float16" else "float32"
    return GamlpError(f"{value:g} is more than {dtype} can hold", hint=f"store features as {others}", **place)
