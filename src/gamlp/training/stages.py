"""Stages (RLU): a trained model teaches the next, which hears it as labels of reliable rows and learns what it says."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, Propagator, share_features
from gamlp.recipe import TrainingSettings
from gamlp.training.metrics import better, judged
from gamlp.training.rows import Prepared, label_factor, plan_of, unlabelled_rows
from gamlp.training.teacher import read_teacher, with_said, write_teacher

TEACHER, HOPS = "teacher", "hops"
T = TypeVar("T")


@dataclass(frozen=True)
class StageStart:
    """What a stage begins with. `reliable` rows of `unlabelled` ones are those that the teacher is sure of."""

    prepared: Prepared
    reliable: int
    unlabelled: int


@dataclass(frozen=True)
class StageEnd(Generic[T]):
    """A stage that is trained: what its caller calls a result, its validation numbers, and the model that may teach."""

    prepared: Prepared
    result: T
    valid: dict[str, float]
    model: Callable[[], nn.Module]


def teach(
    first: Prepared,
    before: StageEnd[Any],
    graph: Graph | None,
    folder: Path,
    engine: Propagator,
    *,
    stage: int,
    device: torch.device,
    progress: Progress = silent,
) -> StageStart:
    """Rows and hops of a stage, from those of the first one and what the model of the stage before says of its own.

    `graph` is what hops of labels are propagated over anew; features are those of the first stage. Killed and called
    again with the same teacher, it ends with the same bytes.
    """
    recipe, rows = first.recipe, unlabelled_rows(before.prepared)  # as the teacher reads them
    write_teacher(
        folder / TEACHER, before.model(), rows,
        multi_label=first.multi_label, reliable=recipe.training.reliable, device=device, progress=progress,
    )  # fmt: skip
    said = read_teacher(folder / TEACHER, first.train.store.manifest.nodes)
    prepared = replace(first, stage=stage, teacher=str(folder / TEACHER), warm=None)
    if labels_used(recipe):
        if graph is None:
            raise GamlpError(
                "a stage propagates labels anew, and hops alone do not tell over which edges",
                hint="give the graph instead of its hops, or set model.beta to 0",
            )
        plan = plan_of(recipe)
        assert plan.labels is not None
        count = {"soft": True, "labelled": len(first.train) + len(said.numbers)}
        plan = plan.model_copy(update={"features": None, "labels": plan.labels.model_copy(update=count)})
        if first.train.features_from is None:
            share_features(first.store, folder / HOPS)
        prepared = _on(prepared, engine.propagate(with_said(graph, said), plan, folder / HOPS, progress))
    return StageStart(prepared, len(said.numbers), len(rows))


def _on(prepared: Prepared, store: HopStore) -> Prepared:
    """The same rows, with the labels of another store."""
    factor, valid = label_factor(store, prepared.recipe), prepared.valid
    return replace(
        prepared,
        store=store,
        train=replace(prepared.train, store=store, label_factor=factor),
        valid=None if valid is None else replace(valid, store=store, label_factor=factor),
    )


@dataclass(frozen=True)
class Stages(Generic[T]):
    """All stages, of which the best on validation rows is kept."""

    settings: TrainingSettings
    starts: list[StageStart]  # of all but the first
    ends: list[StageEnd[T]]

    @property
    def kept(self) -> int:
        """By validation rows alone: a later stage must be better than all before it."""
        best = 0
        for stage, end in enumerate(self.ends):
            if end.valid != self.ends[best].valid and better(end.valid, self.ends[best].valid, self.settings):
                best = stage
        return best

    @property
    def words(self) -> list[str]:
        """A sentence for each stage but the first, and one that says which was kept."""
        if not self.starts:
            return []
        told = [judged(end.valid, self.settings) for end in self.ends]
        found = [
            f"stage {stage}: {start.reliable:,} of {start.unlabelled:,} rows without labels are reliable (at least "
            f"{self.settings.reliable:g}); validation {told[stage]:.4f} after {told[stage - 1]:.4f}"
            for stage, start in enumerate(self.starts, start=1)
        ]
        return [*found, f"stage {self.kept} of 0 to {len(self.starts)} is kept, the best on validation rows"]


def run_stages(
    first: Prepared, fit_stage: Callable[[Prepared], StageEnd[T]], begin: Callable[[int, StageEnd[T]], StageStart]
) -> Stages[T]:
    """Train every stage of the recipe, each taught by the one before; one that is alone is ordinary training."""
    settings = first.recipe.training
    if settings.stages > 1 and (first.valid is None or not len(first.valid)):
        raise GamlpError(
            "stages are chosen by validation rows, and there are none",
            hint="mark some rows 'valid', or set training.stages to 1",
        )
    if settings.stages > 1 and labels_used(first.recipe) and first.train.store is not first.store:
        raise GamlpError(
            "stages with hops of labels are validated on the graph that is trained on",
            hint="set model.beta to 0 or training.stages to 1, or validate on rows of the same graph",
        )
    starts, ends = [], [fit_stage(first)]
    for stage in range(1, settings.stages):
        starts.append(begin(stage, ends[-1]))
        ends.append(fit_stage(starts[-1].prepared))
    return Stages(settings, starts, ends)


def mean_valid(found: list[dict[str, float]]) -> dict[str, float]:
    """Validation numbers of a stage: means over its seeds."""
    return {name: statistics.fmean(one[name] for one in found) for name in found[0]}


def in_stage(progress: Progress, number: int) -> Progress:
    """Progress whose lines say which stage it is of."""

    def told(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        progress(f"stage {number}, {stage}", done, total, unit, note)

    return told
