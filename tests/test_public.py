"""What a person finds in `import gamlp`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import gamlp

NAMES = ["Bundle", "GamlpError", "Graph", "HopStore", "NodeClassifier", "Recipe", "explain", "load", "predict", "train"]


def test_completion_shows_what_there_is() -> None:
    assert [name for name in dir(gamlp) if not name.startswith("_")] == sorted(NAMES)
    assert all(callable(getattr(gamlp, name)) for name in NAMES)


def test_every_public_function_lists_its_arguments_and_shows_an_example() -> None:
    for name in ("load", "train", "predict", "explain"):
        function = getattr(gamlp, name)
        text = inspect.getdoc(function) or ""
        arguments = set(inspect.signature(function).parameters) - {"resume", "keep_finished"}
        assert not [one for one in arguments if f"{one}:" not in text and f"{one}," not in text], name
        assert ">>>" in text, name


def test_importing_is_quick_and_a_room_does_not_hide_a_function() -> None:
    """Seconds of the quickest of three: the machine may be busy."""
    script = (
        "import time; begun = time.perf_counter(); import gamlp; print(time.perf_counter() - begun)\n"
        "import gamlp.run, gamlp.explanation, gamlp.cli.main\n"
        "assert callable(gamlp.train) and callable(gamlp.explain) and callable(gamlp.load)"
    )
    command = [sys.executable, "-c", script]
    seconds = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)]
    assert min(seconds) < 0.3


def test_types_are_for_everybody() -> None:
    assert (Path(gamlp.__file__).parent / "py.typed").exists()
