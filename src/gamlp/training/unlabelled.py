"""What rows without labels add to the loss of a training step: consistency (SCR), distillation from a teacher (RLU).

Probabilities of many labels a node are pairs, a label's own and its complement: both parts then read distributions
over the last dimension, and a row's distance is the mean over its labels (docs/method.md, section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gamlp.arrays import Array
from gamlp.recipe import ConsistencySettings
from gamlp.training.batches import Batch, Batches, OwnBatches, UnlabelledRows
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.ranks.world import World

Forward = Callable[[Batch], Tensor]  # logits of a batch, as the model trains


class NodeChances(Protocol):
    """Probabilities `[n, c]`, by the numbers of nodes."""

    def __getitem__(self, rows: Array) -> Array: ...


@dataclass(frozen=True)
class Taught:
    """Rows that a teacher is sure of. `said[n, c]` are its probabilities, by the numbers of nodes.

    `weight` is γ of γ · mean over these rows of w_i · KL(P_i ‖ Q_i), w_i the teacher's confidence.
    """

    rows: UnlabelledRows
    said: NodeChances
    weight: float = 1.0


@dataclass(frozen=True)
class Beside:
    """Rows without labels that a training step reads beside the labelled ones, and what is asked of them."""

    rows: UnlabelledRows | None = None
    consistency: ConsistencySettings | None = None
    taught: Taught | None = None


class LossPart(Protocol):
    """A part of the loss; its rows are read in batches of their own, one a step."""

    name: str
    teacher: MovingAverage | None

    def weight_in(self, epoch: int) -> float:
        """What the part weighs in an epoch; where it is 0 no rows are read for it."""

    def batches(self, part: Stretch, steps: int, seed: int) -> Generator[Batch]:
        """A batch for each step of a part of an epoch, which has so many; `seed` is the epoch's, for all of them."""

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Of the batch, or of this rank's part of it: Σ over ranks is that of the global batch."""


class MovingAverage(AveragedModel):
    """w̄ ← decay · w̄ + (1 - decay) · w at every `update_parameters(model)`, the first of which copies w."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]
        self.decay = decay
        self.eval()


def log_distributions(logits: Tensor, multi_label: bool) -> Tensor:
    """log P: `[b, classes]`, or of many labels a node `[b, classes, 2]`."""
    if multi_label:
        return torch.stack([functional.logsigmoid(logits), functional.logsigmoid(-logits)], -1)
    return functional.log_softmax(logits, 1)


def as_distributions(probabilities: Tensor, multi_label: bool) -> Tensor:
    """P as it is said of nodes, `[b, classes]`, in the same form."""
    return torch.stack([probabilities, 1 - probabilities], -1) if multi_label else probabilities


def of_rows(values: Tensor) -> Tensor:
    """`[b]`: of many labels a node the mean over them."""
    return values if values.ndim == 1 else values.mean(1)


def confidence(distributions: Tensor) -> Tensor:
    """max P of every row."""
    return of_rows(distributions.amax(-1))


def divergence(told: Tensor, log_said: Tensor) -> Tensor:
    """KL(told ‖ said) = Σ told · (log told - log said) of every row."""
    return of_rows((torch.special.xlogy(told, told) - told * log_said).sum(-1))


def sharpened(distributions: Tensor, temperature: float) -> Tensor:
    """P̄ ∝ P^(1/T)."""
    powers = distributions.clamp_min(torch.finfo(distributions.dtype).tiny).log() / temperature
    return torch.softmax(powers, -1)


class Consistency:
    """λ(t) · mean over M passes and over sure rows of the distance of a pass from P̄; sure: max P̄ ≥ ε.

    P̄ is the sharpened mean of the passes, or what averaged weights say without dropout (SCR-m); it has no gradient.
    """

    name = "consistency"

    def __init__(
        self, batches: Batches | OwnBatches, settings: ConsistencySettings, model: nn.Module, facts: StepFacts
    ):
        self._rows, self._settings, self._facts, self._weight = DrawnRows(batches), settings, facts, 0.0
        self.teacher = MovingAverage(model, settings.decay) if settings.teacher == "average" else None

    def weight_in(self, epoch: int) -> float:
        rising = min(1.0, epoch / self._settings.warmup) if self._settings.warmup else 1.0
        return self._settings.weight * rising

    def batches(self, part: Stretch, steps: int, seed: int) -> Generator[Batch]:
        self._weight = self.weight_in(part.epoch)
        return self._rows.batches(part, steps, seed)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        settings, many = self._settings, self._facts.multi_label
        logs = [log_distributions(forward(batch), many) for _ in range(settings.passes)]
        with torch.no_grad():
            if self.teacher is None:
                together = torch.stack(logs).exp().mean(0)
            else:
                together = log_distributions(self.teacher(*_inputs(batch)), many).exp()
            target = sharpened(together, settings.temperature)
            counted = self._facts.own(batch) * (confidence(target) >= settings.confidence)
            count = float(self._facts.world.total(counted.sum()))
        if settings.distance == "kl":
            away = [divergence(target, log) for log in logs]
        else:
            away = [of_rows((log.exp() - target).square().sum(-1)) for log in logs]
        return self._weight * (torch.stack(away).mean(0) * counted).sum() / max(1.0, count)


class Distillation:
    """γ · mean over reliable rows of w_i · KL(P_i ‖ softmax(logits_i)), P the teacher's, w_i its confidence."""

    name = "distillation"
    teacher: MovingAverage | None = None

    def __init__(self, batches: Batches | OwnBatches, taught: Taught, facts: StepFacts) -> None:
        self._rows, self._taught, self._facts = DrawnRows(batches), taught, facts

    def weight_in(self, epoch: int) -> float:
        return self._taught.weight

    def batches(self, part: Stretch, steps: int, seed: int) -> Generator[Batch]:
        return self._rows.batches(part, steps, seed)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        many, logits = self._facts.multi_label, forward(batch)
        said = torch.from_numpy(np.ascontiguousarray(self._taught.said[batch.rows])).to(logits)
        target = as_distributions(said, many)
        away = confidence(target) * divergence(target, log_distributions(logits, many))
        own = self._facts.own(batch)
        rows = len(own) if batch.whole is None else batch.whole
        return self._taught.weight * (away * own).sum() / rows


@dataclass(frozen=True)
class StepFacts:
    """What both parts know of the training they belong to."""

    world: World
    device: torch.device
    multi_label: bool

    def own(self, batch: Batch) -> Tensor:
        """1 for every row of a batch; 0 where a rank has none of it and passes one for form's sake."""
        there = 1.0 if batch.counted is None or batch.counted else 0.0
        return torch.full((len(batch.rows),), there, device=self.device)


def parts_of_loss(
    beside: Beside,
    model: nn.Module,
    facts: StepFacts,
    batches: Callable[[UnlabelledRows, int | None], Batches | OwnBatches],
) -> list[LossPart]:
    """What is asked of rows without labels; `batches` gives rows so many at a time, or as many as labelled ones."""
    found: list[LossPart] = []
    if beside.consistency is not None and beside.consistency.weight and beside.rows is not None:
        rows = batches(beside.rows, beside.consistency.batch_size)
        found.append(Consistency(rows, beside.consistency, model, facts))
    if beside.taught is not None and beside.taught.weight:
        found.append(Distillation(batches(beside.taught.rows, None), beside.taught, facts))
    return found


class DrawnRows:
    """Batches of an epoch by a seed: no row comes again before all have come. The last epoch's order is held."""

    def __init__(self, batches: Batches | OwnBatches) -> None:
        self._batches = batches
        self._drawn: tuple[int, list[Tensor], list[list[int] | None]] | None = None

    def batches(self, part: Stretch, steps: int, seed: int) -> Generator[Batch]:
        """Those of a part of an epoch that has so many steps."""
        if self._drawn is None or self._drawn[0] != seed:
            count = self._batches.count
            size = max(2, min(self._batches.size, count))  # batch norm has no variance of one row
            positions = positions_of(count, steps * size, np.random.default_rng(seed))
            parts = list(torch.split(torch.from_numpy(positions), size))
            own = torch.Generator().manual_seed(seed)
            self._drawn = seed, parts, self._batches.source.drawn(len(parts), own)
        _, parts, views = self._drawn
        some = slice(part.begin, part.end)
        return self._batches.of(parts[some], False, views[some])


def positions_of(count: int, wanted: int, random: np.random.Generator) -> Array:
    """So many out of `count`, each as often as any other, or once more: in memory that goes by those wanted."""
    whole, rest = divmod(wanted, count)
    found = [random.permutation(count) for _ in range(whole)]
    if rest:
        found.append(random.choice(count, rest, replace=False))
    return np.concatenate(found).astype(np.int64)


def _inputs(batch: Batch) -> Sequence[Any]:
    return (batch.x, batch.y) if batch.views is None else (batch.x, batch.y, batch.views)
