"""One damaged file: every verb refuses in a sentence or answers as before; never a crash, never other answers.

`make fuzz` (or GAMLP_DAMAGES=2000) draws more, and anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

CASES = int(os.environ.get("GAMLP_DAMAGES", "24"))
SEED = int(os.environ.get("GAMLP_DAMAGE_SEED", "0"))
_SECONDS = 120 + 10 * CASES


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tests.damage", str(tmp_path), str(CASES), str(SEED)]
    done = subprocess.run(
        line, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert done.returncode == 0, f"ended by {done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    ended = [one for one in lines if "code" in one]
    assert {one["case"] for one in ended} == set(range(CASES))
    kinds: Counter[str] = Counter()
    for one in ended:
        if one["code"] == 0:
            assert one["same"], f"other answers: {one}"
            kinds["same"] += 1
            continue
        assert one["code"] == 2 and one["text"].startswith("gamlp: ") and one["text"].count("\n") == 1, one
        kinds["refused"] += 1
    # Both happen: some bytes hold nothing that a verb reads, and most hold something.
    assert kinds["refused"] > kinds.total() // 3 and kinds["same"], kinds
