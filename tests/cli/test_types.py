"""Graphs of several types by commands alone: generate, propagate, run, predict, evaluate, explain."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from tests.cli.conftest import Call

MADE = "generate mag-like --scale 0.002 --width 8 --classes 3 --signal 0.9 --out graph"
QUICK = "--set training.epochs=20 --set model.hidden=16 --set propagation.hops=2 --set propagation.label_hops=2"
CITES, TOPIC, WRITES = "paper-cites-paper", "paper-has_topic-field", "author-writes-paper"


@pytest.fixture
def graph(call: Call) -> Graph:
    ended = call(MADE)
    assert ended.code == 0, ended.err
    return Graph.open("graph")


def test_the_whole_path(call: Call, graph: Graph) -> None:
    ended = call(f"run graph --out run {QUICK}")
    assert ended.code == 0, ended.err
    assert "the same hops as" in ended.out, "subsets that are left out are told"
    recipe = Recipe.of(Path("run/recipe.yaml"))
    assert isinstance(recipe.relations.subsets, tuple) and len(recipe.relations.subsets) == 11

    ended = call("evaluate run --json")
    assert ended.code == 0, ended.err
    scores = json.loads(ended.out)
    ended = call("predict run --out predictions.csv")
    assert ended.code == 0, ended.err
    rows = list(csv.DictReader(Path("predictions.csv").read_text(encoding="utf-8").splitlines()))
    assert graph.nodes.split is not None and graph.nodes.labels is not None
    assert len(rows) == graph.nodes.count
    said = np.array([graph.nodes.labels.classes.index(row["label"]) for row in rows])
    test = graph.nodes.split.test
    right = float((said[test] == graph.nodes.labels.values[test]).mean())
    assert right == pytest.approx(scores["mean"]["score"], abs=1e-6)
    ended = call("predict run --graph graph --out again.csv")
    assert ended.code == 0, ended.err
    assert Path("again.csv").read_bytes() == Path("predictions.csv").read_bytes()

    ended = call("explain run --out w.json --out w.png --out w.csv")
    assert ended.code == 0, ended.err
    assert "Share of each subset of relations in every hop of features" in ended.out and TOPIC in ended.out
    assert Path("w.png").read_bytes().startswith(b"\x89PNG") and Path("w.png").stat().st_size > 5000
    found = json.loads(Path("w.json").read_text())["subsets"]
    for hop in range(3):
        assert sum(channel["shares"][hop] for channel in found["features"]) == pytest.approx(1, abs=1e-5)


def test_tables_of_several_types_run_in_one_command_as_ingested_before(call: Call) -> None:
    random = np.random.default_rng(0)
    classes = np.arange(60) % 2
    papers = "\n".join(f"p{row},{'xy'[classes[row]]},{value:.3f}" for row, value in enumerate(random.random(60)))
    Path("papers.csv").write_text(f"id,label,length\n{papers}\n")
    Path("authors.csv").write_text("id,age\n" + "\n".join(f"a{row},{30 + row}" for row in range(10)) + "\n")
    writes = "\n".join(f"a{random.integers(5) * 2 + classes[row]},p{row}" for row in range(60) for _ in range(2))
    Path("writes.csv").write_text(f"src,dst\n{writes}\n")
    tables = "--nodes paper=papers.csv --nodes author=authors.csv --edges writes=writes.csv --join writes=author:paper"
    quick = f"{QUICK} --set training.patience=0"
    ended = call(f"run {tables} --target paper {quick} --json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["run"] == "runs/paper" and Path(told["predictions"]).exists()
    assert call(f"ingest {tables} --out graph").code == 0
    ended = call(f"run graph --out again {quick} --json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["test"]["mean"] == told["test"]["mean"]
    assert call(f"run {tables} --target paper {quick}").code == 0, "a finished run shows its result"
    ended = call(f"run {tables.replace('author:', 'paper:')} --target paper {quick}")
    assert ended.code == 2 and "these tables, read with other options" in ended.err.replace("\n", " ")
    ended = call(f"run graph {tables}")
    assert ended.code == 2 and "give a dataset, or both --edges and --nodes" in ended.err.replace("\n", " ")


def test_propagate_settles_subsets_as_run_does_and_its_store_trains_by_itself(call: Call, graph: Graph) -> None:
    ended = call("propagate graph --out hops --hops 2 --label-hops 1 --json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert len(told["views"]) == 11 and len(told["notes"]) == 3
    assert told["views"][CITES] == {"links": [CITES], "types": ["paper"]}
    ended = call("propagate graph --out hops --hops 2 --label-hops 1")
    assert ended.code == 0 and ended.out.count("note: ") == 3
    assert "view: its relations" in ended.out and "paper, author, field" in ended.out.replace("\n", " ")
    ended = call("train hops --out run --set training.epochs=3 --set model.hidden=8")
    assert ended.code == 0, ended.err
    recipe = Recipe.of(Path("run/recipe.yaml"))
    assert isinstance(recipe.relations.subsets, tuple) and len(recipe.relations.subsets) == 11
    assert (recipe.propagation.hops, recipe.propagation.label_hops) == (2, 1)


def test_propagate_takes_a_list_a_sample_and_types_apart(call: Call, graph: Graph) -> None:
    line = f"propagate graph --out listed --hops 1 --label-hops 0 --subset {CITES} --subset {TOPIC}+{CITES}"
    line += " --set relations.separate_types=yes"
    ended = call(line)
    assert ended.code == 0, ended.err
    assert set(HopStore.open(Path("listed")).signals) == {
        f"features@{CITES}@paper",
        f"features@{CITES}+{TOPIC}@paper",
        f"features@{CITES}+{TOPIC}@field",
    }
    views = []
    for seed in (1, 1, 2):
        out = f"sample{len(views)}"
        line = f"propagate graph --out {out} --hops 2 --label-hops 0 --set relations.subsets=sample"
        line += " --set relations.count=4 --set relations.separate_types=no"
        ended = call(f"{line} --set relations.seed={seed}")
        assert ended.code == 0, ended.err
        views.append(sorted(HopStore.open(Path(out)).manifest.views))
        assert all(name.count("@") == 1 for name in HopStore.open(Path(out)).signals)
    assert views[0] == views[1] != views[2] and len(views[0]) == 4


def test_propagate_makes_features_where_there_are_none(call: Call) -> None:
    assert call(f"{MADE} --features paper").code == 0
    apart = f"--hops 1 --label-hops 0 --subset {WRITES} --set relations.separate_types=yes"
    ended = call(f"propagate graph --out mean {apart} --set relations.missing=mean")
    assert ended.code == 0, ended.err
    assert set(HopStore.open(Path("mean")).signals) == {f"features@{WRITES}@paper", f"features@{WRITES}@author"}
    assert list(Path("graph/made").glob("author-*.npy")), "kept with the graph"
    ended = call(f"propagate graph --out none {apart} --set relations.missing=none")
    assert ended.code == 0, ended.err
    assert set(HopStore.open(Path("none")).signals) == {f"features@{WRITES}@paper"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("propagate graph --out hops --subset paper-cites-papers", "did you mean 'paper-cites-paper'"),
        ("propagate graph --out hops --subset author-affiliated_with-institution", "does not touch paper"),
        ("propagate karate --out hops --set relations.count=3", "has one relation, and count were given for several"),
        ("run karate --out hops --set relations.subsets=[[edge]]", "the recipe lists subsets of several"),
        ("run graph --out hops --model sgc --set training.epochs=2", "reads one channel"),
        ("run graph --out hops --set training.setting=inductive", "inductive setting reads graphs of one relation"),
        (f"run graph --out hops --model sign --set training.subset_sample=2 {QUICK}", "reads all subsets"),
    ],
)
def test_refusals_are_one_sentence(line: str, said: str, call: Call, graph: Graph) -> None:
    ended = call(line)
    assert ended.code == 2 and said in ended.err.replace("\n", " "), ended.err
    assert "Traceback" not in ended.err
    assert not list(Path().glob("hops/store.json"))


def test_a_recipe_that_was_written_whole_propagates_a_graph_of_one_relation(call: Call, tmp_path: Path) -> None:
    """It names settings of several relations too, as they are without anybody's choice."""
    recipe = tmp_path / "whole.yaml"
    recipe.write_text(Recipe.of({"propagation": {"hops": 1, "label_hops": 0}}).to_yaml())
    assert "relations:" in recipe.read_text()
    ended = call(f"propagate karate --out hops --recipe {recipe}")
    assert ended.code == 0, ended.err
