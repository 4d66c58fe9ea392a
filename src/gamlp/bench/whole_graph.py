"""Methods that pass messages: the whole graph in memory, trained through the one loop, on parts where it samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from gamlp.bench.contract import Place, Report, Run, Seconds, Task
from gamlp.bench.scoring import labelled, mean_of
from gamlp.bench.views import UNKNOWN, GraphRows, Sampler, View, view_of
from gamlp.graph.graph import Graph
from gamlp.graph.induced import induced
from gamlp.memory import PeakMemory
from gamlp.models.shape import Shape
from gamlp.propagation import feature_statistics
from gamlp.recipe import Recipe
from gamlp.training.checks import check_trainable
from gamlp.training.device import choose_device
from gamlp.training.loop import Machine, fit
from gamlp.training.metrics import probabilities
from gamlp.training.report import full_report

MakeModel = Callable[[Shape, Recipe], nn.Module]
MakeSampler = Callable[[GraphRows, Recipe, int], Sampler]


@dataclass(frozen=True)
class _Sides:
    """Training, validation and test rows; inductive ones stand on graphs of their own."""

    train: GraphRows
    valid: GraphRows | None
    tests: dict[str, GraphRows]


def message_passing(make: MakeModel, *, sampler: MakeSampler | None = None, masked: float | None = None) -> Run:
    """The contract for a torch module `forward(view, known) → logits of view.rows`.

    `masked`: the model reads known labels, and this share of training rows is hidden each epoch
    (`model.options.masked` changes it).
    """

    def run(task: Task, recipe: Recipe, seed: int, place: Place) -> Report:
        device = choose_device(place.resources.device)
        with PeakMemory() as peak, TemporaryDirectory() as folder:
            begun = time.monotonic()
            share = None if masked is None else float(recipe.model.options.get("masked", masked))
            sides = _sides(task, recipe, Path(folder), share)
            train = sides.train
            if sampler is not None:
                train = replace(train, sampler=sampler(train, recipe, seed))
            labels = task.graph.nodes.labels
            assert labels is not None
            shape = Shape(int(train.view.x.shape[1]), len(labels.classes), 0)
            prepared = time.monotonic()
            fitted = fit(
                lambda: make(shape, recipe), train, sides.valid, recipe.training,
                seed=seed, machine=Machine(device), observe=place.observe, progress=place.progress,
            )  # fmt: skip
            trained = time.monotonic()
            found = {name: full_report(fitted.model, rows.batches(0, device)) for name, rows in sides.tests.items()}
            ended = time.monotonic()
            chances = None
            if place.chances:
                whole = next(iter(sides.tests.values())) if not task.tests else sides.train
                with torch.no_grad():
                    logits = fitted.model(whole.view.of_rows(None), whole.known)
                chances = probabilities(logits, labels.many).cpu().numpy()
                if recipe.smoothing is not None:  # smoothing must know all rows: theirs is its inference
                    ended = time.monotonic()
        parameters = sum(value.numel() for value in fitted.model.parameters())
        return Report(
            recipe.model.name, seed, fitted.valid, mean_of(list(found.values())),
            Seconds(prepared - begun, trained - prepared, ended - trained), peak.bytes, parameters,
            fitted.epoch, fitted.epochs, fitted.stopped, found if task.tests else {}, chances,
        )  # fmt: skip

    return run


def _sides(task: Task, recipe: Recipe, folder: Path, masked: float | None) -> _Sides:
    check_trainable(task.graph)
    scaling, inductive = recipe.propagation.scaling, recipe.training.setting == "inductive"
    alone = task.graph
    if inductive and task.graph.nodes.split is not None:
        alone = induced(task.graph, task.graph.nodes.split.train, folder / "training-graph")
    # Rows that training must not see lend it no statistics either (METHOD section 1).
    apart = scaling == "standard" and (inductive or task.valid is not None or bool(task.tests))
    statistics = feature_statistics(alone) if apart else None

    def side(graph: Graph, part: str | None) -> GraphRows:
        return _rows(graph, view_of(graph, scaling, statistics), part, masked)

    whole = side(task.graph, "train")
    train = whole if alone is task.graph else side(alone, "train")
    valid = replace(whole, rows=labelled(task.graph, "valid")) if task.valid is None else side(task.valid, None)
    tests = {name: side(graph, None) for name, graph in task.tests.items()}
    if not task.tests:
        tests = {"test": replace(whole, rows=labelled(task.graph, "test"))}
    return _Sides(train, valid if len(valid) else None, tests)


def _rows(graph: Graph, view: View, part: str | None, masked: float | None) -> GraphRows:
    labels = graph.nodes.labels
    assert labels is not None
    rows = labelled(graph, *([] if part is None else [part]))
    known = None
    if masked is not None and not labels.many:
        known = torch.full((graph.nodes.count,), UNKNOWN)
        if graph.nodes.split is not None:
            told = torch.from_numpy(labelled(graph, "train"))
            known[told] = torch.from_numpy(labels.values[told.numpy()].astype("int64"))
    return GraphRows(view, labels.values, rows, len(labels.classes), known=known, masked=masked or 0.0)
