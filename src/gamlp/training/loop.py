"""The one loop: training rows in, the weights of the best validation epoch (or the last) out; never test rows."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator, Iterable
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
from gamlp.training.checkpoint import (
    RandomStreams,
    TrainingState,
    Weights,
    load_checkpoint,
    save_checkpoint,
    weights_of,
)
from gamlp.training.metrics import better, measure_of, metric_words, resolve_metric
from gamlp.training.ranks.batch_norm import share_batch_norms
from gamlp.training.ranks.world import ALONE, World
from gamlp.training.scores import Loss, evaluate, loss_of
from gamlp.training.solved import solve
from gamlp.training.unlabelled import Beside, LossPart, StepFacts, averaged, parts_of_loss

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
            asked = settings, train.targets, train.targets.ndim == 2, valid.targets
            self.metric, self.measure = resolve_metric(*asked)[0], measure_of(*asked)
        # What is validated and kept: the model itself, or its weights averaged over steps.
        self.average = averaged(model, settings.ema) if settings.ema else None
        self.kept: nn.Module = model if self.average is None else self.average.module
        facts = StepFacts(self.world, machine.device, train.targets.ndim == 2)
        self.parts: list[LossPart] = parts_of_loss(beside or Beside(), model, facts, self._unlabelled)
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = kind(
            parameter_groups(model, settings),
            lr=settings.learning_rate,
            fused=machine.device.type in ("cpu", "cuda"),
        )

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
    def _averages(self) -> dict[str, nn.Module]:
        """Averaged weights by name, which a checkpoint holds too."""
        found: dict[str, nn.Module | None] = {"average": self.average}
        found |= {part.name: part.teacher for part in self.parts}
        return {name: one for name, one in found.items() if one is not None}

    def run(self, observe: Observe | None, progress: Progress) -> Fitted:
        settings, place = self.settings, self.machine.checkpoint
        state = TrainingState()
        streams = RandomStreams(self.shuffle, self.machine.device, self.world, self.seed)
        if place is not None and Place.of(place).exists():
            state = load_checkpoint(place, self.model, self.optimizer, streams, self._averages)
        self.world.agree(state.epoch, "checkpoint", self.machine.device)
        saved = time.monotonic()
        while state.epoch < settings.epochs and not state.stopped:
            begun = time.monotonic()
            line = self._epoch(state)
            if not state.stopped:
                self._compare(state, line)
            seconds = time.monotonic() - begun
            if observe is not None:
                observe({"seed": self.seed, **line, "seconds": round(seconds, 4)})
            progress(f"seed {self.seed}", state.epoch, settings.epochs, "epochs", self._note(line, state))
            paused = self._paused(state)
            due = paused or time.monotonic() - saved >= self.machine.checkpoint_seconds
            if place is not None and self.world.decided(due, self.machine.device):
                save_checkpoint(place, state, self.model, self.optimizer, streams, self._averages)
                saved = time.monotonic()
            if paused:
                break
        self.model.load_state_dict(state.best_weights)
        self.model.eval()
        return Fitted(
            self.model, state.best_weights, state.best_epoch, state.epoch, state.best, state.stopped,
            valid_mean=state.best_mean or state.best,
        )  # fmt: skip

    def _epoch(self, state: TrainingState) -> dict[str, Any]:
        """One pass over the training rows, then a look at the validation rows."""
        rate = learning_rate(self.settings, state.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        self.model.train()
        total, rows = torch.zeros((), device=self.machine.device), 0
        reading = self._reading(state.epoch)
        of_parts = torch.zeros(len(reading), device=self.machine.device)
        for batch in self.train.epoch(self.shuffle):
            self.optimizer.zero_grad()
            added = [part.loss(self._forward, next(batches)) for part, batches in reading]
            loss = torch.stack([self._loss(batch), *added]).sum() if added else self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            self.world.sum_gradients(self.parameters)
            self.optimizer.step()
            self._average()
            count = batch.whole or len(batch.target)
            total += loss.detach() * count
            of_parts += torch.stack([one.detach() for one in added]) * count if added else 0
            rows += count  # a sampler may leave rows out, or give them twice
        for _, batches in reading:
            batches.close()
        self.world.follow(list(self.model.buffers()))  # those that a model of one's own keeps may differ by rank
        state.epoch += 1
        line: dict[str, Any] = {
            "epoch": state.epoch,
            "learning_rate": rate,
            "loss": float(self.world.total(total)) / max(1, rows),
        }
        for (part, _), value in zip(reading, self.world.total(of_parts).tolist()):
            line[part.name] = value / max(1, rows)
        if self.valid is not None and math.isfinite(line["loss"]):
            found = evaluate(self.kept, self.valid, None, self.world, self.measure)
            line |= {f"valid_{name}": value for name, value in found.items()}
        finite = all(math.isfinite(line[name]) for name in ("loss", "valid_loss") if name in line)
        # The loss is of weights before the last step: that step may have been the one too far.
        if not (finite and all(bool(value.isfinite().all()) for value in self.model.parameters())):
            state.stopped = f"the loss or a weight became NaN or infinite in epoch {state.epoch}"
            if not state.best_weights:
                raise GamlpError(
                    f"{state.stopped}, before any good weights",
                    hint="lower training.learning_rate, or scale the features (propagation.scaling)",
                )
        return line

    def _reading(self, epoch: int) -> list[tuple[LossPart, Generator[Batch]]]:
        """Parts of the loss that rows without labels have in an epoch, with the batches of each."""
        found = []
        for part in self.parts:
            assert isinstance(self.train, Batches | OwnBatches)
            batches = part.epoch(epoch, len(self.train), self.shuffle)
            if batches is not None:
                found.append((part, batches))
        return found

    def _average(self) -> None:
        """Let averaged weights follow a step."""
        for one in (self.average, *(part.teacher for part in self.parts)):
            if one is not None:
                one.update_parameters(self.model)

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

    def _paused(self, state: TrainingState) -> bool:
        """Whether training ends for now: what rank 0 is told."""
        if self.machine.pause is None or state.stopped or state.epoch >= self.settings.epochs:
            return False
        return self.world.decided(self.machine.pause(state), self.machine.device)

    def _note(self, line: dict[str, Any], state: TrainingState) -> str:
        note = f"loss {line['loss']:.4f}"
        if "valid_metric" in line:
            best = state.best.get("metric", 0.0)
            note += f", valid {metric_words(self.metric)} {line['valid_metric']:.4f} (best {best:.4f})"
        elif "valid_score" in line:
            note += f", valid {100 * line['valid_score']:.2f} % (best {100 * state.best.get('score', 0):.2f} %)"
        return note


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Parameters by their weight decay and by what their learning rate is multiplied with.

    All decay, or those that the model's `decayed()` names: some papers decay the first layer alone. Those that its
    `attention_vectors()` names have a rate and a decay of their own, where the settings say so.
    """
    decayed: Callable[[], Iterable[nn.Parameter]] | None = getattr(model, "decayed", None)
    vectors: Callable[[], Iterable[nn.Parameter]] | None = getattr(model, "attention_vectors", None)
    chosen = None if decayed is None else {id(value) for value in decayed()}
    attending = set() if vectors is None else {id(value) for value in vectors()}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for value in model.parameters():
        decay = settings.weight_decay if chosen is None or id(value) in chosen else 0.0
        rate = 1.0
        if id(value) in attending:
            rate = settings.attention_rate
            decay = decay if settings.attention_decay is None else settings.attention_decay
        if value.requires_grad:
            groups.setdefault((decay, rate), []).append(value)
    return [{"params": values, "weight_decay": decay, "rate": rate} for (decay, rate), values in groups.items()]


def learning_rate(settings: TrainingSettings, epoch: int) -> float:
    """Of an epoch, from 0: rising through `warmup`, then constant, or falling to zero by cosine or line."""
    if epoch < settings.warmup:
        return settings.learning_rate * (epoch + 1) / (settings.warmup + 1)
    done = (epoch - settings.warmup) / max(1, settings.epochs - settings.warmup)
    share = {"constant": 1.0, "cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done}[settings.schedule]
    return settings.learning_rate * share
