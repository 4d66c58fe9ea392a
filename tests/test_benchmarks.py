"""Benchmarks run: small, for what they print and write, not for how fast it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_training_measures_every_contestant_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "training.json"
    command = [sys.executable, str(BENCHMARKS / "training.py"), "--quick", "--rounds", "1", "--threads", "1"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    for found in results["hops"].values():
        times = [best for part in ("attention", "epochs") for best, _ in found[part].values()]
        assert len(times) == 14
        assert min(times) > 0
    assert results["evaluation"]["runs"][1]["memory"] > 0
    page = out.with_suffix(".md").read_text()
    assert "GAMLP(R) ÷ SGC" in page
    assert "its figures mean nothing" in page
