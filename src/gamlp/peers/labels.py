"""Methods that use labels around a model: label propagation, Correct & Smooth after any method, label reuse."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import PeakMemory, work_folder
from gamlp.models import labels_used
from gamlp.peers.contract import Report, Run, Seconds, Task, Workspace, labelled
from gamlp.peers.hops import prepare_task, probabilities_of, scores_of, store_probabilities
from gamlp.peers.smoothing import check_room, correct_and_smooth, label_propagation
from gamlp.propagation import Operator
from gamlp.recipe import Recipe
from gamlp.run import propagate
from gamlp.training import (
    Fitted,
    Machine,
    Prepared,
    better,
    choose_device,
    fit_blend,
    measure_of,
    plan_of,
    report_of,
    with_said,
)


class _Spreading(BaseModel):
    """What label propagation reads from `model.options`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    alpha: float = Field(default=0.9, ge=0, le=1)
    steps: int = Field(default=50, ge=1, le=10_000)
    clamped: bool = False


def propagate_labels(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
    """The contract for label propagation, which has nothing to train: all its time is inference."""
    _refuse_other_graphs(task, recipe, "label propagation")
    settings = _spreading(recipe)
    operator = Operator(r=recipe.propagation.r, loops=recipe.propagation.loops)
    with PeakMemory() as peak:
        begun = time.monotonic()
        found = label_propagation(
            task.graph, operator=operator, **settings.model_dump(),
            threads=workspace.resources.threads, progress=workspace.progress,
        )  # fmt: skip
        seconds = time.monotonic() - begun
    valid = _validation(task.graph, found, recipe)
    test = _scores(task.graph, found, "test") if workspace.score_test else {}
    return Report(
        recipe.model.name, seed, valid, test, Seconds(0.0, 0.0, seconds), peak.bytes,
        parameters=0, probabilities=found if workspace.probabilities else None, valid_mean=valid,
    )  # fmt: skip


def smoothed(base: Run) -> Run:
    """Correct & Smooth after another method, by the recipe's `smoothing`; its time is inference."""

    def run(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
        _refuse_other_graphs(task, recipe, "Correct & Smooth")
        settings, labels = recipe.smoothing, task.graph.nodes.labels
        assert settings is not None
        check_room(task.graph, workspace.resources.memory)
        report = base(task, recipe, seed, replace(workspace, probabilities=True))
        assert report.probabilities is not None and labels is not None
        with PeakMemory() as peak:
            begun = time.monotonic()
            found = correct_and_smooth(
                task.graph,
                report.probabilities,
                settings,
                threads=workspace.resources.threads,
                progress=workspace.progress,
            )
            took = time.monotonic() - begun
        valid = _validation(task.graph, found, recipe)
        return replace(
            report,
            valid=valid,
            valid_mean=valid,
            test=_scores(task.graph, found, "test") if workspace.score_test else {},
            seconds=replace(report.seconds, inference=report.seconds.inference + took),
            peak_memory=max(report.peak_memory, peak.bytes + report.probabilities.nbytes),
            probabilities=found if workspace.probabilities else None,
        )

    return run


@dataclass(frozen=True)
class _Round:
    prepared: Prepared
    fitted: Fitted

    def beats(self, other: _Round) -> bool:
        """On validation rows alone."""
        return better(self.fitted.valid, other.fitted.valid, self.prepared.recipe.training)


def reuse_labels(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
    """The contract for label reuse on hops: train, let predictions stand for unknown labels, propagate, train again.

    Y^(0) of a later round is one-hot on training rows and what the round before said elsewhere. Where labels are
    cross-fitted, a training row's hops see what was said of its own fold, never its labels. The round that is best on
    validation rows is kept.
    """
    _refuse_other_graphs(task, recipe, "label reuse")
    if not labels_used(recipe):
        raise GamlpError(
            f"'{recipe.model.name}' reads no labels that could be reused", hint="use gamlp or sagn with model.beta > 0"
        )
    if not len(labelled(task.graph, "valid")):
        raise GamlpError("label reuse chooses its round by validation rows, and there are none")
    device = choose_device(workspace.resources.device)
    machine = Machine(device, workspace.resources.memory)
    training = 0.0
    best: _Round | None = None
    predicted: Array | None = None
    with PeakMemory() as peak, work_folder(workspace.hops / ".reuse") as folder:
        once = recipe.changed({"training.reuse": 0})
        prepared, preparation = prepare_task(task, once, replace(workspace, probabilities=True))
        for number in range(recipe.training.reuse + 1):
            begun = time.monotonic()
            if predicted is not None:
                prepared = _with_predictions(task.graph, prepared, predicted, folder / f"round-{number}", workspace)
                preparation += time.monotonic() - begun
                begun = time.monotonic()
            own, fitted = fit_blend(prepared, seed, machine, observe=workspace.observe, progress=workspace.progress)
            here = _Round(own, fitted)
            best = here if best is None or here.beats(best) else best
            if number < recipe.training.reuse:
                predicted = _predicted(task.graph, prepared, fitted, workspace)
            training += time.monotonic() - begun
        assert best is not None
        begun = time.monotonic()
        test, tests = scores_of(task, best.prepared, best.fitted, workspace, device)
        ended = time.monotonic()
        wanted = workspace.probabilities or recipe.smoothing is not None
        found = store_probabilities(task.graph, best.prepared, best.fitted, device) if wanted else None
    kept = best.fitted
    parameters = sum(value.numel() for value in kept.model.parameters())
    return Report(
        recipe.model.name, seed, kept.valid, test, Seconds(preparation, training, ended - begun), peak.bytes,
        parameters, kept.epoch, kept.epochs, kept.stopped, tests, found, kept.valid_mean,
    )  # fmt: skip


def _predicted(graph: Graph, prepared: Prepared, fitted: Fitted, workspace: Workspace) -> Array:
    """Probabilities of all nodes; of training rows as they were trained on, without their own fold's labels."""
    device = choose_device(workspace.resources.device)
    found = store_probabilities(graph, prepared, fitted, device)
    if prepared.train.crossfit:
        found[prepared.train.rows] = probabilities_of(fitted, prepared.train, prepared.multi_label, device)
    return found


def _with_predictions(
    graph: Graph, prepared: Prepared, predicted: Array, folder: Path, workspace: Workspace
) -> Prepared:
    """The same rows and hops of features; hops of labels from training labels and what was said of other rows."""
    plan = plan_of(prepared.recipe)
    assert plan.labels is not None and prepared.valid is not None
    soft = plan.labels.model_copy(update={"soft": True})
    plan = plan.model_copy(update={"features": None, "labels": soft, "rows": "all"})
    store = propagate(with_said(graph, predicted), plan, folder, workspace.resources, workspace.progress)
    return replace(
        prepared,
        store=store,
        train=replace(prepared.train, store=store),
        valid=replace(prepared.valid, store=store),
    )


def _spreading(recipe: Recipe) -> _Spreading:
    try:
        return _Spreading.model_validate(recipe.model.options)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        hint = f"it has {', '.join(_Spreading.model_fields)}"
        raise GamlpError(f"'model.options.{key}' of label propagation: {first['msg']}", hint=hint) from error


def _scores(graph: Graph, probabilities: Array, part: str) -> dict[str, float]:
    labels, rows = graph.nodes.labels, labelled(graph, part)
    assert labels is not None
    return report_of(probabilities[rows], labels.values[rows]) if len(rows) else {}


def _validation(graph: Graph, probabilities: Array, recipe: Recipe) -> dict[str, float]:
    """Loss, score and, where validation goes by another, the metric: as training gives them."""
    found = _scores(graph, probabilities, "valid")
    if not found:
        return {}
    labels, rows = graph.nodes.labels, labelled(graph, "valid")
    assert labels is not None
    targets = labels.values[rows]
    measure = measure_of(recipe.training, labels.values[labelled(graph, "train")], labels.multi_label, targets)
    measured = {} if measure is None else {"metric": measure(probabilities[rows], targets)}
    return {"loss": found["loss"], "score": found["score"], **measured}


def _refuse_other_graphs(task: Task, recipe: Recipe, what: str) -> None:
    if task.valid is not None or task.tests or recipe.training.setting == "inductive":
        raise GamlpError(
            f"{what} spreads labels over the graph they lie in, so it cannot be inductive",
            hint="use training.setting transductive, on one graph",
        )
