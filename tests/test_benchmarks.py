"""Benchmarks run: small, for what they print and write, not for how fast it is."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gamlp.models import GAMLP, Shape
from gamlp.sizing import recorded_rates

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.long
def test_training_measures_every_contestant_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "training.json"
    command = [sys.executable, str(BENCHMARKS / "training.py"), "--quick", "--rounds", "1", "--threads", "1"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    parts = results["times"]
    assert {part: len(times) for part, times in parts.items()} == {
        "labels": 4, "published": 4, "attention, K = 2": 3, "K = 2": 13, "attention, K = 3": 3, "K = 3": 13,
    }  # fmt: skip
    assert all(len(times) == 1 and times[0] > 0 for part in parts.values() for times in part.values())
    assert all(one["memory"] > 0 for one in results["evaluation"].values())
    page = out.with_suffix(".md").read_text()
    for words in ("GAMLP(R) ÷ SGC", "hops in lists ÷ ours", "chunks of 64 shuffled ÷ in memory", "its figures mean"):
        assert words in page
    again = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "all is measured" in again.stdout
    assert json.loads(out.read_text())["times"] == parts, "what was measured is not measured again"


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_hops_in_lists_are_the_same_equations_as_ours(
    attention: str, published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from written_out import InLists, Sizes

    sizes = Sizes(features=6, classes=4, hops=3, label_hops=2, hidden=8, layers=4, label_layers=3)
    options: dict[str, Any] = {"hidden": 8, "layers": 4, "label_layers": 3, "attention": attention}
    if published:
        options |= {"batch_norm": True, "hop_mlp": True, "residual": True, "initial_residual": 0.5}
    ours = GAMLP(Shape(6, 4, 3, 2), **options).eval()
    theirs = InLists(sizes, attention, published=published).eval()
    with torch.no_grad():
        _copy_attention(ours.attention, theirs.attention)
        _copy_attention(ours.label_attention, theirs.label_attention)
        for own, other in ((ours.mlp, theirs.mlp), (ours.label_mlp, theirs.label_mlp)):
            for linear, into in zip(own.linear, [*(block[0] for block in other.blocks), other.last]):
                into.load_state_dict(linear.state_dict())
        if published:
            theirs.residual.load_state_dict(ours.residual.state_dict())
            for hop, each in enumerate(theirs.maps):
                each[0].weight.copy_(ours.hop_mlp.weight[hop].t())
                each[0].bias.copy_(ours.hop_mlp.bias[hop, 0])
    x, y = torch.randn(9, 4, 6), torch.rand(9, 3, 4)
    found = theirs(list(x.unbind(1)), list(y.unbind(1)))
    torch.testing.assert_close(found, ours(x.unsqueeze(1), y.unsqueeze(1)), rtol=1e-4, atol=1e-5)


def _copy_attention(own: Any, into: Any) -> None:
    if hasattr(own, "vectors"):
        into.score.weight.copy_(own.vectors.t().reshape(1, -1))
        return
    into.score.weight.copy_(torch.cat([own.vector, own.reference_vector])[None])
    for linear, other in zip(own.mlp.linear, [part for part in into.reference if isinstance(part, nn.Linear)]):
        other.load_state_dict(linear.state_dict())


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


@pytest.mark.long
def test_starting_is_measured_beside_an_empty_python(tmp_path: Path) -> None:
    out = tmp_path / "startup.md"
    command = [sys.executable, str(BENCHMARKS / "startup.py"), "--rounds", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in out.read_text().splitlines() if line.endswith((" met |", "missed** |"))]
    assert [row[0] for row in rows] == ["| `gamlp --help`", "| `gamlp predict, one row`"]


@pytest.mark.slow
def test_the_page_of_sizes_is_what_its_command_writes(tmp_path: Path) -> None:
    out = tmp_path / "sizing.md"
    command = [sys.executable, str(BENCHMARKS / "spark_sizing.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.read_text() == (BENCHMARKS.parent / "docs" / "results" / "spark-sizing.md").read_text()


def test_plan_takes_the_rates_of_the_page_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = json.loads((BENCHMARKS.parent / "docs" / "results" / "spark-steps.json").read_text())
    for name, rate in importlib.import_module("spark_steps").plan_rates(found).items():
        assert getattr(recorded_rates(2), name) == pytest.approx(rate, rel=0.05), name


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


@pytest.mark.long
def test_the_job_of_papers100m_runs_from_nothing_to_a_page_and_survives_kills(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "papers100m.py"), "--scale", "0.0001", "--epochs", "1", "--kill", "4"]
    options = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "results")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "results" / "papers100m" / "steps.json").read_text())["0.0001"]["steps"]
    assert [go["killed"] for go in steps["propagate"]["goes"]] == [True, False]
    assert list(steps)[2:] == [f"{verb} {short}" for short in ("JK", "R") for verb in ("train", "evaluate", "predict")]
    page = (tmp_path / "results" / "papers100m.md").read_text()
    assert "| peak anonymous memory ÷ (budget + 300 MB) | ≤ 1 |" in page
    assert "GAMLP(JK), 1 epoch" in page
    assert not (tmp_path / "work").exists(), "graph, hops and runs are removed"


@pytest.mark.slow
def test_serving_measures_its_parts_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "serving.json"
    command = [
        sys.executable,
        str(BENCHMARKS / "serving.py"),
        "--quick",
        "--scale",
        "0.001",
        "--work",
        str(tmp_path / "work"),
    ]
    parts = ("process", "http", "known", "pyg")
    done = subprocess.run([*command, "--out", str(out), "--parts", *parts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["parts"]
    assert set(results) == set(parts)
    assert results["http"]["statuses"] == {"200": 400} and results["http"]["difference"] <= 1e-6
    page = out.with_suffix(".md").read_text()
    assert all(words in page for words in ("p99, ms", "rows a second", "PyG, the whole neighbourhood"))


def test_who_watches_notes_what_is_known_so_far_and_passes_over_what_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import watched

    # Folders come and go while the size of all is looked at.
    each = "os.mkdir(f'{i}'); open(f'{i}/file', 'w').close(); os.remove(f'{i}/file'); os.rmdir(f'{i}')"
    script = f"import os\nfor i in range(3000): {each}"
    monkeypatch.setattr(watched, "_PAUSE", 0.0)
    monkeypatch.setattr(watched, "_JOURNAL", 0.0)
    monkeypatch.chdir(tmp_path)
    found = watched.watch([sys.executable, "-c", script], tmp_path, journal=tmp_path.parent / f"{tmp_path.name}.json")
    noted = json.loads((tmp_path.parent / f"{tmp_path.name}.json").read_text())
    assert found.code == 0 and 0 < noted["seconds"] <= found.seconds and noted["anonymous"] <= found.anonymous


def test_a_go_whose_watcher_ended_is_counted_when_it_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import papers100m
    from watched import Watched

    step = papers100m.Step("propagate", ["--version"], tmp_path / "made", again=["--help"], kill=60.0)
    words: list[list[str]] = []

    def ended(given: list[str], folder: Path, kill: float | None, said: Path | None, journal: Path) -> Watched:
        words.append(given)
        journal.write_text(json.dumps(vars(Watched(seconds=7.0, processor=3.0))))
        if len(words) < 3:
            raise KeyboardInterrupt
        assert kill is None, "it was ended before"
        return Watched(seconds=2.0, processor=1.0)

    monkeypatch.setattr(papers100m, "watch", ended)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            papers100m.measured(step, tmp_path)
    found = papers100m.measured(step, tmp_path)
    assert [(go["seconds"], go["killed"]) for go in found["goes"]] == [(7.0, True), (7.0, True), (2.0, False)]
    assert words[2][-1] == "--help" and "--help" not in words[0]


@pytest.mark.long
def test_exchanges_are_measured_with_one_two_and_four_processes(tmp_path: Path) -> None:
    out = tmp_path / "exchanges.json"
    command = [sys.executable, str(BENCHMARKS / "exchanges.py"), "--quick", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rates = json.loads(out.read_text())["rates"]
    assert set(rates) == {"all-reduce", "server", "server, 2 slices"}
    assert all(
        set(found) == {"1", "2", "4"} and all(rate > 0 for (rate,) in found.values()) for found in rates.values()
    )
    assert "| server, 2 slices |" in out.with_suffix(".md").read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and json.loads(out.read_text())["rates"] == rates, "it is not measured again"


@pytest.mark.long
def test_peers_are_measured_beside_an_earlier_revision(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=BENCHMARKS, capture_output=True, check=False).returncode:
        pytest.skip("these sources are no clone, and have no revisions")
    out = tmp_path / "slow-peers.json"
    command = [sys.executable, str(BENCHMARKS / "slow_peers.py"), "--quick", "--rounds", "1", "--before", "HEAD"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["peers"]
    assert [(one["peer"], one["dataset"]) for one in found] == [("gcn", "karate"), ("gat", "karate")]
    assert all(one["now"] > 0 and one["before"] > 0 and len(one["profile"]) == 4 for one in found)
    page = out.with_suffix(".md").read_text()
    assert "## karate" in page and "| gcn |" in page and "--before HEAD" in page
