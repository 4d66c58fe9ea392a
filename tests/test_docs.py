"""Every command and every Python block in README.md and docs/ is run, in order, in an empty folder for each page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[list[str]]:
    """Commands of a shell block; continued lines are joined, comments dropped."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for kind, block in _FENCE.findall(page.read_text()):
        assert kind in ("sh", "python"), f"{page.name}: a {kind} block is run by nobody"
        for words in [[sys.executable, "-c", block]] if kind == "python" else commands(block):
            if words[0] == "make":  # what it would run; running it here would never end
                words = ["make", "--dry-run", "--directory", str(ROOT), *words[1:]]
            else:
                assert words[0] in ("gamlp", sys.executable), f"{page.name}: '{words[0]}' is run by nobody"
            done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{page.name}: {shlex.join(words)[:300]}\n{done.stderr[-2000:]}"


def test_commands_of_other_kinds_would_be_noticed() -> None:
    assert commands("gamlp a \\\n  --b c  # why\n\n# nothing\nmake run") == [
        ["gamlp", "a", "--b", "c"],
        ["make", "run"],
    ]
