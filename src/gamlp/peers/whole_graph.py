"""Methods that pass messages: the whole graph in memory, trained through the one loop, on parts where it samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic

import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, induce
from gamlp.graph.features import fitted_on
from gamlp.io import PeakMemory, temporary_folder
from gamlp.models import Shape
from gamlp.peers.contract import Report, Run, Seconds, Task, Workspace, labelled
from gamlp.peers.tensors import (
    UNKNOWN,
    GraphRows,
    GraphTensors,
    Sampler,
    Tensors,
    TypedShape,
    TypedTensors,
    check_alike,
    graph_tensors,
    typed_statistics,
    typed_tensors,
)
from gamlp.peers.threshold import graph_reports
from gamlp.propagation import feature_statistics
from gamlp.recipe import Recipe
from gamlp.training import (
    Machine,
    Watch,
    check_trainable,
    choose_device,
    fit,
    full_report,
    resolve_relations,
    summary,
    to_probabilities,
    with_columns,
    with_features,
)

MakeModel = Callable[[Shape, Recipe], nn.Module]
MakeTyped = Callable[[TypedShape, Recipe], nn.Module]
MakeSampler = Callable[[GraphRows[GraphTensors], Recipe, int], Sampler]
Read = Callable[[Graph, str | None], GraphRows[Tensors]]  # rows of a part of the split, or all labelled ones


@dataclass(frozen=True)
class _Sides(Generic[Tensors]):
    """Training, validation and test rows; inductive ones stand on graphs of their own."""

    train: GraphRows[Tensors]
    valid: GraphRows[Tensors] | None
    tests: dict[str, GraphRows[Tensors]]


def message_passing(make: MakeModel, *, sampler: MakeSampler | None = None, masked: float | None = None) -> Run:
    """The contract for a torch module `forward(tensors, known) → logits of tensors.rows`.

    `masked`: the model reads known labels, and this share of training rows is hidden each epoch
    (`model.options.masked` changes it).
    """

    def run(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
        with PeakMemory() as peak, temporary_folder() as folder:
            begun = time.monotonic()
            check_trainable(task.graph, recipe)
            share = None if masked is None else float(recipe.model.options.get("masked", masked))
            reader = partial(_plain_side, recipe.propagation.scaling, share)
            sides = _sides(task, recipe, folder, reader, workspace)
            if sampler is not None:
                sides = replace(sides, train=replace(sides.train, sampler=sampler(sides.train, recipe, seed)))
            shape = Shape(int(sides.train.tensors.x.shape[1]), sides.train.classes, 0)
            report = _report(lambda: make(shape, recipe), sides, task, recipe, seed, workspace, begun)
        return replace(report, peak_memory=peak.bytes)

    return run


def typed_message_passing(make: MakeTyped, *, taught: bool = False) -> Run:
    """The contract for a torch module of several node types: `forward(typed tensors, known) → logits of tensors.rows`.

    Nodes of a type without features learn a row of their own; features that were completed before are read as such.
    `taught`: the model takes losses of its own in training, and is given the labels of training rows for it.
    """

    def run(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
        with PeakMemory() as peak, temporary_folder() as folder:
            begun = time.monotonic()
            _check_typed(task.graph, recipe)
            reader = partial(_typed_side, recipe.propagation.scaling, taught)
            sides = _sides(task, recipe, folder, reader, workspace)
            shape = sides.train.tensors.shape
            for name, rows in {"valid": sides.valid, **sides.tests}.items():
                if rows is not None:
                    check_alike(shape, rows.tensors.shape, name)
            report = _report(lambda: make(shape, recipe), sides, task, recipe, seed, workspace, begun)
        return replace(report, peak_memory=peak.bytes)

    return run


def _report(
    make: Callable[[], nn.Module],
    sides: _Sides[Tensors],
    task: Task,
    recipe: Recipe,
    seed: int,
    workspace: Workspace,
    begun: float,
) -> Report:
    """Train on one side, choose by another, and only then look at the tests; memory is for the caller to tell."""
    device = choose_device(workspace.resources.device)
    labels = task.graph.nodes.labels
    assert labels is not None
    prepared = time.monotonic()
    fitted = fit(
        make, sides.train, sides.valid, recipe.training,
        seed=seed, machine=Machine(device), observe=workspace.observe, progress=workspace.progress,
    )  # fmt: skip
    trained = time.monotonic()

    def report(rows: GraphRows[Tensors], watch: Watch | None) -> dict[str, float]:
        return full_report(fitted.model, rows.batches(0, device), watch)

    tests = sides.tests if workspace.score_test else {}
    found = graph_reports(report, tests, sides.valid if task.tests and tests else None, labels)
    ended = time.monotonic()
    probabilities = None
    if workspace.probabilities:
        whole = next(iter(sides.tests.values())) if not task.tests else sides.train
        with torch.no_grad():
            logits = fitted.model(whole.tensors.of_rows(None), whole.known)
        probabilities = to_probabilities(logits, labels.multi_label).cpu().numpy()
        if recipe.smoothing is not None:  # smoothing must know all rows: theirs is its inference
            ended = time.monotonic()
    parameters = sum(value.numel() for value in fitted.model.parameters())
    return Report(
        recipe.model.name, seed, fitted.valid, summary(list(found.values()))["mean"] if found else {},
        Seconds(prepared - begun, trained - prepared, ended - trained), 0, parameters,
        fitted.epoch, fitted.epochs, fitted.stopped, found if task.tests else {}, probabilities, fitted.valid_mean,
    )  # fmt: skip


def _sides(
    task: Task,
    recipe: Recipe,
    folder: Path,
    reader: Callable[[Graph | None], Read[Tensors]],
    workspace: Workspace,
) -> _Sides[Tensors]:
    """`reader(of)` reads rows of graphs; `standard` scaling is then by the graph `of`, or each by its own."""
    inductive = recipe.training.setting == "inductive"
    if inductive and task.graph.nodes.split is not None:
        task = fitted_on_training_rows(task, task.graph.nodes.split.train)
    complete = partial(_complete, resolve_relations(task.graph, recipe)[0], folder, workspace)
    task = replace(task, graph=complete(task.graph), valid=task.valid and complete(task.valid))
    task = replace(task, tests={name: complete(graph) for name, graph in task.tests.items()})
    alone = task.graph
    if inductive and task.graph.nodes.split is not None:
        alone = complete(induce(task.graph, task.graph.nodes.split.train, folder / "training-graph"))
    # Rows that training must not see lend it no statistics either (docs/method.md, section 1).
    separate_statistics = recipe.propagation.scaling == "standard" and (
        inductive or task.valid is not None or bool(task.tests)
    )
    side = reader(alone if separate_statistics else None)
    whole = side(task.graph, "train")
    train = whole if alone is task.graph else side(alone, "train")
    valid = replace(whole, rows=labelled(task.graph, "valid")) if task.valid is None else side(task.valid, None)
    tests = {name: side(graph, None) for name, graph in task.tests.items()}
    if not task.tests:
        tests = {"test": replace(whole, rows=labelled(task.graph, "test"))}
    return _Sides(train, valid if len(valid) else None, tests)


def fitted_on_training_rows(task: Task, rows: Array) -> Task:
    """The same graphs with columns whose states know nothing of other rows."""
    graph = fitted_on(task.graph, rows)
    if graph is task.graph:
        return task
    valid = None if task.valid is None else with_columns(task.valid, graph.columns)[0]
    tests = {name: with_columns(one, graph.columns)[0] for name, one in task.tests.items()}
    return Task(graph, valid, tests)


def _complete(recipe: Recipe, folder: Path, workspace: Workspace, graph: Graph) -> Graph:
    """A graph of one relation with features made of its edges, where it has none; several types learn their own."""
    if graph.heterogeneous or recipe.features.structural != "alone":
        return graph
    with closing(workspace.resources.open_engine()) as engine:
        return with_features(graph, recipe, folder, engine, workspace.progress)


def _plain_side(scaling: str, masked: float | None, of: Graph | None) -> Read[GraphTensors]:
    statistics = None if of is None else feature_statistics(of)
    return lambda graph, part: _rows(graph, graph_tensors(graph, scaling, statistics), part, masked)


def _typed_side(scaling: str, taught: bool, of: Graph | None) -> Read[TypedTensors]:
    statistics = None if of is None else typed_statistics(of)

    def side(graph: Graph, part: str | None) -> GraphRows[TypedTensors]:
        labels = graph.nodes.labels
        assert labels is not None
        rows = labelled(graph, *([] if part is None else [part]))
        known = _training_labels(graph) if taught and part == "train" else None
        tensors = typed_tensors(graph, scaling, statistics)
        return GraphRows(tensors, labels.values, rows, len(labels.classes), known=known)

    return side


def _training_labels(graph: Graph) -> Tensor:
    """Labels of all nodes, those that do not train unknown (-1, in every class where a node has many labels)."""
    labels = graph.nodes.labels
    assert labels is not None
    known = torch.full(labels.values.shape, UNKNOWN)
    train = labelled(graph, "train")
    known[torch.from_numpy(train)] = torch.from_numpy(labels.values[train].astype("int64"))
    return known


def _check_typed(graph: Graph, recipe: Recipe) -> None:
    """Unlike on graphs of one type, features may be missing; training rows alone have no graph of their own."""
    if not graph.heterogeneous:
        return check_trainable(graph, recipe)
    if recipe.training.setting == "inductive":
        raise GamlpError(
            f"'{recipe.model.name}' on a graph of several types trains on the whole graph",
            hint="training.setting transductive",
        )
    if not len(labelled(graph, "train")):
        raise GamlpError(f"graph '{graph.name}' has no training rows", hint="mark some rows 'train' in its split")
    return None


def _rows(graph: Graph, tensors: GraphTensors, part: str | None, masked: float | None) -> GraphRows[GraphTensors]:
    labels = graph.nodes.labels
    assert labels is not None
    rows = labelled(graph, *([] if part is None else [part]))
    known = None
    if masked is not None and not labels.multi_label:
        unsplit = graph.nodes.split is None
        known = torch.full((graph.nodes.count,), UNKNOWN) if unsplit else _training_labels(graph)
    return GraphRows(tensors, labels.values, rows, len(labels.classes), known=known, masked=masked or 0.0)
