"""Run by `make sanitize`: tests/kernel with the kernel that lies in a folder, in place of the one that is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

NAME = "gamlp.kernel._native"


def main(folder: Path) -> int:
    """Of a sanitizer's finding nothing returns: it ends the process, with a report on the error stream."""
    load(folder)
    found = subprocess.run([sys.executable, "-c", _OUTSIDE, str(folder)], capture_output=True, text=True)
    assert "AddressSanitizer: heap-buffer-overflow" in found.stderr, f"nothing is looked for: {found.stderr}"
    tests = str(Path(__file__).parent / "kernel")
    # Output of a process that is ended is seen only where it is not held back.
    return int(pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow", tests]))


def load(folder: Path) -> None:
    """Put the kernel of the folder where gamlp looks for its own."""
    (path,) = folder.glob("_native*")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None
    sys.modules[NAME] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from gamlp.kernel.native import native

    assert native() is module, "the tests would run with another kernel"


# A neighbour behind the last row, which a hop trusts its caller to have looked for: a sanitizer must see it.
_OUTSIDE = """
import sys
from pathlib import Path
import numpy as np
from tests.sanitized import load
load(Path(sys.argv[1]))
from gamlp.kernel import HopTask, hop
src, neighbours = np.zeros((1000, 8), np.float32), np.array([1000], np.int32)
hop(HopTask(np.array([0, 1]), neighbours, None, None, 0, False, src, np.zeros_like(src)), 0, 1)
"""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
