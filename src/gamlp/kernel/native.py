"""The compiled extension, or None with one warning that says what its absence costs."""

from __future__ import annotations

import importlib
import os
import warnings
from functools import cache
from typing import Any


@cache
def native() -> Any | None:
    """The extension module; None, with a warning, when it was not built or GAMLP_NO_KERNEL is set."""
    found = native_if_built()
    if found is None:
        warnings.warn(
            "gamlp's C++ kernel is absent: propagation falls back to torch, several times slower "
            "(install a C++ compiler and Python's headers, then reinstall gamlp)",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


@cache
def native_if_built() -> Any | None:
    """The same without a word, for what has a good fallback."""
    if os.environ.get("GAMLP_NO_KERNEL"):
        return None
    try:
        return importlib.import_module("gamlp.kernel._native")
    except ImportError:
        return None
