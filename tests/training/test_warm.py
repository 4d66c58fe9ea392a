"""Training that starts from the weights of another run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Place
from gamlp.recipe import Recipe
from gamlp.run import prepare, train
from gamlp.training import Bundle, TrainingJob
from tests.graph.growing_tables import some_tables

RECIPE: dict[str, Any] = {"training": {"epochs": 3}, "model": {"hidden": 8}, "propagation": {"hops": 2}}


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    return {name: {**RECIPE.get(name, {}), **sections.get(name, {})} for name in RECIPE | sections}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the old tables, and the graph that has grown since."""
    folder = tmp_path_factory.mktemp("warm")
    tables = some_tables(folder)
    train(tables.graph(), RECIPE, folder / "run")
    tables.graph(grown=True)
    return folder


def test_training_goes_on_from_the_weights(trained: Path, tmp_path: Path) -> None:
    """A step of no size shows the weights that training began with."""
    still = changed(training={"epochs": 1, "learning_rate": 1e-30, "keep": "last"})
    found = train(trained / "grown", still, tmp_path / "run", warm=trained / "run")
    before, after = Bundle.load(trained / "run/bundle.safetensors"), Bundle.load(tmp_path / "run/bundle.safetensors")
    learned = [name for name, value in before.weights.items() if value.is_floating_point() and "running" not in name]
    assert learned and all(torch.equal(before.weights[name], after.weights[name]) for name in learned)
    assert any("training starts from the weights of" in note for note in found.notes)
    cold = train(trained / "grown", still, tmp_path / "cold").bundles[0]
    assert any(not torch.equal(before.weights[name], cold.weights[name]) for name in learned)


def test_several_processes_start_from_them_too(trained: Path, tmp_path: Path) -> None:

    prepared = prepare(Graph.open(trained / "grown"), Recipe.of(RECIPE), tmp_path)
    warm = str(trained / "run/bundle.safetensors")
    job = TrainingJob.of(replace(prepared, warm=warm), 0, tmp_path / "checkpoint", Place.of(tmp_path))
    assert job.prepared().warm == warm


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (changed(model={"hidden": 16}), "do not fit: '"),
        (changed(model={"name": "sign"}), "are of model '"),
    ],
)
def test_weights_that_do_not_fit_are_refused(recipe: dict[str, Any], said: str, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="the weights to start from") as error:
        train(trained / "grown", recipe, tmp_path / "run", warm=trained / "run")
    assert said in str(error.value)
    assert not (tmp_path / "run/bundle.safetensors").exists()


def test_classes_must_be_the_same(trained: Path, tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    for name in ("nodes", "all_nodes"):
        tables.place(name).write_text(tables.place(name).read_text().replace(",x\n", ",w\n"))
    with pytest.raises(GamlpError, match="the weights to start from are of other classes: 'w' is new"):
        train(tables.graph(), RECIPE, tmp_path / "run", warm=trained / "run")


def test_an_interrupted_run_goes_on_from_them_when_they_are_gone(trained: Path, tmp_path: Path) -> None:
    still = changed(training={"epochs": 1, "learning_rate": 1e-30, "keep": "last", "seeds": [0, 1]})
    train(trained / "grown", still, tmp_path / "run", warm=trained / "run")
    for left in ("seeds/1.safetensors", "bundle.safetensors"):  # as if killed before the second seed
        (tmp_path / "run" / left).unlink()
    found = train(trained / "grown", still, tmp_path / "run", resume=True).bundles[1]
    before = Bundle.load(trained / "run/bundle.safetensors").weights
    learned = [name for name, value in before.items() if value.is_floating_point() and "running" not in name]
    assert learned and all(torch.equal(before[name], found.weights[name]) for name in learned)
