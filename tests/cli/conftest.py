"""`gamlp` called in this process: what it prints, and how it ends."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path

import pytest

from gamlp.cli.main import main
from tests.cli.people import Call, Ended


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in an empty folder, as the installed command would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(line: str) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["gamlp", *shlex.split(line)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        shown = capsys.readouterr()
        return Ended(code, shown.out, shown.err)

    return run
