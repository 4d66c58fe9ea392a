"""The compiled extension, or None with one warning that says what its absence costs."""

from __future__ import annotations

import importlib
import os
import warnings
from functools import cache
from typing import Any


@cache
def native() -> Any | None:
    """The extension module; None when it was not built or GAMLP_NO_KERNEL is set."""
    if not os.environ.get("GAMLP_NO_KERNEL"):
        try:
            return importlib.import_module("gamlp.kernel._native")
        except ImportError:
            pass
    warnings.warn(
        "gamlp's C++ kernel is absent: propagation falls back to torch, several times slower "
        "(install a C++ compiler and Python's headers, then reinstall gamlp)",
        RuntimeWarning,
        stacklevel=2,
    )
    return None
