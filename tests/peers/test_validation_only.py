"""Runs of a search look at no test row: none is scored, and labels there change nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gamlp.peers.hops
import gamlp.peers.labels
import gamlp.peers.whole_graph
from gamlp.graph import Graph
from gamlp.graph.datasets import load
from gamlp.peers import Report, Workspace, recipe_for, run
from gamlp.recipe import Recipe

QUICK = {"training.epochs": 6, "training.patience": 0, "training.window": 3, "model.hidden": 8}
METHODS = {
    "jk": Recipe.of("jk"),
    "gcn": recipe_for("gcn"),
    "unimp": recipe_for("unimp"),
    "label-propagation": recipe_for("label-propagation"),
    "correct-and-smooth": Recipe.of("correct-and-smooth"),
    "label-reuse": Recipe.of("label-reuse").changed({"propagation.folds": 2}),
}


def flipped(graph: Graph) -> Graph:
    """With every test row of another class."""
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    values = np.array(labels.values)
    values[split.test] = (values[split.test] + 1) % len(labels.classes)
    return graph.with_targets(labels=replace(labels, values=values))


@pytest.mark.parametrize("name", METHODS)
def test_labels_of_test_rows_change_nothing_and_no_test_score_is_counted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in ("gcn", "unimp"):
        pytest.importorskip("torch_geometric")
    graph = load("karate")
    recipe = METHODS[name] if name == "label-propagation" else METHODS[name].changed(QUICK)
    looked: list[str] = []
    for room in (gamlp.peers.hops, gamlp.peers.whole_graph):
        monkeypatch.setattr(room, "full_report", lambda *_, **__: looked.append("test"))
    labelled = gamlp.peers.labels.labelled

    def watched(graph: Graph, *parts: str) -> object:
        looked.extend(part for part in parts if part == "test")
        return labelled(graph, *parts)

    monkeypatch.setattr(gamlp.peers.labels, "labelled", watched)
    found = [
        run(one, recipe, 0, Workspace(tmp_path / str(number), score_test=False))
        for number, one in enumerate((graph, flipped(graph)))
    ]
    assert found[0].valid == found[1].valid and found[0].valid_mean == found[1].valid_mean
    assert found[0].test == {} and found[0].tests == {} and not looked


def test_rows_that_are_kept_are_enough_and_change_nothing(tmp_path: Path) -> None:
    graph, recipe = load("digits"), Recipe.of("jk").changed(QUICK)
    split = graph.nodes.split
    assert split is not None

    def found(place: str, kept: object) -> Report:
        return run(graph, recipe, 0, Workspace(tmp_path / place, kept=kept, score_test=False))  # type: ignore[arg-type]

    assert found("some", split.rows("train", "valid")).valid == found("all", None).valid
    assert sum(file.stat().st_size for file in (tmp_path / "some").rglob("*.npy")) < sum(
        file.stat().st_size for file in (tmp_path / "all").rglob("*.npy")
    )


@pytest.mark.parametrize("name", ["jk", "gcn"])
def test_the_mean_over_the_window_is_that_of_the_epochs_before_the_kept_one(name: str, tmp_path: Path) -> None:
    if name == "gcn":
        pytest.importorskip("torch_geometric")
    lines: list[dict[str, float]] = []
    report = run(load("karate"), METHODS[name].changed(QUICK), 0, Workspace(tmp_path, observe=lines.append))
    last = [line for line in lines if report.epoch - 3 < line["epoch"] <= report.epoch]
    for key in ("score", "loss"):
        assert report.valid_mean[key] == pytest.approx(np.mean([line[f"valid_{key}"] for line in last]))
