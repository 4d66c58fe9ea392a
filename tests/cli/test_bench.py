"""`gamlp bench` and `gamlp run --model`, as a researcher types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from gamlp import bench
from gamlp.bench import tables
from gamlp.errors import GamlpError
from gamlp.graph import Split
from gamlp.graph.datasets.loading import load
from gamlp.peers.registry import recipe_for
from gamlp.peers.single import run_method
from tests.cli.people import Call

SMALL = """
name: citation
title: A small table
source: {paper: "Someone, 2022", label: "tab:small"}
datasets:
  karate: {title: Karate}
  ogbn-products: {title: Products}
methods:
  MLP: {recipe: mlp, changes: {training.epochs: 3, model.hidden: 8}}
  SGC: {recipe: sgc, changes: {training.epochs: 3}}
published:
  SGC: {karate: [50.0, 1.0], ogbn-products: [75.87, 0.14]}
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The table 'citation' is a small one, and no dataset is at hand but the bundled ones."""
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    content = tables.read_table(tables.load_yaml(SMALL))
    read = tables.table_of
    monkeypatch.setattr(bench, "table_of", lambda name: content if name == "citation" else read(name))


def test_a_table_is_run_written_and_shown_again(small: None, call: Call) -> None:
    ended = call("bench run citation --seeds 2 --work work --out out --threads 1")
    assert ended.code == 0, ended.err
    assert "| SGC |" in ended.out and "50.0 ± 1.0" in ended.out and "not at hand" in ended.out
    written = {path.name for path in Path("out").iterdir()}
    assert written == {"runs", *(f"citation.{ending}" for ending in ("md", "csv", "json", "png", "svg"))}
    rows = json.loads(Path("out/citation.json").read_text())["rows"]
    assert len({row["method"] for row in rows if row["ours"] is not None}) == 2
    again = call("bench show citation --work work --out again --record out/runs")
    assert again.code == 0
    assert Path("again/citation.csv").read_text() == Path("out/citation.csv").read_text()


def test_pages_go_on_from_what_was_committed(small: None, call: Call) -> None:
    """The record beside the pages is used by itself; without it numbers stay, and the page marks them."""
    ended = call("bench run citation --seeds 1 --work one --out out --threads 1")
    assert ended.code == 0, ended.err
    assert "gamlp: 2 runs are missing, and what they take is not known yet; the budget is 60 min" in ended.err
    record = Path("out/runs/citation.jsonl")
    lines = record.read_text().splitlines()
    assert len(lines) == 2
    with record.open("a") as file:
        file.write('{"table": "citation", "meth')
    ended = call("bench run citation --seeds 2 --methods SGC --work two --out out --threads 1")
    assert ended.code == 0, ended.err
    assert "out/runs/citation.jsonl ends within a line: it is passed over" in ended.err
    (new,) = record.read_text().splitlines()[2:]
    assert (json.loads(new)["method"], json.loads(new)["seed"]) == ("SGC", 1), "only what is missing ran"
    rows = {row["method"]: row["seeds"] for row in json.loads(Path("out/citation.json").read_text())["rows"]}
    assert rows["MLP"] == 1 and "†" not in ended.out, "rows that were not asked for stay"
    again = call("bench run citation --seeds 2 --methods SGC --work three --out out --budget 1s")
    assert again.code == 0 and "gamlp: nothing is missing." in again.err
    record.unlink()
    ended = call("bench show citation --work three --out out")
    assert ended.code == 0 and ended.out.count(" † |") == 2, "numbers whose runs are lost"
    ended = call("bench show citation --work three --record out/citation.md")
    assert ended.code == 2 and "is a file, and --record is a folder" in ended.err


def test_status_says_what_is_there_and_what_the_rest_would_cost(small: None, call: Call) -> None:
    assert call("bench run citation --seeds 1 --methods SGC --work work --out out --threads 1").code == 0
    ended = call("bench status citation --work work --out out --json")
    assert ended.code == 0, ended.err
    (found,) = json.loads(ended.out)
    assert (found["cells"], found["runs"], found["missing"]["runs"], found["missing"]["unknown"]) == (2, 1, 19, 10)
    shown = call("bench status citation sgc-steps --work work --out out")
    assert shown.code == 0 and "SGC on karate" in shown.out and "MLP on karate" in shown.out
    (row,) = [line.split() for line in shown.out.splitlines() if line.startswith("citation ")]
    assert row[:8] == ["citation", "0", "of", "2", "1", "0–1", "0", "19"] and row[-1] == "10"
    assert "citation, ogbn-products: not possible here" in shown.out and "sgc-steps" in shown.out


def test_nothing_measured_yet(small: None, call: Call) -> None:
    ended = call("bench show citation --work work")
    assert ended.code == 0 and "Nothing of it has been measured: gamlp bench run citation" in ended.out
    assert "75.87 ± 0.14" in ended.out, "published values are shown all the same"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bench run citatoin", "did you mean 'citation'?"),
        ("bench run citation --methods GTC", "the table has no method 'GTC'"),
        ("bench run citation --datasets cora", "the table has no dataset 'cora'"),
        ("bench run citation --budget soon", "'soon' is not a time"),
        ("run karate --model apnp", "there is no method 'apnp': did you mean 'appnp'?"),
        ("run karate --model sgc --recipe cora-jk", "give --model or --recipe, not both"),
    ],
)
def test_refusals(small: None, call: Call, words: str, said: str) -> None:
    ended = call(words)
    assert ended.code == 2 and said in ended.err and "Traceback" not in ended.err


def test_all_tables_and_methods_are_listed(call: Call) -> None:
    ended = call("bench list --json")
    assert [table["name"] for table in json.loads(ended.out)] == list(tables.NAMES)
    names = {method["name"] for method in json.loads(call("bench methods --json").out)}
    assert {"gamlp", "mlp", "sgc", "sign", "gcn", "gat", "label-propagation", "graphsaint"} <= names


def test_a_peer_without_a_bundle(call: Call) -> None:
    words = "run karate --model gcn --seeds 2 --set training.epochs=5 --threads 1 --out run"
    ended = call(words)
    assert ended.code == 0, ended.err
    assert "peak memory" in ended.out and "predictions.parquet" in ended.out
    table = pyarrow.parquet.read_table("run/predictions.parquet")
    assert table.num_rows == 34
    scores = json.loads(Path("run/evaluation.json").read_text())
    assert set(scores["seeds"]) == {"0", "1"}
    page = Path("run/report.html").read_text()
    assert "<script" in page and "karate" in page
    again = call(words)
    assert again.code == 0 and json.loads(Path("run/evaluation.json").read_text()) == scores, "nothing is run twice"
    other = call(words.replace("epochs=5", "epochs=6"))
    assert other.code == 2 and "holds another run" in other.err
    predicted = call("predict run --out more.parquet")
    assert predicted.code == 2 and "knows only its own graph" in predicted.err


def test_a_peer_on_hops_has_a_bundle(call: Call) -> None:
    ended = call("run karate --model sign --set training.epochs=5 --threads 1 --out run")
    assert ended.code == 0, ended.err
    assert Path("run/bundle.safetensors").exists()
    assert call("predict run --out more.parquet").code == 0


def test_a_peers_run_knows_its_split(tmp_path: Path) -> None:
    graph = load("karate")
    split, quick = graph.nodes.split, recipe_for("label-propagation")
    assert split is not None
    roles = np.array(split.roles)
    run_method(graph, quick, tmp_path / "run")
    roles[split.test[0]] = 0
    with pytest.raises(GamlpError, match="holds another run"):
        run_method(graph.with_targets(split=Split(roles)), quick, tmp_path / "run")


def test_a_peer_that_refuses_leaves_nothing(call: Call) -> None:
    ended = call('run karate --model gcn --set model.options={"heads":2} --out run')
    assert ended.code == 2 and "heads" in ended.err
    assert not Path("run").exists()
