"""A worker of a parameter server: the loop's exchange that pulls weights and pushes gradients."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from pyarrow import flight
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.training.batches import Batch, Batches
from gamlp.training.checkpoint import TrainingState, Weights, weights_of
from gamlp.training.optimizer import parameter_groups
from gamlp.training.order import draw_seed, parts_of
from gamlp.training.ranks.exchange import Exchange, Learner, Look, Stretch
from gamlp.training.ranks.world import World
from gamlp.training.server.client import Client
from gamlp.training.server.links import Gradients, link_of
from gamlp.training.server.parameter_server import LATE, NOT_FINITE
from gamlp.training.server.parameters import Layout, Moving

PATIENCE = 120.0  # seconds in which a server that was killed may come back
_SIGN_OF_LIFE = 2.0  # seconds
_ORDERS = 4  # epochs whose order of rows is kept
_MOST_REFUSED, _PAUSE = 50, 0.1  # tries, and seconds between them, to have the best weights of a server that has ended
KEPT = "average"  # of the averages: the one that is validated and kept


@dataclass(frozen=True)
class ServedWorld(World):
    """A worker of a parameter server: it reads whole batches and validates alone, so that it is a world of one.

    address: host:port of the server.
    run: digest of the recipe and the seed.
    root: certificates that are trusted, in PEM; with them the server speaks TLS.
    """

    address: str = ""
    token: str = ""
    run: str = ""
    root: str | None = None
    patience: float = PATIENCE

    def as_text(self) -> str:
        """For a worker's environment, or a task."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self) if one.name != "meeting"})

    @classmethod
    def of_text(cls, text: str) -> ServedWorld:
        """As `as_text` gave it."""
        return cls(**json.loads(text))

    @property
    def tells(self) -> bool:
        """The server does."""
        return False

    @property
    def keeps(self) -> bool:
        """Whoever comes to the end: all would write the same."""
        return True

    def exchange(self, learner: Learner) -> Exchange:
        if not isinstance(learner.train, Batches):
            raise GamlpError("only models over hops are trained with a parameter server", hint="leave --exchange out")
        return Served(learner, learner.train, self)

    def check_solved(self) -> None:
        raise GamlpError(
            "this model is solved at once: a parameter server has nothing to do", hint="leave --exchange out"
        )


@dataclass(frozen=True)
class _Order:
    """Batches of an epoch, and the seeds of what parts of the loss read beside them."""

    parts: list[Tensor]
    in_order: bool
    views: list[list[int] | None]
    seeds: list[int]


class Served:
    """The exchange of one worker."""

    def __init__(self, learner: Learner, train: Batches, world: ServedWorld) -> None:
        self.learner, self.train, self.world = learner, train, world
        named = dict(learner.model.named_parameters())
        self._learned = {name: value for name, value in named.items() if value.requires_grad}
        self._start = learner.shuffle.get_state()
        self._orders: dict[int, _Order] = {}
        self._drawn = 0
        first = {name: value.detach().cpu().clone() for name, value in self._values().items()}
        self._layout = layout_of(learner)
        teachers = [name for name in self._layout.averages if name != KEPT]
        batches, slices = len(self._order(0).parts), learner.settings.servers
        self._link = link_of(world, first, self._layout, batches, teachers, slices)
        self._before: Weights = {}  # buffers as they were pulled
        self._losses: list[float] = []
        self._final: dict[str, Any] = {}
        self._best: Weights = {}
        self._at, self._end = Stretch(0), 0

    def _values(self) -> dict[str, Tensor]:
        """Parameters that learn, and all buffers."""
        return {**self._learned, **dict(self.learner.model.named_buffers())}

    def work(self) -> Generator[Stretch | Look]:
        ended, refused = threading.Event(), 0
        self._link.begin()
        alive = threading.Thread(target=self._live, args=(ended,), daemon=True)
        alive.start()
        try:
            while True:
                task = self._link.next()
                if task.get("task") == "end":
                    best = self._link.ended(task["state"]["best_epoch"] - 1)
                    if best is None:  # a server went back to a checkpoint meanwhile: there is more to do
                        refused += 1
                        if refused > _MOST_REFUSED:
                            raise GamlpError("the parameter server no longer has the weights of the best epoch")
                        time.sleep(_PAUSE)
                        continue
                    self._final, self._best = task["state"], best
                    return
                if task.get("task") == "part":
                    self._link.lost = False
                    self._take(self._link.pull())
                    yield Stretch(task["epoch"], task["begin"], task["end"])
                elif task.get("task") == "look":
                    yield from self._look(task)
        finally:
            ended.set()
            alive.join()

    def _live(self, ended: threading.Event) -> None:
        """Signs of life while a step takes its time."""
        client = Client(replace(self.world, patience=0.0))
        while not ended.wait(_SIGN_OF_LIFE):
            with suppress(GamlpError, flight.FlightError, OSError):
                client.say("alive", **self._link.who)
        client.close()

    def _look(self, task: dict[str, Any]) -> Generator[Look]:
        weights = self._link.ended(task["epoch"])
        if weights is None:
            return
        self._take(weights)
        self._losses = task["losses"]
        look = Look(TrainingState(**{**task["state"], "epoch": task["epoch"] + 1}))
        yield look
        state = {name: value for name, value in asdict(look.state).items() if name != "best_weights"}
        told = {"epoch": task["epoch"], "state": state, "line": {"seed": self.learner.seed, **look.line}}
        self._link.say("looked", note=look.note, **told)

    def seeds(self, part: Stretch) -> list[int]:
        return self._order(part.epoch).seeds

    def batches(self, part: Stretch) -> Generator[Batch]:
        order = self._order(part.epoch)
        self._end = len(order.parts) if part.end is None else part.end
        some = slice(part.begin, self._end)
        given = self.train.of(order.parts[some], order.in_order, order.views[some])
        for number, batch in zip(range(part.begin, self._end), given):
            self._at = Stretch(part.epoch, number, number + 1)
            yield batch
            if self._link.lost:  # another has the rest
                break
        given.close()

    def _order(self, epoch: int) -> _Order:
        """The batches of an epoch, as one process would draw them after those before."""
        if epoch < self._drawn and epoch not in self._orders:
            self.learner.shuffle.set_state(self._start)
            self._drawn = 0
        source, shuffle = self.train.source, self.learner.shuffle
        while self._drawn <= epoch:
            seeds = [draw_seed(shuffle) for _ in self.learner.weighing(self._drawn)]
            parts, in_order = parts_of(len(source), self.train.size, shuffle, source.chunk)
            self._orders[self._drawn] = _Order(parts, in_order, source.drawn(len(parts), shuffle), seeds)
            self._orders.pop(self._drawn - _ORDERS, None)
            self._drawn += 1
        return self._orders[epoch]

    def step(self, losses: Tensor, rows: int) -> None:
        given = {name: value.grad for name, value in self._learned.items() if value.grad is not None}
        buffers, moving = self._buffers()
        pushed = Gradients(self._at, {**given, **buffers}, moving, losses.tolist(), rows)
        refused, weights = self._link.push(pushed, more=self._at.end != self._end)
        for value in self._learned.values():
            value.grad = None
        if refused == LATE:
            self._link.lost = True
        elif refused and refused != NOT_FINITE:
            raise GamlpError(f"the parameter server refuses gradients: they are {refused}")
        self._take(weights)

    def _buffers(self) -> tuple[Weights, Moving]:
        """As they are after a batch; of moving averages what the batch itself has: new = old + m (batch - old).

        Where a step runs a norm k times, 1 - (1 - m)^k stands for m.
        """
        found, moving = dict(self.learner.model.named_buffers()), Moving()
        for name, momentum in self._layout.moving.items():
            before, counter = self._before[name], _counter(name)
            passes = int(found[counter] - self._before[counter])
            if not passes:
                del found[name]
                continue
            if passes > 1:
                momentum = moving[name] = 1 - (1 - momentum) ** passes
            found[name] = before + (found[name] - before) / momentum
        return found, moving

    @torch.no_grad()
    def _take(self, weights: Weights) -> None:
        values, model = self._values(), self.learner.model
        for name, value in weights.items():
            if name in values:
                values[name].copy_(value)
        for average, module in self.learner.averages.items():
            prefix = f"{average}/"
            own = dict(module.module.named_parameters())
            found = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            for name, value in found.items():
                own[name].copy_(value)
            for buffer, value in zip(module.module.buffers() if found else (), model.buffers()):
                buffer.copy_(value)
        self._before = {name: value.clone() for name, value in model.named_buffers()}

    def losses(self) -> list[float]:
        return self._losses

    def ended(self) -> TrainingState:
        self._take(self._best)
        self._link.close()
        average = self.learner.averages.get(KEPT)
        kept = self.learner.model if average is None else average.module
        return TrainingState(**{**self._final, "best_weights": weights_of(kept)})


def layout_of(learner: Learner) -> Layout:
    """What a server must know of a model's tensors."""
    names = {id(value): name for name, value in learner.model.named_parameters()}
    groups = []
    for group in parameter_groups(learner.model, learner.settings):
        values: list[nn.Parameter] = group["params"]
        groups.append((float(group["weight_decay"]), float(group["rate"]), [names[id(value)] for value in values]))
    averages = {name: average.decay for name, average in learner.averages.items()}
    return Layout(groups, _moving(learner.model), averages)


def _moving(model: nn.Module) -> Moving:
    """Batch norms' running statistics with their momentum; without one they are means over all batches."""
    found: Moving = {}
    for place, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum and module.track_running_stats:
            prefix = f"{place}." if place else ""
            found |= {f"{prefix}{name}": float(module.momentum) for name in ("running_mean", "running_var")}
    return found


def _counter(name: str) -> str:
    """The buffer that counts the passes of the norm that another buffer is of."""
    return f"{name.rpartition('.')[0]}.num_batches_tracked".removeprefix(".")
