"""Real graphs, trained end to end: far from tuned, and far better than what a mistake would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gamlp.graph.datasets.loading import load
from gamlp.recipe import Recipe
from gamlp.run.evaluation import evaluate_run
from gamlp.run.preparation import prepare
from gamlp.run.training import train_run
from gamlp.training.run_folder import About, RunFolder
from tests.training.small import ONE_THREAD

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {
    "propagation": {"hops": 6, "scaling": "row", "label_hops": 3},
    "model": {"hidden": 32, "layers": 2, "input_dropout": 0.5, "beta": 0},
    "training": {"epochs": 60, "weight_decay": 5e-4},
}


@pytest.mark.parametrize(
    "changes",
    [
        {"model.attention": "jk"},
        {"model.attention": "recursive"},
        {"model.attention": "jk", "model.beta": 0.5, "propagation.folds": 5},
    ],
    ids=["jk", "recursive", "jk with cross-fitted labels"],
)
def test_cora_is_learned_from_its_140_training_rows(data_dir: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    graph = load("cora", data_dir)
    recipe = Recipe.of(QUICK).changed(changes)
    prepared = prepare(graph, recipe, tmp_path, resources=ONE_THREAD)
    run = RunFolder.create(tmp_path, About(graph=None, store="hops"), recipe, resume=False)
    train_run(prepared, run, resources=ONE_THREAD)
    report = evaluate_run(run, resources=ONE_THREAD)
    assert (len(prepared.train), report["rows"]) == (140, 1000)
    assert report["mean"]["score"] > 0.77
