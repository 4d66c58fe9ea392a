"""How a worker reaches the weights: all on the parameter server, or a slice of every tensor on each of several."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gamlp.errors import GamlpError
from gamlp.training.checkpoint import Weights
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.server.client import AGAIN, Client, SilentServer, Streamed
from gamlp.training.server.parameter_server import LATE, NOT_FINITE
from gamlp.training.server.parameters import Layout, Moving, cut, put_together, run_digest
from gamlp.training.server.slice_server import slice_run
from gamlp.training.server.streams import kinds_of

if TYPE_CHECKING:
    from gamlp.training.server.worker import ServedWorld


@dataclass(frozen=True)
class Gradients:
    """What a worker pushes: gradients and buffers of a batch, its losses, and momenta that differ from the layout's."""

    at: Stretch
    given: Weights
    moving: Moving
    losses: list[float]
    rows: int

    def about(self) -> dict[str, Any]:
        return {"epoch": self.at.epoch, "batch": self.at.begin, "losses": self.losses, "rows": self.rows}


class ServerLink:
    """To a parameter server that holds the weights.

    first: weights as this worker made them; the first worker's are taken.
    averages: names of those that a step reads.
    `lost` is set whenever the server was started anew: what it gave before is not this worker's any more.
    """

    def __init__(
        self, world: ServedWorld, first: Weights, layout: Layout, batches: int, averages: Sequence[str] = ()
    ) -> None:
        self.world, self.first, self.layout, self.batches = world, first, layout, batches
        self.averages, self.lost = list(averages), False
        self.kinds = kinds_of(first)
        self.who: dict[str, Any] = {"run": run_digest(world.run, layout, batches, self.kinds), "worker": world.rank}
        self.client = Client(world, self.begin)

    @property
    def about(self) -> dict[str, Any]:
        return {**self.who, **self.layout.as_json(), "batches": self.batches, "kinds": self.kinds}

    def begin(self) -> None:
        """Join, or join again."""
        self.lost = True
        _accepted(self.client.stream("begin", self.first, first=True, **self.about)[0])

    def say(self, word: str, **asked: Any) -> dict[str, Any]:
        """A question to the parameter server."""
        while (answer := self.client.say(word, **asked, **self.who)).get("again"):
            self.begin()
        return answer

    def stream(self, word: str, tensors: Weights, **asked: Any) -> Streamed:
        while (found := self.client.stream(word, tensors, **asked, **self.who))[0].get("again"):
            self.begin()
        return found

    def next(self) -> dict[str, Any]:
        """What is to be done."""
        return self.say("next")

    def push(self, gradients: Gradients, more: bool) -> tuple[str, Weights]:
        """Why gradients were not taken, or nothing; and with `more` the weights for the next batch."""
        asked = {**gradients.about(), "moving": gradients.moving, "more": more, "averages": self.averages}
        answer, weights = self.stream("push", gradients.given, **asked)
        return answer.get("refused") or "", weights

    def pull(self) -> Weights:
        """The weights of now."""
        return self.stream("pull", {}, what="now", averages=self.averages)[1]

    def ended(self, epoch: int) -> Weights | None:
        """Weights and averages at the end of an epoch; None: it is not looked at any more."""
        answer, weights = self.stream("pull", {}, what="ended", epoch=epoch)
        return None if answer.get("refused") else weights

    def close(self) -> None:
        self.client.close()


class SlicedLink(ServerLink):
    """To a parameter server without weights, and to the servers of their slices, all at once."""

    def __init__(
        self, world: ServedWorld, first: Weights, layout: Layout, batches: int, averages: Sequence[str], slices: int
    ) -> None:
        super().__init__(world, first, layout, batches, averages)
        self._slices = [_SliceAbout.of(world.run, first, layout, batches, number, slices) for number in range(slices)]
        self._clients: list[Client] = []
        self._together = ThreadPoolExecutor(slices)
        self._term, self._since = "", 0
        self._journal: list[dict[str, Any]] = []  # what the slices were not told

    def begin(self) -> None:
        self.lost = True
        until = time.monotonic() + self.world.patience
        while True:
            answer, _ = self.client.stream("begin", {}, first=True, **self.about)
            _accepted(answer)
            if not answer["wait"] and self._begin_slices(answer["term"], answer["addresses"]):
                return
            if time.monotonic() > until:
                raise SilentServer(f"one of the {len(self._slices)} addresses of {self.world.address}")
            time.sleep(AGAIN)

    def _begin_slices(self, term: str, addresses: list[str]) -> bool:
        self._close_slices()
        self._term, self._since, self._journal = term, 0, []
        # A slice that is gone may come back anywhere: the parameter server is asked where.
        self._clients = [Client(replace(self.world, address=address, patience=0.0)) for address in addresses]
        found = self._each("begin", [one.first for one in self._slices], [one.about for one in self._slices])
        if found is None:
            return False
        for answer, _ in found:
            _accepted(answer)
        return True

    def _each(
        self, word: str, tensors: Sequence[Weights], abouts: Sequence[dict[str, Any]] | None = None, **asked: Any
    ) -> list[Streamed] | None:
        """All slices' answers; None: one is not there, or wants to be begun with again."""

        def ask(number: int) -> Streamed:
            own = {} if abouts is None else abouts[number]
            who = {**self.who, "run": self._slices[number].run, "term": self._term}
            try:
                return self._clients[number].stream(word, tensors[number], **{**asked, **own, **who})
            except SilentServer:
                return {"again": True}, {}

        found = list(self._together.map(ask, range(len(self._clients))))
        return None if any(answer.get("again") for answer, _ in found) else found

    def next(self) -> dict[str, Any]:
        return self._heard(self.say("next", since=self._since, term=self._term))

    def _heard(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "version" in answer:
            self._since = answer["version"]
            self._journal += answer["journal"]
        return answer

    def push(self, gradients: Gradients, more: bool) -> tuple[str, Weights]:
        count = len(self._slices)
        parts = [cut(gradients.given, number, count) for number in range(count)]
        found = self._each("wait", parts, moving=gradients.moving, **gradients.about())
        if found is None:
            self.begin()
            return LATE, {}
        reasons = {answer["refused"] for answer, _ in found if answer.get("refused")}
        if others := reasons - {NOT_FINITE}:
            return others.pop(), {}
        asked = {**gradients.about(), "finite": not reasons, "more": more, "since": self._since, "term": self._term}
        answer = self._heard(self.stream("push", {}, **asked)[0])
        refused = answer.get("refused") or ""
        return refused, self.pull() if more and refused != LATE else {}

    def pull(self) -> Weights:
        found = self._from_all(what="now", averages=self.averages)
        return self._whole([weights for _, weights in found])

    def ended(self, epoch: int) -> Weights | None:
        found = self._from_all(what="ended", epoch=epoch)
        if any(answer.get("refused") for answer, _ in found):
            return None
        return self._whole([weights for _, weights in found])

    def _from_all(self, **asked: Any) -> list[Streamed]:
        while (found := self._each("pull", [{}] * len(self._slices), journal=self._journal, **asked)) is None:
            self.begin()
        self._journal = []
        return found

    def _whole(self, slices: Sequence[Weights]) -> Weights:
        """Tensors in the shapes of the model, and those of averages."""
        found = {}
        for name, value in put_together(slices).items():
            own = name if name in self.first else name.partition("/")[2]
            found[name] = value.reshape(self.first[own].shape)
        return found

    def _close_slices(self) -> None:
        for client in self._clients:
            client.close()
        self._clients = []

    def close(self) -> None:
        self._close_slices()
        self._together.shutdown()
        super().close()


@dataclass(frozen=True)
class _SliceAbout:
    """What the server of a slice is told when a worker begins."""

    first: Weights
    run: str
    about: dict[str, Any]

    @classmethod
    def of(cls, run: str, first: Weights, layout: Layout, batches: int, number: int, slices: int) -> _SliceAbout:
        own = cut(first, number, slices)
        kinds, layout = kinds_of(own), layout.of_slice(list(own))
        digest = run_digest(slice_run(run, number + 1, slices), layout, batches, kinds)
        return cls(own, digest, {**layout.as_json(), "batches": batches, "kinds": kinds})


def link_of(
    world: ServedWorld, first: Weights, layout: Layout, batches: int, averages: Sequence[str], slices: int
) -> ServerLink:
    """The way to the weights, of so many slices; 0: they are on the parameter server."""
    if slices:
        return SlicedLink(world, first, layout, batches, averages, slices)
    return ServerLink(world, first, layout, batches, averages)


def _accepted(answer: dict[str, Any]) -> None:
    if answer.get("refused"):
        raise GamlpError(f"the parameter server refuses this worker: it is {answer['refused']}")
