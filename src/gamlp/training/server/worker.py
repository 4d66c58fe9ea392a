"""A worker of a parameter server: the loop's exchange that pulls weights and pushes gradients."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

import torch
from pyarrow import flight
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.training.batches import Batch, Batches
from gamlp.training.checkpoint import TrainingState, Weights, weights_of
from gamlp.training.optimizer import parameter_groups
from gamlp.training.order import parts_of
from gamlp.training.ranks.exchange import Exchange, Learner, Look, Stretch
from gamlp.training.ranks.world import World
from gamlp.training.server.parameter_server import LATE, NOT_FINITE
from gamlp.training.server.parameters import Group, Moving, run_digest
from gamlp.training.server.service import TOKEN_HEADER
from gamlp.training.server.streams import SCHEMA, kinds_of, receive_tensors, send_tensors

PATIENCE = 120.0  # seconds in which a server that was killed may come back
_AGAIN = 0.2  # seconds between two attempts to reach it
_SIGN_OF_LIFE = 2.0  # seconds
_ORDERS = 4  # epochs whose order of rows is kept
Given = TypeVar("Given")
Streamed = tuple[dict[str, Any], Weights]


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
        if learner.averages or learner.parts:
            raise GamlpError(
                "a parameter server trains without consistency, stages and averaged weights (training.ema)",
                hint="use --exchange all-reduce",
            )
        if not isinstance(learner.train, Batches):
            raise GamlpError("only models over hops are trained with a parameter server", hint="leave --exchange out")
        return Served(learner, learner.train, self)

    def check_solved(self) -> None:
        raise GamlpError(
            "this model is solved at once: a parameter server has nothing to do", hint="leave --exchange out"
        )


class Client:
    """Speaks with a parameter server; one that does not answer is asked again for a while."""

    def __init__(self, world: ServedWorld, again: Callable[[], None] = lambda: None) -> None:
        self._world, self._again = world, again
        self._options = flight.FlightCallOptions(headers=[(TOKEN_HEADER.encode(), f"Bearer {world.token}".encode())])
        self._client = self._connect()

    def _connect(self) -> Any:
        secrets = {} if self._world.root is None else {"tls_root_certs": self._world.root}
        scheme = "grpc" if self._world.root is None else "grpc+tls"
        # A proxy of the environment is for the world outside.
        options = [("grpc.enable_http_proxy", 0)]
        return flight.FlightClient(f"{scheme}://{self._world.address}", generic_options=options, **secrets)

    def say(self, word: str, **asked: Any) -> dict[str, Any]:
        """A small question, and its answer."""
        action = flight.Action(word, json.dumps(asked).encode())

        def ask() -> dict[str, Any]:
            found = next(iter(self._client.do_action(action, self._options)))
            answer: dict[str, Any] = json.loads(found.body.to_pybytes())
            return answer

        return self._answered(ask)

    def stream(
        self, word: str, tensors: Weights, *, first: bool = False, **asked: Any
    ) -> tuple[dict[str, Any], Weights]:
        """Tensors there, and others back."""
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"word": word, **asked}).encode())

        def send() -> Streamed:
            writer, reader = self._client.do_exchange(descriptor, self._options)
            try:
                with suppress(flight.FlightError, OSError):  # refused before all was sent: reading says why
                    writer.begin(SCHEMA)
                    send_tensors(writer, tensors)
                    writer.done_writing()
                answer, found = receive_tensors(reader)
                if answer.get("tensors") != len(found):
                    raise flight.FlightUnavailableError("the answer was cut off")
                return answer, found
            finally:
                with suppress(flight.FlightError, OSError):
                    writer.close()

        return self._answered(send, first=first)

    def _answered(self, act: Callable[[], Given], *, first: bool = False) -> Given:
        until = time.monotonic() + self._world.patience
        while True:
            try:
                return act()
            except flight.FlightUnauthenticatedError as error:
                raise GamlpError("the parameter server does not know the token", hint="start the run again") from error
            except (flight.FlightUnavailableError, flight.FlightCancelledError, flight.FlightInternalError) as error:
                if time.monotonic() > until:
                    raise GamlpError(
                        f"the parameter server at {self._world.address} does not answer",
                        hint="run it again to go on (gamlp train: with --resume)",
                    ) from error
            time.sleep(_AGAIN)
            self._client.close()
            self._client = self._connect()
            if not first:
                self._again()

    def close(self) -> None:
        self._client.close()


class Served:
    """The exchange of one worker."""

    def __init__(self, learner: Learner, train: Batches, world: ServedWorld) -> None:
        self.learner, self.train, self.world = learner, train, world
        named = dict(learner.model.named_parameters())
        self._learned = {name: value for name, value in named.items() if value.requires_grad}
        self._groups = _named_groups(learner)
        self._first = {name: value.detach().cpu().clone() for name, value in self._values().items()}
        self._start = learner.shuffle.get_state()
        self._orders: dict[int, tuple[list[Tensor], bool, list[list[int] | None]]] = {}
        self._drawn = 0
        batches = len(self._order(0)[0])
        kinds = kinds_of(self._first)
        self._run = run_digest(world.run, self._groups, batches, kinds)
        self._moving = _moving(learner.model)
        self._about = {"groups": self._groups, "batches": batches, "kinds": kinds, "moving": self._moving}
        self._before: Weights = {}  # moving averages as they were pulled
        self._losses: list[float] = []
        self._final: dict[str, Any] = {}
        self._at, self._end, self._lost = Stretch(0), 0, False
        self._client = Client(world, self._begin)

    def _values(self) -> dict[str, Tensor]:
        """Parameters that learn, and all buffers."""
        return {**self._learned, **dict(self.learner.model.named_buffers())}

    @property
    def _who(self) -> dict[str, Any]:
        return {"run": self._run, "worker": self.world.rank}

    def _begin(self) -> None:
        """Join, or join again where the server was started anew: what it gave before is not ours any more."""
        self._lost = True
        answer, _ = self._client.stream("begin", self._first, first=True, **self._who, **self._about)
        if answer.get("refused"):
            raise GamlpError(f"the parameter server refuses this worker: it is {answer['refused']}")

    def _say(self, word: str, **asked: Any) -> dict[str, Any]:
        while (answer := self._client.say(word, **asked, **self._who)).get("again"):
            self._begin()
        return answer

    def _stream(self, word: str, tensors: Weights, **asked: Any) -> Streamed:
        while (found := self._client.stream(word, tensors, **asked, **self._who))[0].get("again"):
            self._begin()
        return found

    def work(self) -> Generator[Stretch | Look]:
        ended = threading.Event()
        self._begin()
        alive = threading.Thread(target=self._live, args=(ended,), daemon=True)
        alive.start()
        try:
            while True:
                task = self._say("next")
                if task.get("task") == "end":
                    self._final = task["state"]
                    return
                if task.get("task") == "part":
                    self._lost = False
                    self._take(self._stream("pull", {}, what="now")[1])
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
                client.say("alive", **self._who)
        client.close()

    def _look(self, task: dict[str, Any]) -> Generator[Look]:
        answer, weights = self._stream("pull", {}, what="ended", epoch=task["epoch"])
        if answer.get("refused"):
            return
        self._take(weights)
        self._losses = task["losses"]
        look = Look(TrainingState(**{**task["state"], "epoch": task["epoch"] + 1}))
        yield look
        state = {name: value for name, value in asdict(look.state).items() if name != "best_weights"}
        told = {"epoch": task["epoch"], "state": state, "line": {"seed": self.learner.seed, **look.line}}
        self._say("looked", note=look.note, **told)

    def batches(self, part: Stretch) -> Generator[Batch]:
        parts, in_order, views = self._order(part.epoch)
        self._end = len(parts) if part.end is None else part.end
        some = slice(part.begin, self._end)
        given = self.train.of(parts[some], in_order, views[some])
        for number, batch in zip(range(part.begin, self._end), given):
            self._at = Stretch(part.epoch, number, number + 1)
            yield batch
            if self._lost:  # another has the rest
                break
        given.close()

    def _order(self, epoch: int) -> tuple[list[Tensor], bool, list[list[int] | None]]:
        """The batches of an epoch, as one process would draw them after those before."""
        if epoch < self._drawn and epoch not in self._orders:
            self.learner.shuffle.set_state(self._start)
            self._drawn = 0
        source, shuffle = self.train.source, self.learner.shuffle
        while self._drawn <= epoch:
            parts, in_order = parts_of(len(source), self.train.size, shuffle, source.chunk)
            self._orders[self._drawn] = parts, in_order, source.drawn(len(parts), shuffle)
            self._orders.pop(self._drawn - _ORDERS, None)
            self._drawn += 1
        return self._orders[epoch]

    def step(self, losses: Tensor, rows: int) -> None:
        given = {name: value.grad for name, value in self._learned.items() if value.grad is not None}
        given |= self._buffers()
        at, more = self._at, self._at.end != self._end
        answer, weights = self._stream(
            "push", given, epoch=at.epoch, batch=at.begin, losses=losses.tolist(), rows=rows, more=more
        )
        for value in self._learned.values():
            value.grad = None
        refused = answer.get("refused")
        if refused == LATE:
            self._lost = True
        elif refused and refused != NOT_FINITE:
            raise GamlpError(f"the parameter server refuses gradients: they are {refused}")
        self._take(weights)

    def _buffers(self) -> Weights:
        """As they are after a batch; of moving averages what the batch itself has: new = old + m (batch - old)."""
        found = dict(self.learner.model.named_buffers())
        for name, momentum in self._moving.items():
            before = self._before[name]
            found[name] = before + (found[name] - before) / momentum
        return found

    @torch.no_grad()
    def _take(self, weights: Weights) -> None:
        values = self._values()
        for name, value in weights.items():
            values[name].copy_(value)
        self._before = {name: values[name].clone() for name in self._moving}

    def losses(self) -> list[float]:
        return self._losses

    def ended(self) -> TrainingState:
        self._take(self._stream("pull", {}, what="best")[1])
        self._client.close()
        return TrainingState(**{**self._final, "best_weights": weights_of(self.learner.model)})


def _moving(model: nn.Module) -> Moving:
    """Batch norms' running statistics with their momentum; without one they are means over all batches."""
    found: Moving = {}
    for place, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum and module.track_running_stats:
            prefix = f"{place}." if place else ""
            found |= {f"{prefix}{name}": float(module.momentum) for name in ("running_mean", "running_var")}
    return found


def _named_groups(learner: Learner) -> list[Group]:
    names = {id(value): name for name, value in learner.model.named_parameters()}
    found = []
    for group in parameter_groups(learner.model, learner.settings):
        values: list[nn.Parameter] = group["params"]
        found.append((float(group["weight_decay"]), float(group["rate"]), [names[id(value)] for value in values]))
    return found
