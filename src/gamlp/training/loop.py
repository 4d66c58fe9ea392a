"""The one loop: training rows in, the weights of the best validation epoch (or the last) out; never test rows."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.io import Place, keep_freed_memory
from gamlp.models import Solvable
from gamlp.progress import Progress, silent
from gamlp.recipe import TrainingSettings
from gamlp.training.batches import (
    Batch,
    Batches,
    HopRows,
    LabelledRows,
    OwnBatches,
    Passes,
    Sharded,
    UnlabelledRows,
    own_rows,
)
from gamlp.training.checkpoint import TrainingState, Weights, weights_of
from gamlp.training.metrics import better, measure_of, metric_words, resolve_metric
from gamlp.training.optimizer import learning_rate
from gamlp.training.ranks.batch_norm import share_batch_norms
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.ranks.world import ALONE, World
from gamlp.training.scores import Loss, evaluate, loss_of
from gamlp.training.solved import solve
from gamlp.training.unlabelled import Beside, LossPart, MovingAverage, StepFacts, parts_of_loss

CHECKPOINT_SECONDS = 30.0
Observe = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Fitted:
    """A trained model with the weights of the epoch that was kept. `stopped` says why it ended early, or nothing.

    A model that is solved has no epochs; `solved` are the numbers that were chosen. `valid_mean` are validation numbers
    averaged over `training.window` epochs, the last of them the kept one.
    """

    model: nn.Module
    weights: Weights
    epoch: int
    epochs: int
    valid: dict[str, float]
    stopped: str = ""
    solved: dict[str, float] = field(default_factory=dict)
    valid_mean: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """Where and within what a model is trained; none of it is part of the recipe.

    `pause` is asked after each epoch: where it says so training ends for now, and goes on from the checkpoint.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    memory: int | None = None
    checkpoint: Path | Place | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    world: World = ALONE
    pause: Callable[[TrainingState], bool] | None = None


def fit(
    make: Callable[[], nn.Module],
    train: LabelledRows,
    valid: LabelledRows | None,
    settings: TrainingSettings,
    *,
    beside: Beside | None = None,
    seed: int = 0,
    machine: Machine | None = None,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Fitted:
    """Train the model that `make` gives, from the checkpoint where there is one; with all ranks of a joined world.

    `beside`: rows without labels that every step reads too.
    """
    machine, beside = machine or Machine(), beside or Beside()
    with keep_freed_memory(), torch.random.fork_rng(devices=[machine.device] if machine.device.type == "cuda" else []):
        torch.manual_seed(seed)
        shuffle = torch.Generator().manual_seed(seed)
        model = make()
        if isinstance(model, Solvable):
            machine.world.check_solved()
            solution = solve(model, train, valid, settings, seed=seed, machine=machine, progress=progress)
            if observe is not None:
                observe({"seed": seed, **solution.line})
            progress(f"seed {seed}", 1, 1, "models", "solved")
            facts, valid_mean = solution.facts, solution.valid
            return Fitted(model, weights_of(model), 0, 0, solution.valid, solved=facts, valid_mean=valid_mean)
        model = model.to(machine.device)
        if machine.world.rank:  # rank 0 draws as one process does
            torch.manual_seed(machine.world.random_seed(seed))
        return _Run(model, train, valid, settings, shuffle, seed, machine, beside).run(observe, progress)


class _Run:
    def __init__(
        self,
        model: nn.Module,
        train: LabelledRows,
        valid: LabelledRows | None,
        settings: TrainingSettings,
        shuffle: torch.Generator,
        seed: int,
        machine: Machine,
        beside: Beside | None = None,
    ) -> None:
        self.model, self.settings, self.shuffle, self.seed, self.machine = model, settings, shuffle, seed, machine
        self.world = machine.world
        self.train = self._batches(train, OwnBatches, machine.memory)
        left = None if machine.memory is None else machine.memory - self.train.held
        self.valid = None if valid is None or not len(valid) else self._batches(valid, own_rows, left)
        self.norms = share_batch_norms(model, self.world)
        self.world.follow([value.detach() for value in (*model.parameters(), *model.buffers())])
        self.parameters = [value for value in model.parameters() if value.requires_grad]
        # A model may add to its loss: `penalty()` is asked for after every forward pass in training.
        self.penalty: Callable[[], Tensor] | None = getattr(model, "penalty", None)
        self.loss: Loss = loss_of(train.targets, train.classes, settings.class_weights, machine.device)
        self.metric, self.measure = "", None
        if valid is not None and self.valid is not None:
            targets = train.targets
            self.metric = resolve_metric(settings, targets, valid.targets)[0]
            self.measure = measure_of(settings, targets, targets.ndim == 2, valid.targets)
        # What is validated and kept: the model itself, or its weights averaged over steps.
        self.average = MovingAverage(model, settings.ema) if settings.ema else None
        self.kept: nn.Module = model if self.average is None else self.average.module
        facts = StepFacts(self.world, machine.device, train.targets.ndim == 2)
        self.parts: list[LossPart] = parts_of_loss(beside or Beside(), model, facts, self._unlabelled)
        self.exchange = self.world.exchange(self)

    def _batches(self, source: LabelledRows, sharded: Sharded, memory: int | None) -> Passes:
        if self.world.size == 1:
            return source.batches(self.settings.batch_size, self.machine.device, memory)
        if not isinstance(source, HopRows):
            raise GamlpError("only models over hops are trained by several processes", hint="use --processes 1")
        return sharded(source, self.settings.batch_size, self.machine.device, memory, world=self.world)

    def _unlabelled(self, rows: UnlabelledRows, size: int | None) -> Batches | OwnBatches:
        """Rows without labels, within what labelled ones leave of the memory."""
        machine, size = self.machine, size or self.settings.batch_size
        held = self.train.held + (0 if self.valid is None else self.valid.held)
        left = None if machine.memory is None else max(0, machine.memory - held)
        if self.world.size == 1:
            return rows.batches(size, machine.device, left)
        return OwnBatches(rows, size, machine.device, left, world=self.world)

    @property
    def averages(self) -> dict[str, MovingAverage]:
        """Averaged weights by name, which a checkpoint holds too."""
        found = {"average": self.average}
        found |= {part.name: part.teacher for part in self.parts}
        return {name: one for name, one in found.items() if one is not None}

    def run(self, observe: Observe | None, progress: Progress) -> Fitted:
        begun, passed = time.monotonic(), False
        with closing(self.exchange.work()) as work:  # also where a step fails: others must not wait for it
            for task in work:
                if isinstance(task, Stretch):
                    begun, passed = begun if passed else time.monotonic(), True
                    self.train_on(task)
                    continue
                state = task.state
                task.line = line = self._look(state)
                if not state.stopped:
                    self._compare(state, line)
                line["seconds"], passed = round(time.monotonic() - begun, 4), False
                task.note = self._note(line, state)
                if observe is not None:
                    observe({"seed": self.seed, **line})
                progress(f"seed {self.seed}", state.epoch, self.settings.epochs, "epochs", task.note)
        state = self.exchange.ended()
        self.model.load_state_dict(state.best_weights)
        self.model.eval()
        return Fitted(
            self.model, state.best_weights, state.best_epoch, state.epoch, state.best, state.stopped,
            valid_mean=state.best_mean or state.best,
        )  # fmt: skip

    def train_on(self, part: Stretch) -> None:
        """A step for every batch of a part of an epoch."""
        self.model.train()
        reading = self._reading(part)
        for batch in self.exchange.batches(part):
            added = [one.loss(self._forward, next(batches)) for one, batches in reading]
            own = self._loss(batch)
            loss = torch.stack([own, *added]).sum() if added else own
            loss.backward()  # type: ignore[no-untyped-call]
            losses = torch.stack([one.detach() for one in (loss, *added)])
            self.exchange.step(losses, batch.whole or len(batch.target))
        for _, batches in reading:
            batches.close()

    def _look(self, state: TrainingState) -> dict[str, Any]:
        """What is told of an epoch; validation rows are looked at."""
        loss, *of_parts = self.exchange.losses()
        line: dict[str, Any] = {
            "epoch": state.epoch,
            "learning_rate": learning_rate(self.settings, state.epoch - 1),
            "loss": loss,
        }
        line |= {part.name: value for part, value in zip(self.weighing(state.epoch - 1), of_parts)}
        if self.valid is not None and math.isfinite(line["loss"]):
            found = evaluate(self.kept, self.valid, None, self.world, self.measure)
            line |= {f"valid_{name}": value for name, value in found.items()}
        finite = all(math.isfinite(line[name]) for name in ("loss", "valid_loss") if name in line)
        # The loss is of weights before the last step: that step may have been the one too far.
        if not (finite and all(bool(value.isfinite().all()) for value in self.model.parameters())):
            state.stopped = f"the loss or a weight became NaN or infinite in epoch {state.epoch}"
            if not state.best_epoch:
                raise GamlpError(
                    f"{state.stopped}, before any good weights",
                    hint="lower training.learning_rate, or scale the features (propagation.scaling)",
                )
        return line

    def weighing(self, epoch: int) -> list[LossPart]:
        """Parts of the loss that rows without labels have in an epoch."""
        return [part for part in self.parts if part.weight_in(epoch)]

    def _reading(self, part: Stretch) -> list[tuple[LossPart, Generator[Batch]]]:
        """Those of an epoch, with the batches of each for a part of it."""
        found = self.weighing(part.epoch)
        if not found:
            return []
        assert isinstance(self.train, Batches | OwnBatches)
        steps = len(self.train)
        return [(one, one.batches(part, steps, seed)) for one, seed in zip(found, self.exchange.seeds(part))]

    def _forward(self, batch: Batch) -> Tensor:
        """Logits of a batch, or of this rank's part of it."""
        for norm in self.norms:
            norm.counted = batch.counted != 0
        some = () if batch.views is None else (batch.views,)  # a sample of views, which the model is told
        logits: Tensor = self.model(batch.x, batch.y, *some)
        return logits

    def _loss(self, batch: Batch) -> Tensor:
        """Of the batch, or of this rank's part of it: Σ over ranks is the loss of the global batch."""
        loss = self.loss(self._forward(batch), batch.target, batch.share)
        if self.penalty is None:
            return loss
        part = 1.0 if batch.whole is None or batch.counted is None else batch.counted / batch.whole
        return loss + part * self.penalty()

    def _compare(self, state: TrainingState, line: dict[str, Any]) -> None:
        """Keep the weights of a better epoch (with `keep: last`, of any); stop when none came for `patience`.

        Means over the last `window` epochs are compared; what is told of an epoch are its own numbers.
        """
        now = {name: line[f"valid_{name}"] for name in ("loss", "score", "metric") if f"valid_{name}" in line}
        now = now or {"loss": math.nan, "score": math.nan}
        state.recent = [*state.recent, now][-self.settings.window :]
        mean = {name: statistics.fmean(one[name] for one in state.recent) for name in now}
        if state.lowest_loss is None or mean["loss"] < state.lowest_loss:
            state.lowest_loss, state.lowest_epoch = mean["loss"], state.epoch
        last = self.valid is None or self.settings.keep == "last"
        if last or not state.best or better(mean, state.best_mean or state.best, self.settings):
            state.best, state.best_mean, state.best_epoch = now, mean, state.epoch
            state.best_weights = weights_of(self.kept)
            return
        since = state.best_epoch
        if self.settings.monitor == "smooth":  # a loss that still falls says that the metric may yet rise
            since = max(since, state.lowest_epoch)
        if self.settings.patience and state.epoch - since >= self.settings.patience:
            state.stopped = f"no better epoch in {self.settings.patience}"

    def _note(self, line: dict[str, Any], state: TrainingState) -> str:
        note = f"loss {line['loss']:.4f}"
        if "valid_metric" in line:
            best = state.best.get("metric", 0.0)
            note += f", valid {metric_words(self.metric)} {line['valid_metric']:.4f} (best {best:.4f})"
        elif "valid_score" in line:
            note += f", valid {100 * line['valid_score']:.2f} % (best {100 * state.best.get('score', 0):.2f} %)"
        return note
