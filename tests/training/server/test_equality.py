"""One worker with staleness 0 is one process: the same batches, the same steps, weights within 1e-9 in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.recipe import Recipe
from gamlp.training.loop import Machine
from gamlp.training.seeds import fit_prepared
from tests.training.ranks.ranks import CASES, CPU, OWN, taught
from tests.training.server.serving import fit_with, served
from tests.training.small import RECIPE, make_graph, prepared_in, trained

# Servers beside the parameter server, and the memory that hops may take; not every case in every way.
WAYS = {"held": (0, None), "read": (0, 0), "1 slice": (1, None), "3 slices": (3, 0)}
SLICED = ["several batches", "batch norm of small batches", "stops early", "averages", "distillation"]


@pytest.mark.parametrize(
    ("case", "way"), [(case, way) for case in CASES for way in WAYS if case in SLICED or "slice" not in way]
)
def test_one_worker_trains_the_model_of_one_process(tmp_path: Path, case: str, way: str) -> None:
    """Also of consistency, averages and a taught stage, and with the weights on several servers."""
    servers, memory = WAYS[way]
    changes = {
        **OWN,
        **CASES[case],
        "training.staleness": 0,
        "training.servers": servers,
        "training.exchange": "server",
    }
    graph = make_graph(multi_label=case == "many labels")
    prepared = prepared_in(tmp_path, graph, RECIPE.changed(changes, trust=OWN["model.name"]))
    if case == "distillation":
        prepared = taught(prepared, tmp_path / "teacher")
    alone = fit_prepared(prepared, 0, Machine(CPU, memory))
    lines: list[dict[str, Any]] = []
    with served(prepared) as (server, world):
        fitted = fit_with(prepared, world, memory, observe=lines.append)
        assert server.counts()["refused"] == {}
    assert fitted.weights.keys() == alone.weights.keys()
    for name, value in alone.weights.items():
        torch.testing.assert_close(fitted.weights[name], value, rtol=0, atol=1e-9)
    assert (fitted.epoch, fitted.epochs, fitted.stopped) == (alone.epoch, alone.epochs, alone.stopped)
    assert fitted.valid == pytest.approx(alone.valid, abs=1e-9)
    assert [line["epoch"] for line in lines] == list(range(1, alone.epochs + 1))
    assert fitted.epochs < 60  # the case that stops early does


def test_dropout_and_batch_norm_are_those_of_one_process(tmp_path: Path) -> None:
    changes = {"model__batch_norm": True, "model__dropout": 0.5, "training__batch_size": 7}
    prepared = prepared_in(tmp_path, make_graph(), **changes)
    alone = trained(prepared)
    with served(prepared) as (_, world):
        fitted = fit_with(prepared, world)
    for name, value in alone.weights.items():
        torch.testing.assert_close(fitted.weights[name], value, rtol=0, atol=1e-6)


def test_a_model_that_is_solved_is_refused(tmp_path: Path) -> None:
    recipe = Recipe.of({"propagation": {"hops": 1}, "model": {"name": "logistic", "beta": 0.0}})
    prepared = prepared_in(tmp_path, make_graph(), recipe)
    with served(prepared) as (_, world), pytest.raises(GamlpError, match="solved at once"):
        fit_with(prepared, world)
