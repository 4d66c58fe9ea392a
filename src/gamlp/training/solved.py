"""Models that find their own weights: all rows at once, no epochs, in one process of a world."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import available_memory
from gamlp.models import KnownRows, Rank, Solvable, ToSolve
from gamlp.progress import Progress
from gamlp.recipe import TrainingSettings
from gamlp.training.batches import Batches, HopRows, LabelledRows, own_rows, target_tensor
from gamlp.training.metrics import Measure, measure_of, metric_value, ranked
from gamlp.training.ranks.world import World
from gamlp.training.scores import evaluate, to_probabilities

if TYPE_CHECKING:
    from gamlp.training.loop import Machine

MOST_ROWS = 200_000  # that are learned from, or chosen by: more cost time and hardly change what is found
_FEWEST_ROWS = 100
_COPIES = 6  # of the rows' hops, while they are solved: as stored, as float32, as a table that is centred
_MOST_DIMENSIONS = 8


@dataclass(frozen=True)
class Solution:
    """What a solved model scores on validation rows, what was chosen, in numbers, and the line that is observed."""

    valid: dict[str, float]
    facts: dict[str, float] = field(default_factory=dict)
    line: dict[str, Any] = field(default_factory=dict)


def solve(
    model: nn.Module,
    train: LabelledRows,
    valid: LabelledRows | None,
    settings: TrainingSettings,
    *,
    seed: int,
    machine: Machine,
    progress: Progress,
) -> Solution:
    """Let a model find its weights from training rows: rank 0 does, the others take its weights over."""
    assert isinstance(model, Solvable)
    if not isinstance(train, HopRows) or not isinstance(valid, HopRows | None):
        raise GamlpError("only rows of hops can be solved", hint="choose a model that is trained")
    begun, world, device = time.monotonic(), machine.world, machine.device
    facts: dict[str, float] = {}
    if world.rank == 0:

        def alive(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
            progress(f"seed {seed}", done, total, unit, note)
            world.decided(True, device)  # those who wait hear that there is more to come

        facts = _solved(model, train, valid, settings, seed, machine, alive)
        world.decided(False, device)
    else:
        while world.decided(True, device):
            pass
    _share(model, world, device)
    model.to(device).eval()
    found: dict[str, float] = {}
    if valid is not None and len(valid):
        measure = measure_of(settings, train.targets, train.targets.ndim == 2, valid.targets)
        found = evaluate(model, _own_batches(valid, settings.batch_size, machine), None, world, measure)
    line = {"epoch": 1, **{f"valid_{name}": value for name, value in found.items()}, **facts}
    return Solution(found, facts, {**line, "seconds": round(time.monotonic() - begun, 4)})


def _own_batches(rows: HopRows, size: int, machine: Machine) -> Batches:
    if machine.world.size == 1:
        return rows.batches(size, machine.device, machine.memory)
    return own_rows(rows, size, machine.device, machine.memory, world=machine.world)


def _solved(
    model: Solvable,
    train: HopRows,
    valid: HopRows | None,
    settings: TrainingSettings,
    seed: int,
    machine: Machine,
    progress: Progress,
) -> dict[str, float]:
    memory = available_memory() // 2 if machine.memory is None else machine.memory
    learned = _some(train, memory, seed)
    chosen_by: KnownRows | None = None
    metric: Rank = _nothing_to_rank
    if valid is not None and len(valid):
        chosen_by = known_rows(_some(valid, memory, seed))
        measure = measure_of(settings, train.targets, train.targets.ndim == 2, valid.targets)
        metric = _rank_by(chosen_by, settings, measure)
    with torch.no_grad():
        facts = model.solve(ToSolve(known_rows(learned), chosen_by, settings, seed, metric, progress))
    return {**facts, "rows": float(len(learned))}


def _nothing_to_rank(logits: Tensor) -> tuple[float, ...]:
    return ()


def _some(rows: HopRows, memory: int, seed: int) -> HopRows:
    """All rows, or as many as are worth it and memory holds, drawn by the seed."""
    holds = memory // (_COPIES * max(1, rows.row_bytes))
    if holds < min(_FEWEST_ROWS, len(rows)):
        raise GamlpError(f"memory holds fewer than {_FEWEST_ROWS} rows of hops", hint="give more: --memory")
    most = min(MOST_ROWS, holds)
    if len(rows) <= most:
        return rows
    drawn: Array = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
    return replace(rows, rows=rows.rows[drawn])


def known_rows(source: HopRows) -> KnownRows:
    """Hops and labels of all these rows, as a model reads them."""
    x, y = source.gathered()
    labels = None if y is None else torch.from_numpy(y).float()
    return KnownRows(torch.from_numpy(x).float(), labels, target_tensor(source.targets))


def _rank_by(rows: KnownRows, settings: TrainingSettings, measure: Measure | None) -> Rank:
    """Logits of these rows → what validation goes by, as for an epoch of a trained model."""
    target, score = rows.target.numpy(), "micro_f1" if rows.multi_label else "accuracy"

    def rank(logits: Tensor) -> tuple[float, ...]:
        told = to_probabilities(logits.double(), rows.multi_label).numpy()
        found = {"loss": metric_value("log_loss", told, target), "score": metric_value(score, told, target)}
        if measure is not None:
            found["metric"] = measure(told, target)
        return ranked(found, settings)

    return rank


def _share(model: nn.Module, world: World, device: torch.device) -> None:
    """All ranks take over the weights of rank 0, whose sizes the others need not know."""
    if world.size == 1:
        return
    taken = {}
    for name, value in sorted(model.state_dict().items()):
        shape = torch.full((_MOST_DIMENSIONS,), -1, dtype=torch.int64)
        shape[: value.ndim] = torch.tensor(value.shape, dtype=torch.int64)
        shape = shape.to(device)
        world.follow([shape])
        sizes = [size for size in shape.tolist() if size >= 0]
        values = value.detach().clone() if world.rank == 0 else torch.empty(sizes, dtype=value.dtype)
        values = values.to(device).contiguous()
        world.follow([values])
        taken[name] = values
    model.load_state_dict(taken)
