"""loops.cpp, compiled for this machine: the kernel's tiles with other constants, a plain read, what a cache misses."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SOURCE = Path(__file__).parent / "loops.cpp"
KERNEL = Path(__file__).parents[1] / "src" / "gamlp" / "kernel"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-Wno-psabi", "-shared", "-fPIC")
WORD, ADDRESS, SMALL = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
SIGNATURES = {
    "read_memory": [ADDRESS, WORD],
    "sum_rows_of": [SMALL, SMALL, ADDRESS, ADDRESS, WORD, ADDRESS, ADDRESS, ADDRESS, WORD, WORD, WORD],
    "missed_rows": [ADDRESS, WORD, WORD],
    "encode_gaps": [ADDRESS, ADDRESS, WORD, ADDRESS],
    "decode_gaps": [ADDRESS, ADDRESS, WORD, ADDRESS],
}


@cache
def loops(**constants: int) -> ctypes.CDLL:
    """The compiled file with GAMLP_<NAME>=value for every constant; kept under the folder of temporary files."""
    defined = [f"-DGAMLP_{name.upper()}={value}" for name, value in sorted(constants.items())]
    sources = [SOURCE, *(KERNEL / f"{name}.hpp" for name in ("hop", "hop_rows", "storage", "windows"))]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in sources) + " ".join(defined).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / "gamlp-loops"
    folder.mkdir(exist_ok=True)
    built = folder / f"{key}.so"
    if not built.exists():
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            raise SystemExit("these measurements need a C++ compiler")
        new = folder / f"{key}.new"
        subprocess.run([compiler, *FLAGS, *defined, str(SOURCE), "-o", str(new)], check=True)
        new.rename(built)
    library = ctypes.CDLL(str(built))
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, WORD
    return library


def missed_rows(neighbours: Array, rows: int) -> int:
    """How many neighbours, in their order, are not among the `rows` rows that were read last (16 ways)."""
    return int(loops().missed_rows(neighbours.ctypes.data, len(neighbours), max(1, rows // 16)))
