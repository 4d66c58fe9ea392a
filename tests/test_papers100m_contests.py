"""The contests of papers100M's shape run, small: same arrays from all, sections that say what was met and missed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    out = tmp_path / "results.json"
    command = [sys.executable, str(BENCHMARKS / script), "--work", str(tmp_path / "work"), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout[done.stdout.index("## ") :]


@pytest.mark.slow
@pytest.mark.parametrize("ids", ["integers", "strings"])
@pytest.mark.skipif(find_spec("duckdb") is None or find_spec("polars") is None, reason="needs DuckDB and Polars")
def test_everybody_makes_the_same_arrays_of_tables(tmp_path: Path, ids: str) -> None:
    results, section = run("papers100m_tables.py", tmp_path, "--scale", "1e-5", "--memory", "2GiB", "--ids", ids)
    contests = results["contests"]
    assert len(contests) == 4 and {one["status"] for one in contests.values()} == {"done"}
    assert len({one["checksum"] for one in contests.values() if "checksum" in one}) == 1
    assert all(one["anonymous"] > 10 << 20 and one["processor"] > 0 for one in contests.values())
    assert f"| {ids}: DuckDB |" in section and f"| {ids}: faster than the best of the others" in section


@pytest.mark.slow
def test_peers_find_the_same_hops_and_one_that_ends_is_told_where(tmp_path: Path) -> None:
    asked = ["--contestants", "gamlp propagate", "scipy", "--scales"]
    results, section = run("papers100m_peers.py", tmp_path, *asked, "1e-4")
    ours, scipy = (results["contests"][f"0.0001: {name}"]["last"]["mean"] for name in ("gamlp propagate", "scipy"))
    assert scipy == pytest.approx(ours, rel=1e-5)
    assert "0.0001: no more time" in section or "scale 0.0001: no more time" in section
    results, section = run(
        "papers100m_peers.py", tmp_path, *asked, "2e-4", "4e-4", "--memory", "1MiB", "--seconds", "0.3"
    )
    ended = results["contests"]["0.0002: scipy"]
    assert ended["status"] in ("over the limit of memory", "not finished in time")
    assert "0.0004: scipy" not in results["contests"], "who ended is not asked again"
    assert "**out of" in section


def test_the_readme_says_what_was_measured() -> None:
    root = BENCHMARKS.parent
    run = json.loads((root / "docs" / "results" / "papers100m" / "steps.json").read_text())["1"]
    goes = [go for step in run["steps"].values() for go in step["goes"]]
    told = " ".join((root / "README.md").read_text().split())
    nodes, entries = run["facts"]["nodes"], run["facts"]["entries"]
    assert f"({nodes / 1e6:.0f} million nodes, {entries / 1e9:.1f} billion entries)" in told
    assert f"took two cores {sum(go['seconds'] for go in goes) / 60:.1f} minutes" in told
    assert f"within {max(go['anonymous'] for go in goes) / 2**30:.1f} GiB of anonymous memory" in told
    assert f"and {run['disk'] / 1e9:.0f} GB of disk" in told
