"""How gradients become steps: in this process or summed over all ranks; a parameter server does it another way.

The loop asks an exchange what to do next: to train on batches of an epoch, or to look at what an epoch brought.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from gamlp.io import Place
from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import RandomStreams, TrainingState, load_checkpoint, save_checkpoint
from gamlp.training.optimizer import learning_rate, make_optimizer, parameter_groups, set_rate
from gamlp.training.order import draw_seed

if TYPE_CHECKING:
    from gamlp.training.batches import Batch, Passes
    from gamlp.training.loop import Machine
    from gamlp.training.unlabelled import LossPart, MovingAverage


@dataclass(frozen=True)
class Stretch:
    """Work: batches `begin` to `end` of an epoch, from 0; without an end all."""

    epoch: int
    begin: int = 0
    end: int | None = None


@dataclass
class Look:
    """Work: validate the model as an epoch left it, and compare. The loop leaves `line` and `note` of it here."""

    state: TrainingState
    line: dict[str, Any] = field(default_factory=dict)
    note: str = ""


class Learner(Protocol):
    """What an exchange knows of the run that it serves."""

    model: nn.Module
    parameters: list[nn.Parameter]
    train: Passes
    settings: TrainingSettings
    shuffle: torch.Generator
    seed: int
    machine: Machine
    parts: list[LossPart]

    @property
    def averages(self) -> Mapping[str, MovingAverage]:
        """Averages of the weights by name: `average` is what is validated and kept, others teach a part of the loss."""

    def weighing(self, epoch: int) -> list[LossPart]:
        """Parts of the loss that rows without labels have in an epoch."""


class Exchange(Protocol):
    """Turns gradients into steps, and says what is to be done next."""

    def work(self) -> Generator[Stretch | Look]:
        """What is to be done, until training ends; from a checkpoint where there is one."""

    def seeds(self, part: Stretch) -> list[int]:
        """For each part of the loss that weighs in this epoch the seed of its rows; asked before `batches`."""

    def batches(self, part: Stretch) -> Iterator[Batch]:
        """The batches of a part."""

    def step(self, losses: Tensor, rows: int) -> None:
        """One step by the gradients that the model's parameters have, and averages follow it.

        `losses` of so many rows are kept for a line.
        """

    def losses(self) -> list[float]:
        """Of the epoch that is looked at: the mean loss, and of each part of it."""

    def ended(self) -> TrainingState:
        """After all work: the best epoch with its weights."""


class Together:
    """In step: one process, or the sum over all ranks of a joined world before each step."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.world, self.machine = learner, learner.machine.world, learner.machine
        self.state = TrainingState()
        self.optimizer = make_optimizer(
            parameter_groups(learner.model, learner.settings), learner.settings, self.machine.device
        )
        self._sums, self._rows = torch.zeros((), device=self.machine.device), 0

    def work(self) -> Generator[Stretch | Look]:
        learner, machine, state = self.learner, self.machine, self.state
        settings, place = learner.settings, machine.checkpoint
        streams = RandomStreams(learner.shuffle, machine.device, self.world, learner.seed)
        if place is not None and Place.of(place).exists():
            state = self.state = load_checkpoint(place, learner.model, self.optimizer, streams, learner.averages)
        self.world.agree(state.epoch, "checkpoint", machine.device)
        saved = time.monotonic()
        while state.epoch < settings.epochs and not state.stopped:
            yield Stretch(state.epoch)
            # Those that a model of one's own keeps may differ by rank.
            self.world.follow(list(learner.model.buffers()))
            state.epoch += 1
            yield Look(state)
            paused = self._paused(machine.pause)
            due = paused or time.monotonic() - saved >= machine.checkpoint_seconds
            if place is not None and self.world.decided(due, machine.device):
                save_checkpoint(place, state, learner.model, self.optimizer, streams, learner.averages)
                saved = time.monotonic()
            if paused:
                break

    def _paused(self, pause: Callable[[TrainingState], bool] | None) -> bool:
        """Whether training ends for now: what rank 0 is told."""
        if pause is None or self.state.stopped or self.state.epoch >= self.learner.settings.epochs:
            return False
        return self.world.decided(pause(self.state), self.machine.device)

    def seeds(self, part: Stretch) -> list[int]:
        return [draw_seed(self.learner.shuffle) for _ in self.learner.weighing(part.epoch)]

    def batches(self, part: Stretch) -> Iterator[Batch]:
        set_rate(self.optimizer, learning_rate(self.learner.settings, part.epoch))
        self._sums, self._rows = torch.zeros((), device=self.machine.device), 0
        return self.learner.train.epoch(self.learner.shuffle)

    def step(self, losses: Tensor, rows: int) -> None:
        self.world.sum_gradients(self.learner.parameters)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for average in self.learner.averages.values():
            average.update_parameters(self.learner.model)
        self._sums = self._sums + losses * rows
        self._rows += rows  # a sampler may leave rows out, or give them twice

    def losses(self) -> list[float]:
        sums: list[float] = self.world.total(self._sums.reshape(-1)).tolist()
        return [value / max(1, self._rows) for value in sums]

    def ended(self) -> TrainingState:
        return self.state
