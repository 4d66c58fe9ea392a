"""`gamlp datasets` and `gamlp generate` as people type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gamlp.graph import Graph
from gamlp.graph.datasets.catalogue import DATASETS
from tests.forked import Done, gamlp


def answer(ran: Done) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_list_fits_a_terminal_and_says_what_is_missing_where(tmp_path: Path) -> None:
    ran = gamlp("datasets", "--data-dir", "data", folder=tmp_path, COLUMNS="80")
    assert ran.returncode == 0, ran.stderr
    listed = ran.stdout.split("cora is missing")[0]
    for name in DATASETS:
        assert any(line.startswith(name + " ") for line in listed.splitlines())
    assert "1,615,685,872" in listed
    assert "twitch-fr is missing: put edges.csv, features.json, target.csv into data/Twitch/FR" in ran.stdout


def test_the_list_as_json(data_dir: Path, tmp_path: Path) -> None:
    found = {one["name"]: one for one in answer(gamlp("datasets", "--json", folder=tmp_path, GAMLP_DATA=str(data_dir)))}
    assert set(found) == set(DATASETS)
    assert found["cora"]["present"] and found["cora"]["edges"] == 5278
    assert found["karate"]["source"] == "bundled"


def test_a_dataset_is_saved_as_a_graph_folder(tmp_path: Path) -> None:
    shown = answer(gamlp("datasets", "karate", "--out", "graph", "--json", folder=tmp_path))
    assert shown["nodes"][0]["nodes"] == 34
    assert Graph.open(tmp_path / "graph").relation.entries == 156


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("datasets", "corra"), "'corra' is neither a dataset nor a graph folder; did you mean cora."),
        (("datasets", "--out", "graph"), "--out needs the name of a dataset"),
        (("datasets", "karate", "--out", "full"), "full: already exists"),
        (("datasets", "cora", "--data-dir", "data"), "cora is missing: put ind.cora.x"),
        (("generate", "communities", "--edges", "0", "--out", "graph"), "edges is 0"),
        (("generate", "short-video", "--scale", "-1", "--out", "graph"), "scale -1"),
        (("generate", "mag-like", "--metapath", "paper-venue", "--out", "graph"), "metapath 'paper-venue'"),
    ],
)
def test_errors_are_one_sentence_with_exit_code_2(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    ran = gamlp(*words, folder=tmp_path)
    assert ran.returncode == 2
    assert told in ran.stderr and ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr
    assert not (tmp_path / "graph").exists()


def test_generate_writes_what_was_asked_for(tmp_path: Path) -> None:
    words = "generate communities --nodes 3000 --edges 20000 --features 16 --classes 4 --seed 1 --out a --json"
    shown = answer(gamlp(*words.split(), folder=tmp_path))
    assert shown["nodes"][0]["nodes"] == 3000 and shown["nodes"][0]["features"] == 16
    assert shown["relations"][0]["entries"] == pytest.approx(40_000, rel=0.01)
    words = "generate communities --nodes 3000 --edges 20000 --labelled 0.1 --train 0.5 --valid 0.2 --dtype float16"
    shown = answer(gamlp(*words.split(), "--out", "half", "--json", folder=tmp_path))
    assert [shown["nodes"][0][part] for part in ("train", "valid", "test")] == [150, 60, 90]
    assert {"labelled": 0.1, "dtype": "float16", "edges": 20_000}.items() <= shown["source"].items()
    shown = answer(gamlp("generate", "short-video", "--scale", "0.002", "--out", "b", "--json", folder=tmp_path))
    assert shown["nodes"][0]["nodes"] == 2000 and shown["nodes"][0]["classes"] == 11
    words = "generate mag-like --scale 0.005 --metapath paper-author --classes 4 --width 16 --features paper --out c"
    shown = answer(gamlp(*words.split(), "--signal", "0.5", "--own", "1", "--json", folder=tmp_path))
    assert [(node_type["type"], node_type["nodes"], node_type["features"]) for node_type in shown["nodes"]] == [
        ("paper", 3682, 16),
        ("author", 5673, 0),
        ("institution", 44, 0),
        ("field", 300, 0),
    ]
    asked = {"metapath": "paper-author", "classes": 4, "signal": 0.5, "own": 1.0, "scale": 0.005}
    assert asked.items() <= shown["source"].items()


@pytest.mark.parametrize(
    "words",
    [
        ("datasets",),
        ("generate",),
        ("generate", "communities"),
        ("generate", "short-video"),
        ("generate", "mag-like"),
    ],
)
def test_help_teaches_with_an_example(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = gamlp(*words, "--help", folder=tmp_path, COLUMNS="120")
    assert ran.returncode == 0
    assert f"gamlp {words[0]}" in ran.stdout.split("Usage:")[1].split("\n", 1)[1]
