"""Run by `make sanitize`: tests/kernel with the kernel that lies in a folder, in place of the one that is installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

NAME = "gamlp.kernel._native"


def main(folder: Path) -> int:
    """Of a sanitizer's finding nothing returns: it ends the process, with a report on the error stream."""
    (path,) = folder.glob("_native*")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None
    sys.modules[NAME] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from gamlp.kernel.native import native

    assert native() is module, "the tests would run with another kernel"
    tests = str(Path(__file__).parent / "kernel")
    # Output of a process that is ended is seen only where it is not held back.
    return int(pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow", tests]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
