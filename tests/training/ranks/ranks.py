"""What every rank of the tests runs: cases of training in one process group, so that starting costs once."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gamlp.graph.datasets.loading import load
from gamlp.models import GAMLP, Shape
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.training.batches import Batches
from gamlp.training.checkpoint import save_tensors, with_digest
from gamlp.training.loop import Fitted, Machine
from gamlp.training.ranks.world import World
from gamlp.training.rows import Prepared, from_store, unlabelled_rows
from gamlp.training.scores import evaluate
from gamlp.training.seeds import fit_prepared
from gamlp.training.teacher import read_teacher, write_teacher
from tests.training.small import NODES, ONE_THREAD, RECIPE, make_graph, prepared_in

CPU = torch.device("cpu")


class Double(nn.Module):
    """Two layers over all hops and label hops, in float64; a buffer and a penalty of its own."""

    def __init__(self, shape: Shape, *, norm: bool = False, penalty: float = 0.0) -> None:
        super().__init__()
        width = (shape.hops + 1) * shape.features + (shape.label_hops + 1) * shape.classes
        # Before a batch norm a bias changes nothing: its gradient is rounding alone, which Adam makes a step of.
        self.first = nn.Linear(width, 8, bias=not norm).double()
        self.last = nn.Linear(8, shape.classes).double()
        self.unused = nn.Parameter(torch.ones(2, dtype=torch.float64))  # no gradient: must not decay
        self.norm = nn.BatchNorm1d(8).double() if norm else None
        self.weight, self._cost = penalty, torch.zeros(())

    def penalty(self) -> Tensor:
        return self.weight * self._cost

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        assert y is not None
        found = self.first(torch.cat([x.flatten(1), y.flatten(1)], 1).double())
        if self.norm is not None:
            found = self.norm(found)
        found = torch.tanh(found)
        self._cost = found.square().mean()
        result: Tensor = self.last(found)
        return result


class Held(GAMLP):
    """Trains for some steps, and no further while the file is there that HELD names: a moment to be killed at."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, hidden=8, layers=2, batch_norm=True)
        self.steps = 0

    def forward(self, x: Tensor, y: Tensor | None = None, views: Sequence[int] | None = None) -> Tensor:
        self.steps += self.training
        while self.steps > 100 and Path(os.environ.get(HELD, "/nowhere")).exists():
            time.sleep(0.01)
        return super().forward(x, y, views)


HELD = "GAMLP_TEST_HELD"
OWN = {"model.name": "tests.training.ranks.ranks:Double"}
CASES: dict[str, dict[str, Any]] = {
    "one batch": {"training.batch_size": 1000},
    "several batches": {"training.batch_size": 8, "training.weight_decay": 0.1},
    "tiny batches": {"training.batch_size": 2, "training.epochs": 3},
    "a row left over": {"training.batch_size": 29, "model.options": {"norm": True}},
    "balanced": {"training.class_weights": "balanced", "training.optimizer": "adamw"},
    "penalty": {"model.options": {"penalty": 3.0}},
    "batch norm": {"model.options": {"norm": True}},
    "batch norm of small batches": {"model.options": {"norm": True}, "training.batch_size": 4, "training.epochs": 3},
    "stops early": {"training.epochs": 60, "training.patience": 2, "training.learning_rate": 0.2},
    "a metric of all rows": {"training.metric": "roc_auc", "training.monitor": "smooth", "training.window": 2},
    "many labels": {"training.class_weights": "balanced", "training.metric": "average_precision"},
    "consistency": {"consistency": {"confidence": 0.5, "batch_size": 5, "warmup": 2}, "training.batch_size": 8},
    "averages": {
        "consistency": {"teacher": "average", "distance": "kl", "batch_size": 3}, "training.ema": 0.7,
        "model.options": {"norm": True},
    },
    "distillation": {"training.stages": 2, "training.batch_size": 8, "model.options": {"norm": True}},
}  # fmt: skip


def recipe_of(case: str) -> Recipe:
    return RECIPE.changed({**OWN, **CASES[case]}, trust=OWN["model.name"])


def prepared_cases(folder: Path) -> dict[str, Prepared]:
    """One store of hops for one label a node, one for many."""
    found = {}
    for case in CASES:
        multi_label = case == "many labels"
        place = folder / ("many" if multi_label else "one")
        if (place / "hops" / "store.json").exists():  # ranks only read
            found[case] = from_store(HopStore.open(place / "hops"), recipe_of(case))
        else:
            found[case] = prepared_in(place, make_graph(multi_label=multi_label), recipe_of(case))
    found["distillation"] = taught(found["distillation"], folder / "teacher")
    return found


def taught(prepared: Prepared, folder: Path) -> Prepared:
    """By a teacher that is sure of some rows."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Double(prepared.shape)
        with torch.no_grad():
            model.last.weight.mul_(4)
    rows = unlabelled_rows(prepared)
    write_teacher(folder, model, rows, multi_label=False, reliable=0.5, device=CPU)
    assert 2 < len(read_teacher(folder, NODES).numbers) < len(rows)
    return replace(prepared, stage=1, teacher=str(folder))


def trained_cases(folder: Path, world: World) -> dict[str, Fitted]:
    """Every case with the hops held in memory and read from the store."""
    found = {}
    for case, prepared in prepared_cases(folder).items():
        for memory in (None, 0):
            machine = Machine(CPU, memory, world=world)
            found[f"{case}, {'held' if memory is None else 'read'}"] = fit_prepared(prepared, 0, machine)
    return found


def keep(place: Path, fitted: Fitted) -> None:
    facts = {"epoch": fitted.epoch, "epochs": fitted.epochs, "valid": fitted.valid, "stopped": fitted.stopped}
    text = json.dumps(facts)
    save_tensors(place, fitted.weights, with_digest(text, fitted.weights))


def main(folder: Path, out: Path) -> None:
    """Cases in float64, then with dropout an unbroken run and one that goes on from a checkpoint."""
    torch.set_num_threads(1)
    world = World.from_environment()
    with world.joined(CPU):
        for case, fitted in trained_cases(folder, world).items():
            keep(out / f"{case}.{world.rank}", fitted)
        prepared = prepared_cases(folder)["batch norm"]
        recipe = prepared.recipe.changed({"model.name": "gamlp", "model.options": {}, "model.batch_norm": True})
        prepared = replace(prepared, recipe=recipe)
        keep(out / f"unbroken.{world.rank}", fit_prepared(prepared, 0, Machine(CPU, world=world)))
        half = replace(prepared, recipe=recipe.changed({"training.epochs": 3}))
        machine = Machine(CPU, None, out / "checkpoint", 0.0, world)
        fit_prepared(half, 0, machine)
        torch.manual_seed(99)  # whatever the ranks drew meanwhile
        keep(out / f"resumed.{world.rank}", fit_prepared(prepared, 0, machine))
        # What rank 0 is told holds for all.
        often = replace(machine, checkpoint=out / "often", pause=lambda state: world.rank == 0 and state.epoch % 2 == 0)
        while (paused := fit_prepared(prepared, 0, often)).epochs < recipe.training.epochs:
            pass
        keep(out / f"paused.{world.rank}", paused)
        if world.size > 2:  # real data once: there the cost is in the epochs
            return
        if world.rank == 0:
            (out / "digits.json").write_text(json.dumps(digits_scores(folder, world)))
        else:
            digits_scores(folder, world)


def digits_of(folder: Path) -> Prepared:
    """Real data, with dropout and batch norm."""
    place = folder / "digits"
    recipe = Recipe.of({"model": {"batch_norm": True}, "training": {"epochs": 80, "batch_size": 256}})
    if (place / "hops" / "store.json").exists():
        return from_store(HopStore.open(place / "hops"), recipe)
    return prepare(load("digits"), recipe, place, resources=ONE_THREAD)


def digits_scores(folder: Path, world: World) -> list[float]:
    """Accuracy of test rows, for a few seeds."""
    prepared, found = digits_of(folder), []
    split = prepared.store.split
    assert split is not None and prepared.valid is not None
    test = Batches(replace(prepared.valid, rows=split.test), 10_000, CPU)
    for seed in range(4):
        fitted = fit_prepared(prepared, seed, Machine(CPU, world=world))
        found.append(evaluate(fitted.model, test)["score"])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
