"""The weights that all workers share, and the recipe's optimiser on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights
from gamlp.training.optimizer import learning_rate, make_optimizer, set_rate
from gamlp.training.server.streams import Kinds, kinds_of

Group = tuple[float, float, list[str]]  # weight decay, factor of the learning rate, names
Moving = dict[str, float]
_CPU = torch.device("cpu")


def run_digest(run: str, groups: list[Group], batches: int, kinds: Kinds) -> str:
    """Of everything that two workers of one run have in common; `run` stands for the recipe and the seed."""
    text = json.dumps([run, [list(group) for group in groups], batches, kinds], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Parameters:
    """Parameters that learn, and buffers: those of the last push, or moving averages of what pushes say.

    first: values of all by name, as the first worker made them.
    groups: names of the parameters, as the optimiser has them.
    moving: momentum of buffers that are moving averages, as batch norm's; a push says what its own batch has.
    """

    def __init__(
        self, first: Weights, groups: list[Group], settings: TrainingSettings, moving: Moving | None = None
    ) -> None:
        self.settings, self.groups, self.moving = settings, groups, moving or {}
        names = [name for _, _, some in groups for name in some]
        self.learned = {name: nn.Parameter(first[name].clone()) for name in names}
        self.buffers = {name: value.clone() for name, value in first.items() if name not in self.learned}
        parts: list[dict[str, Any]] = [
            {"params": [self.learned[name] for name in some], "weight_decay": decay, "rate": rate}
            for decay, rate, some in groups
        ]
        self.optimizer = make_optimizer(parts, settings, _CPU)
        self.kinds = kinds_of(first)

    def step(self, given: Mapping[str, torch.Tensor], epoch: int) -> None:
        """One step by gradients; a parameter without one stays, so that it does not decay."""
        set_rate(self.optimizer, learning_rate(self.settings, epoch))
        for name, value in self.learned.items():
            value.grad = given.get(name)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for name in self.buffers.keys() & given.keys():
            if name in self.moving:
                self.buffers[name] = self.buffers[name].lerp(given[name], self.moving[name])
            else:
                self.buffers[name] = given[name]

    def now(self) -> Weights:
        """A copy of all values."""
        return {name: value.detach().clone() for name, value in (*self.learned.items(), *self.buffers.items())}

    def optimizer_state(self) -> Weights:
        """A copy, for a checkpoint."""
        return {
            f"{index}.{name}": torch.as_tensor(value).clone()
            for index, state in self.optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }

    def restore_optimizer(self, kept: Weights) -> None:
        """As `optimizer_state` gave it."""
        states: dict[int, Weights] = {}
        for name, value in kept.items():
            index, _, key = name.partition(".")
            states.setdefault(int(index), {})[key] = value
        self.optimizer.load_state_dict({"state": states, "param_groups": self.optimizer.state_dict()["param_groups"]})
