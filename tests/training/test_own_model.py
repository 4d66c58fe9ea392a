"""A user's own module, by import path: trained like any other, and never imported from a file that is not trusted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.run.evaluation import evaluate_run
from gamlp.run.training import train_run
from gamlp.training.bundle import Bundle
from gamlp.training.run_folder import About, RunFolder
from tests.training.small import ONE_THREAD, make_graph, prepared_in, same_weights

MINE = """
from pathlib import Path

import torch
from torch import nn

with Path(__file__).with_name("imported").open("a") as file:
    file.write("x")


class Mine(nn.Module):
    def __init__(self, shape, *, width=4):
        super().__init__()
        self.first = nn.Linear((shape.hops + 1) * shape.features, width)
        self.last = nn.Linear(width + (shape.label_hops + 1) * shape.classes, shape.classes)
        self.coarse = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16), requires_grad=False)
        self.tied = self.last

    def forward(self, x, y=None):
        return self.last(torch.cat([torch.relu(self.first(x.flatten(1))), y.flatten(1)], 1))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_model.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield tmp_path
    sys.modules.pop("own_model", None)


def times_imported(place: Path) -> int:
    mark = place / "code" / "imported"
    return len(mark.read_text()) if mark.exists() else 0


def trained_run(place: Path) -> RunFolder:
    changes = {"model__name": "own_model:Mine", "model__options": {"width": 5}, "training__seeds": [0, 1]}
    prepared = prepared_in(place / "run", make_graph(), **changes)
    run = RunFolder.create(place / "run", About(graph=None, store="hops"), prepared.recipe, resume=False)
    train_run(prepared, run, resources=ONE_THREAD)
    return run


def test_a_module_by_import_path_is_trained_kept_loaded_and_evaluated(place: Path) -> None:
    run = trained_run(place)
    bundle = Bundle.load(run.bundle_path, trust="own_model:Mine")
    assert bundle.weights["first.weight"].shape[0] == 5 and bundle.weights["coarse"].dtype == torch.bfloat16
    assert same_weights(dict(bundle.model().state_dict()), bundle.weights)
    report = evaluate_run(RunFolder.open(run.path, "own_model:Mine"), resources=ONE_THREAD)
    assert report["mean"]["score"] > 0.4 and len(report["seeds"]) == 2


def test_a_bundle_that_names_code_is_refused_without_trust_and_nothing_is_imported(place: Path) -> None:
    run = trained_run(place)
    assert times_imported(place) == 1
    sys.modules.pop("own_model")
    for trust in (None, "own_model:Other", "own_model", "torch.nn:Linear"):
        with pytest.raises(GamlpError, match="only when you name it; if you know it, say --trust own_model:Mine"):
            Bundle.load(run.bundle_path, trust)
        with pytest.raises(GamlpError, match="only when you name it; if you know it, say --trust own_model:Mine"):
            evaluate_run(RunFolder.open(run.path, trust), resources=ONE_THREAD)
    assert times_imported(place) == 1 and "own_model" not in sys.modules
    Bundle.load(run.bundle_path, "own_model:Mine").model()
    assert times_imported(place) == 2


def test_a_module_that_takes_other_arguments_is_told_before_training(place: Path) -> None:
    prepared = prepared_in(place, make_graph(), model__name="own_model:Mine", model__options={"depth": 5})
    run = RunFolder.create(place / "run", About(graph=None, store="hops"), prepared.recipe, resume=False)
    with pytest.raises(GamlpError, match=r"'own_model:Mine' cannot be made: .*depth"):
        train_run(prepared, run, resources=ONE_THREAD)
