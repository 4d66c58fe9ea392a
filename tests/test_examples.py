"""Examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import gamlp

_SOURCE = Path(gamlp.__file__).parent
_WITH_EXAMPLES = sorted(path for path in _SOURCE.rglob("*.py") if ">>>" in path.read_text())


@pytest.mark.parametrize("path", _WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings_are_right(path: Path) -> None:
    name = ".".join(("gamlp", *path.relative_to(_SOURCE).with_suffix("").parts))
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0 and results.failed == 0
