"""`--metric`: what validation goes by is typed, refused, chosen by itself for a rare class, and said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from tests.forked import gamlp

QUICK = ("--set", "training.epochs=3", "--set", "model.hidden=8", "--device", "cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`graph`: 6 in 100 are of the second class."""
    place, random = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    labels = (np.arange(200) % 17 == 0).astype(np.int32)
    split = Split.of(200, train=np.arange(100), valid=np.arange(100, 150), test=np.arange(150, 200))
    edges, x = random.integers(0, 200, (2, 600)), random.normal(size=(200, 4)) + labels[:, None]
    Graph.from_arrays(edges, x, labels, split=split, name="rare").save(place / "graph")
    return place


def test_the_metric_is_trained_by_told_and_kept(place: Path) -> None:
    ran = gamlp("train", "graph", "--out", "auc", "--metric", "roc_auc", *QUICK, "--json", folder=place)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert set(told["valid"]["mean"]) == {"loss", "score", "metric"} and told["notes"] == []
    assert told["seeds"]["0"]["metric"] == "roc_auc"
    lines = [json.loads(line) for line in (place / "auc" / "metrics.jsonl").read_text().splitlines()]
    best = max(line["valid_metric"] for line in lines)
    assert told["valid"]["mean"]["metric"] == best


def test_a_rare_class_is_judged_by_average_precision_and_that_is_said(place: Path) -> None:
    ran = gamlp("train", "graph", "--out", "rare", *QUICK, folder=place, COLUMNS="200")
    assert ran.returncode == 0, ran.stderr
    said = " ".join((ran.stdout + ran.stderr).split())
    assert "note: the rarer of the two classes has 6.0 % of the training rows" in said
    assert "validation average precision, %" in said and "accuracy, %" in said


def test_a_metric_that_is_none_is_refused_in_a_sentence(place: Path) -> None:
    ran = gamlp("train", "graph", "--out", "none", "--metric", "f1", folder=place)
    assert ran.returncode == 2 and "'training.metric'" in ran.stderr and "'macro_f1'" in ran.stderr
    assert "Traceback" not in ran.stderr and not (place / "none").exists()
