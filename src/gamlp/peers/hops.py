"""Methods on hops: propagate once (or find the hops), train through the one loop, score."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.graph import Graph, Split, digest, fingerprint
from gamlp.io import PeakMemory, locked, work_folder, write_json
from gamlp.models import labels_used
from gamlp.peers.contract import Report, Seconds, Task, Workspace, labelled
from gamlp.peers.threshold import graph_reports
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import hops_for, prepare, prepare_split, propagate
from gamlp.training import (
    Fitted,
    HopRows,
    Machine,
    Prepared,
    StageEnd,
    StageStart,
    Watch,
    bundle_of,
    by_time,
    choose_device,
    fit_blend,
    full_report,
    logits_of,
    plan_of,
    resolve_relations,
    rows_of,
    run_stages,
    summary,
    teach,
    to_probabilities,
    with_features,
)

INFERENCE_BATCH = 2000
_TOOK = "seconds.json"


def run_on_hops(task: Task, recipe: Recipe, seed: int, workspace: Workspace) -> Report:
    """The contract for every model of gamlp.models."""
    device = choose_device(workspace.resources.device)
    with PeakMemory() as peak:
        prepared, preparation = prepare_task(task, recipe, workspace)
        begun = time.monotonic()
        with work_folder(workspace.hops / ".stages") as folder:
            prepared, fitted = _fitted(task, prepared, seed, folder, workspace, device)
            trained = time.monotonic()
            test, tests = scores_of(task, prepared, fitted, workspace, device)
            ended = time.monotonic()
            probabilities = None
            if workspace.probabilities:
                probabilities = store_probabilities(task.graph, prepared, fitted, device)
        if recipe.smoothing is not None:  # smoothing must know all rows: theirs is its inference
            ended = time.monotonic()
    parameters = sum(value.numel() for value in fitted.model.parameters())
    return Report(
        recipe.model.name, seed, fitted.valid, test, Seconds(preparation, trained - begun, ended - trained),
        peak.bytes, parameters, fitted.epoch, fitted.epochs, fitted.stopped, tests,
        probabilities, fitted.valid_mean,
    )  # fmt: skip


def _fitted(
    task: Task, prepared: Prepared, seed: int, folder: Path, workspace: Workspace, device: torch.device
) -> tuple[Prepared, Fitted]:
    """One seed, of the stage that is kept; its hops of labels lie in `folder`, and its time is training's."""
    machine = Machine(device, workspace.resources.memory)

    def fit_stage(stage: Prepared) -> StageEnd[Fitted]:
        own, fitted = fit_blend(stage, seed, machine, observe=workspace.observe, progress=workspace.progress)
        return StageEnd(own, fitted, fitted.valid, lambda: fitted.model)

    with closing(workspace.resources.open_engine()) as engine:

        def begin(stage: int, before: StageEnd[Fitted]) -> StageStart:
            place, told = folder / str(stage), workspace.progress
            return teach(prepared, before, task.graph, place, engine, stage=stage, device=device, progress=told)

        stages = run_stages(prepared, fit_stage, begin)
    end = stages.ends[stages.kept]
    return end.prepared, end.result


def prepare_task(task: Task, recipe: Recipe, workspace: Workspace) -> tuple[Prepared, float]:
    """Hops of a task and the seconds they took to make. Splits of one graph share the hops of its features."""
    task, recipe, made = _ready(task, recipe, workspace)
    if task.valid is not None or recipe.training.setting == "inductive" or by_time(task.graph, recipe):
        graphs = [_known(graph) for graph in (task.graph, task.valid) if graph is not None]
        folder = workspace.hops / f"inductive-{digest([graphs, plan_of(recipe).model_dump(), recipe.reads_unlabelled])}"
        with locked(folder):
            begun = time.monotonic()
            prepared = prepare(
                task.graph, recipe, folder,
                valid_graph=task.valid, resources=workspace.resources, progress=workspace.progress,
            )  # fmt: skip
            return prepared, made + _took(folder, time.monotonic() - begun)
    features, first = features_store(task.graph, recipe, workspace)
    rows = _label_rows(recipe, workspace)
    plan = plan_of(recipe).model_copy(update={"features": None, "rows": rows})
    folder = workspace.hops / f"labels-{digest([_known(task.graph), plan.model_dump()])}"
    with locked(folder):
        begun = time.monotonic()
        prepared = prepare_split(
            task.graph, recipe, features, folder, rows=rows, resources=workspace.resources, progress=workspace.progress
        )
        second = _took(folder, time.monotonic() - begun) if labels_used(recipe) else 0.0
    return prepared, made + first + second


def _label_rows(recipe: Recipe, workspace: Workspace) -> str:
    """Rows of label hops that a run reads: all where rows without labels teach, else those of the split it looks at."""
    if workspace.probabilities or recipe.reads_unlabelled:
        return "all"
    return "split" if workspace.score_test else "train+valid"


def _ready(task: Task, recipe: Recipe, workspace: Workspace) -> tuple[Task, Recipe, float]:
    """A graph of several relations with features of all types, or of one with features, and the seconds they took."""
    recipe, _ = resolve_relations(task.graph, recipe)
    if by_time(task.graph, recipe) or (not task.graph.heterogeneous and recipe.features.structural != "alone"):
        return task, recipe, 0.0
    settings = recipe.relations.model_dump(include={"reduce", "missing", "dimension", "embedding_epochs", "seed"})
    known = settings if task.graph.heterogeneous else recipe.features.model_dump()
    folder = workspace.hops / f"made-{digest([fingerprint.structure(task.graph), known])}"
    with locked(folder), closing(workspace.resources.open_engine()) as engine:
        begun = time.monotonic()
        graph = with_features(task.graph, recipe, folder, engine, workspace.progress)
        return replace(task, graph=graph), recipe, _took(folder, time.monotonic() - begun)


def features_key(recipe: Recipe) -> str:
    """Of what decides the hops of features, but for their number."""
    features = plan_of(recipe, labels=False).features
    assert features is not None
    return digest(features.model_dump(exclude={"hops"}))


def features_store(graph: Graph, recipe: Recipe, workspace: Workspace) -> tuple[HopStore, float]:
    """The rows `workspace.kept`, as deep as `workspace.depths` asks; made once, in seconds that are kept beside it."""
    known = [fingerprint.structure(graph), _features_of(graph)]
    rows = "all" if workspace.kept is None else "train"
    if workspace.kept is not None:
        roles = np.zeros(graph.nodes.count, np.int8)
        roles[workspace.kept] = 1
        graph = graph.with_targets(split=Split(roles))
        known.append(digest(workspace.kept.tolist()))
    plan = plan_of(recipe, labels=False).model_copy(update={"rows": rows})
    assert plan.features is not None
    hops = max(plan.features.hops, workspace.depths.get(features_key(recipe), 0))
    plan = plan.model_copy(update={"features": plan.features.model_copy(update={"hops": hops})})
    key = digest([*known, plan.model_dump(exclude={"labels"})])
    folder = workspace.hops / f"{graph.name}-{key}"
    with locked(folder):
        begun = time.monotonic()
        store = propagate(graph, plan, folder, workspace.resources, workspace.progress)
        return store, _took(folder, time.monotonic() - begun)


def _took(folder: Path, seconds: float) -> float:
    """Seconds that a folder's hops took: written when they are made, read when they are found."""
    known = folder.parent / f"{folder.name}.{_TOOK}"
    if known.exists():
        return float(json.loads(known.read_text()))
    write_json(known, seconds)
    return seconds


def _known(graph: Graph) -> list[str]:
    """Of all that hops of a graph are made of."""
    return [fingerprint.structure(graph), _features_of(graph), fingerprint.targets(graph)]


def _features_of(graph: Graph) -> str:
    """Of the features of all types that have some."""
    have = [node_type for node_type, nodes in graph.node_types.items() if nodes.features is not None]
    return (
        fingerprint.features(graph)
        if have == [graph.target]
        else digest([[node_type, fingerprint.features(graph, node_type)] for node_type in have])
    )


def scores_of(
    task: Task, prepared: Prepared, fitted: Fitted, workspace: Workspace, device: torch.device
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Test rows' scores; of several graphs the mean, and each, of two classes also at a threshold.

    None where the workspace asks for none.
    """
    if not workspace.score_test:
        return {}, {}

    def report(rows: HopRows, watch: Watch | None = None) -> dict[str, float]:
        return full_report(fitted.model, rows.batches(INFERENCE_BATCH, device, 0), watch)

    if not task.tests:
        rows = replace(prepared.train, rows=labelled(task.graph, "test"), crossfit=False)
        if prepared.train.store is not prepared.store:  # inductive: test rows are read from the whole graph's hops
            rows = rows_of(prepared.store, prepared.recipe, rows.rows)
        return report(rows), {}
    bundle = bundle_of(prepared, fitted, 0)
    tests: dict[str, HopRows] = {}
    for name, graph in task.tests.items():
        key = digest([_known(graph), plan_of(prepared.recipe, prepared.statistics).model_dump()])
        with locked(folder := workspace.hops / f"{graph.name}-{key}"):
            store = hops_for(bundle, graph, folder, workspace.resources, workspace.progress)
        tests[name] = rows_of(store, prepared.recipe, labelled(graph))
    assert task.graph.nodes.labels is not None
    found = graph_reports(report, tests, prepared.valid, task.graph.nodes.labels)
    return summary(list(found.values()))["mean"], found


def store_probabilities(graph: Graph, prepared: Prepared, fitted: Fitted, device: torch.device) -> Array:
    """Probabilities of all nodes."""
    every = np.arange(graph.nodes.count)
    rows: HopRows = replace(prepared.train, rows=every, crossfit=False)
    if prepared.train.store is not prepared.store:
        rows = rows_of(prepared.store, prepared.recipe, every)
    return probabilities_of(fitted, rows, prepared.multi_label, device)


def probabilities_of(fitted: Fitted, rows: HopRows, multi_label: bool, device: torch.device) -> Array:
    """Of some rows, as they read their hops."""
    batches = rows.batches(INFERENCE_BATCH, device, 0)
    return np.concatenate(
        [to_probabilities(logits, multi_label).cpu().numpy() for _, logits in logits_of(fitted.model, batches)]
    )
