"""Benchmarks run: small, for what they print and write, not for how fast it is."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.skipif(find_spec("pyspark") is None or shutil.which("java") is None, reason="Spark needs pyspark and Java")
def test_spark_measures_ours_beside_a_shuffle_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "spark.json"
    command = [sys.executable, str(BENCHMARKS / "spark.py"), "--quick", "--rounds", "1", "--hops", "4"]
    options = ["--parts", "contest", "--work", str(tmp_path), "--out", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    contest = json.loads(out.read_text())["contest"]
    for kind in ("ours", "shuffle of rows", "shuffle of packed rows"):
        assert contest[kind]["cpu"] > 0
        assert contest[kind]["read"] > 0
        assert contest[kind]["memory"]["executors' Java"] > 0
    page = out.with_suffix(".md").read_text()
    assert "| shuffle of rows ÷ ours | ≥ 3 |" in page
    assert "its figures mean nothing" in page


@pytest.mark.long
def test_the_cost_of_verifying_is_measured_for_every_job(tmp_path: Path) -> None:
    out = tmp_path / "verifying.md"
    command = [sys.executable, str(BENCHMARKS / "verifying.py"), "--nodes", "2000", "--edges", "8000", "--epochs", "1"]
    done = subprocess.run([*command, "--rounds", "1", "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in out.read_text().splitlines() if line.endswith((" met |", "missed** |"))]
    assert [row[0] for row in rows] == ["| propagate", "| train", "| predict"]
    assert all(float(row[2]) > 0 for row in rows), "every job verifies what it reads"


@pytest.mark.slow
def test_the_page_of_sizes_is_what_its_command_writes(tmp_path: Path) -> None:
    out = tmp_path / "sizing.md"
    command = [sys.executable, str(BENCHMARKS / "spark_sizing.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.read_text() == (BENCHMARKS.parent / "docs" / "results" / "spark-sizing.md").read_text()


@pytest.mark.long
def test_propagation_over_subsets_is_measured_beside_its_bound(tmp_path: Path) -> None:
    out = tmp_path / "subsets.json"
    command = [sys.executable, str(BENCHMARKS / "propagation.py"), "--shapes", "--parts", "subsets"]
    options = ["--scale", "0.001", "--work", str(tmp_path), "--out", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["subsets"]
    assert len(found["subsets"]) == 8
    assert 0 < found["anonymous"] < found["resident"] < found["limit"]
    assert found["stored"] > 8 * 6 * 736 * 128 * 2  # subsets, hops, papers, columns, bytes
    assert "peak resident memory" in out.with_suffix(".md").read_text()


@pytest.mark.long
def test_a_hop_is_measured_beside_its_bound_and_shapes_are_added(tmp_path: Path) -> None:
    out = tmp_path / "propagation.json"
    command = [sys.executable, str(BENCHMARKS / "propagation.py"), "--rounds", "1", "--work", str(tmp_path)]
    for parts in (["hop"], ["coo"]):
        options = ["--shapes", "small", "--parts", *parts, "--add", "--out", str(out)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    shape = found["shapes"]["small"]
    moved = shape["hop"]["moved"]["float32"]
    assert moved["distinct"] <= moved["missed"] <= moved["gathered"]
    assert moved["bytes"] == moved["missed"] + 4 * shape["entries"] + shape["nodes"] * (8 + 4 * 24)
    assert shape["hop"]["seconds"]["bound, float32"] == moved["bytes"] / found["bandwidth"]
    assert shape["coo"]["ratios"]["SIGN / ours"] > 0


def test_a_ratio_under_its_bound_is_told_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    record = importlib.import_module("record")
    hop = {"ratios": {"ours / bound": 0.97, "ours / bound float16": 1.2}, "seconds": {}}
    shape = {"nodes": 1, "entries": 1, "features": 1, "hop": hop}
    results = {"date": "", "machine": "", "versions": "", "bandwidth": 1e9, "shapes": {"a": shape}}
    under, over = [line for line in record.page(results, "").splitlines() if "÷ bound" in line]
    assert "0.97 | met; under 1: the caches kept rows" in under
    assert over.endswith("| 1.20 | met |")


@pytest.mark.long
def test_what_was_tried_becomes_a_table_of_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((BENCHMARKS.parent / "docs" / "propagation.md").read_text())
    command = [sys.executable, str(BENCHMARKS / "tried.py"), "--quick", "--out", str(tmp_path / "tried.json")]
    done = subprocess.run([*command, "--page", str(page)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = page.read_text()
    assert written.count("| pages of 1 GiB |") == 1
    assert written.count("<!-- end of tried -->") == 1
    assert "| 208 bytes in 256 |" in written


@pytest.mark.long
def test_mixed_columns_are_measured_beside_floats_and_pandas(tmp_path: Path) -> None:
    out = tmp_path / "tables.md"
    command = [
        sys.executable,
        str(BENCHMARKS / "tables.py"),
        "--rows",
        "3000",
        "--rounds",
        "1",
        "--work",
        str(tmp_path),
    ]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mixed, floats, pandas = json.loads(out.with_suffix(".json").read_text()).values()
    assert mixed["features"] == pandas["features"] == 86 and floats["features"] == 20  # the same sorts of features
    assert min(one["processor"] for one in (mixed, floats, pandas)) > 0
    verdicts = [line for line in out.read_text().splitlines() if line.endswith((" met |", "missed** |"))]
    assert len(verdicts) == 3
