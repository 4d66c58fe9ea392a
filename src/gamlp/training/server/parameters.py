"""The weights that all workers share, or a server's slice of them, and the recipe's optimiser on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights
from gamlp.training.optimizer import learning_rate, make_optimizer, set_rate
from gamlp.training.server.streams import Kinds, kinds_of

Group = tuple[float, float, list[str]]  # weight decay, factor of the learning rate, names
Moving = dict[str, float]
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Layout:
    """What a server must know of a model's tensors, beside their first values.

    groups: names of the parameters that learn, as the optimiser has them.
    moving: momentum of buffers that are moving averages, as batch norm's; a push says what its own batch has.
    averages: decay of each average of the weights, w̄ ← d w̄ + (1 - d) w after every step.
    """

    groups: list[Group]
    moving: Moving = field(default_factory=dict)
    averages: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Layout:
        """As JSON has it."""
        groups = [(float(decay), float(rate), [str(name) for name in names]) for decay, rate, names in told["groups"]]
        moving, averages = (
            {str(name): float(value) for name, value in told.get(kind, {}).items()} for kind in ("moving", "averages")
        )
        return cls(groups, moving, averages)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def of_slice(self, names: Sequence[str]) -> Layout:
        """Of a slice, which may lack the smallest tensors."""
        groups = [(decay, rate, [name for name in some if name in names]) for decay, rate, some in self.groups]
        moving = {name: value for name, value in self.moving.items() if name in names}
        return Layout([group for group in groups if group[2]], moving, self.averages)


def run_digest(run: str, layout: Layout, batches: int, kinds: Kinds) -> str:
    """Of everything that two workers of one run have in common; `run` stands for the recipe and the seed."""
    text = json.dumps([run, [list(group) for group in layout.groups], batches, kinds], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def cut(tensors: Mapping[str, Tensor], number: int, count: int) -> Weights:
    """The slice of server `number`, from 0, of `count`: an equal stretch of every tensor, flat.

    Adam steps by every number alone, so that slices together are what one server has. A tensor that has fewer numbers
    than there are servers is not in every slice.

    >>> [cut({"w": torch.arange(5)}, number, 2)["w"].tolist() for number in (0, 1)]
    [[0, 1], [2, 3, 4]]
    """
    found = {}
    for name, value in tensors.items():
        begin, end = number * value.numel() // count, (number + 1) * value.numel() // count
        if begin < end:
            found[name] = value.detach().reshape(-1)[begin:end]
    return found


def put_together(slices: Sequence[Weights]) -> Weights:
    """Flat tensors of all slices, in the order of their servers."""
    names = dict.fromkeys(name for one in slices for name in one)
    return {name: torch.cat([one[name] for one in slices if name in one]) for name in names}


class Parameters:
    """Parameters that learn, averages of them, and buffers: those of the last push, or moving averages of all pushes.

    first: values of all by name, as the first worker made them.
    """

    def __init__(self, first: Weights, layout: Layout, settings: TrainingSettings) -> None:
        self.settings, self.layout = settings, layout
        names = [name for _, _, some in layout.groups for name in some]
        self.learned = {name: nn.Parameter(first[name].clone()) for name in names}
        self.buffers = {name: value.clone() for name, value in first.items() if name not in self.learned}
        self.averaged = {average: {name: first[name].clone() for name in self.learned} for average in layout.averages}
        self.steps = 0
        parts: list[dict[str, Any]] = [
            {"params": [self.learned[name] for name in some], "weight_decay": decay, "rate": rate}
            for decay, rate, some in layout.groups
        ]
        self.optimizer = make_optimizer(parts, settings, _CPU) if parts else None
        self.kinds = kinds_of(first)

    def step(self, given: Mapping[str, Tensor], epoch: int, moving: Moving | None = None) -> None:
        """One step by gradients; a parameter without one stays, so that it does not decay.

        moving: other momenta for this push, of a norm that its step ran several times.
        """
        if self.optimizer is not None:
            set_rate(self.optimizer, learning_rate(self.settings, epoch))
            for name, value in self.learned.items():
                value.grad = given.get(name)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self._average()
        momenta = {**self.layout.moving, **(moving or {})}
        for name in self.buffers.keys() & given.keys():
            if name in self.layout.moving:
                self.buffers[name] = self.buffers[name].lerp(given[name], momenta[name])
            else:
                self.buffers[name] = given[name]

    @torch.no_grad()
    def _average(self) -> None:
        for average, decay in self.layout.averages.items():
            for name, value in self.averaged[average].items():
                if self.steps:
                    value.lerp_(self.learned[name], 1 - decay)
                else:
                    value.copy_(self.learned[name])
        self.steps += 1

    def now(self, averages: Sequence[str] | None = None) -> Weights:
        """A copy of all values, with all averages, or with these: `average/name`."""
        chosen = self.averaged if averages is None else [one for one in averages if one in self.averaged]
        found: dict[str, Tensor] = {**self.learned, **self.buffers}
        for average in chosen:
            found |= {f"{average}/{name}": value for name, value in self.averaged[average].items()}
        return {name: value.detach().clone() for name, value in found.items()}

    def optimizer_state(self) -> Weights:
        """A copy, for a checkpoint."""
        if self.optimizer is None:
            return {}
        return {
            f"{index}.{name}": torch.as_tensor(value).clone()
            for index, state in self.optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }

    def restore(self, values: Weights, optimizer: Weights, steps: int) -> None:
        """As `now` and `optimizer_state` gave them after so many steps."""
        self.steps = steps
        for average, held in self.averaged.items():
            for name in held:
                held[name] = values[f"{average}/{name}"].clone()
        states: dict[int, Weights] = {}
        for name, value in optimizer.items():
            index, _, key = name.partition(".")
            states.setdefault(int(index), {})[key] = value
        if self.optimizer is not None:
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": states, "param_groups": groups})
