"""Which batches are whose: handed out, pushed, handed out again when their worker is lost; who must wait for whom."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gamlp.training.ranks.exchange import Stretch

LEASE = 10.0  # seconds without a sign of life after which a worker is lost
RUN = 32  # batches that a worker is given at a time, at most


@dataclass
class _Epoch:
    """Batches that nobody has, those that a worker has, and what was learned of the others."""

    left: list[int]
    taken: dict[int, int] = field(default_factory=dict)  # batch → worker
    sums: list[float] = field(default_factory=list)
    rows: int = 0


class Ledger:
    """The batches of all epochs, each of which is pushed once.

    batches: of an epoch.
    workers: that are expected; fewer or others may come.
    staleness: pushes that a worker may be ahead of the slowest one that is alive and at work.
    """

    def __init__(
        self, batches: int, epochs: int, workers: int, staleness: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.batches, self.epochs, self.staleness, self._clock = batches, epochs, staleness, clock
        self.run = max(1, min(RUN, batches // (4 * workers)))
        # So many epochs may be begun before one is looked at: where an epoch has few batches, one for each worker.
        self.ahead_of_looks = 2 + workers // batches
        self.next, self.looked, self.stopped = 0, 0, False
        self.open: dict[int, _Epoch] = {}
        self.to_look: list[int] = []
        self._looking: tuple[int, int] | None = None  # epoch, worker
        self._heard: dict[int, float] = {}
        self._pushes: dict[int, int] = {}

    @property
    def finished(self) -> bool:
        return self.stopped or self.looked >= self.epochs

    def heard(self, worker: int) -> None:
        """A sign of life."""
        self._heard[worker] = self._clock()

    def alive(self) -> list[int]:
        """Workers that were heard of lately; what the others had is free again."""
        now = self._clock()
        for worker, last in list(self._heard.items()):
            if now - last > LEASE:
                self.release(worker)
                del self._heard[worker]
        return list(self._heard)

    def release(self, worker: int) -> None:
        """What it had goes to whoever asks next."""
        for epoch in self.open.values():
            for batch in [batch for batch, owner in epoch.taken.items() if owner == worker]:
                del epoch.taken[batch]
                insort(epoch.left, batch)
        if self._looking is not None and self._looking[1] == worker:
            self._looking = None

    def may_look(self, worker: int) -> int | None:
        """The epoch whose end this worker is to look at: the first that nobody looks at."""
        self.alive()
        if self._looking is not None or not self.to_look:
            return None
        self._looking = (self.to_look[0], worker)
        return self.to_look[0]

    def take(self, worker: int) -> Stretch | None:
        """Batches to train on; None: there are none now, or it must wait for slower ones."""
        if self.ahead(worker):
            return None
        if not self._has(worker):  # one that idled is not the slowest
            others = [self._pushes.get(one, 0) for one in self.alive() if one != worker and self._has(one)]
            self._pushes[worker] = max(self._pushes.get(worker, 0), min(others, default=0))
        number = next((number for number, epoch in sorted(self.open.items()) if epoch.left), None)
        if number is None:
            if self.next >= self.epochs or self.next - self.looked >= self.ahead_of_looks:
                return None
            number, self.next = self.next, self.next + 1
            self.open[number] = _Epoch(list(range(self.batches)))
        epoch = self.open[number]
        begin = end = epoch.left[0]
        while epoch.left and epoch.left[0] == end and end - begin < self.run:
            epoch.taken[epoch.left.pop(0)] = worker
            end += 1
        return Stretch(number, begin, end)

    def ahead(self, worker: int) -> bool:
        """Whether it must wait for slower ones."""
        others = [self._pushes.get(one, 0) for one in self.alive() if one != worker and self._has(one)]
        return self._pushes.get(worker, 0) - min(others, default=1 << 62) > self.staleness

    def _has(self, worker: int) -> bool:
        return any(worker in epoch.taken.values() for epoch in self.open.values())

    def owns(self, worker: int, epoch: int, batch: int) -> bool:
        return epoch in self.open and self.open[epoch].taken.get(batch) == worker

    def pushed(self, worker: int, epoch: int, batch: int, losses: list[float] | None, rows: int) -> list[int]:
        """A batch is done, without `losses` where its gradients were refused; epochs that ended by it."""
        one = self.open[epoch]
        del one.taken[batch]
        self._pushes[worker] = self._pushes.get(worker, 0) + 1
        if losses is not None:
            before = one.sums or [0.0] * len(losses)
            one.sums = [total + rows * value for total, value in zip(before, losses)]
            one.rows += rows
        ended = []
        number = self.looked + len(self.to_look)
        while number in self.open and not self.open[number].left and not self.open[number].taken:
            self.to_look.append(number)
            ended.append(number)
            number += 1
        return ended

    def losses(self, epoch: int) -> list[float]:
        """Means over the rows of an epoch; NaN where no gradients were good."""
        one = self.open[epoch]
        return [value / one.rows for value in one.sums] if one.rows else [float("nan")]

    def is_looking(self, worker: int, epoch: int) -> bool:
        return self._looking == (epoch, worker)

    def look_ended(self, stopped: bool) -> None:
        """The first ended epoch was compared with those before."""
        self._looking = None
        del self.open[self.to_look.pop(0)]
        self.looked, self.stopped = self.looked + 1, stopped

    def kept(self) -> dict[str, Any]:
        """For a checkpoint: what workers have now counts as not handed out."""
        epochs = {
            number: {"left": sorted([*one.left, *one.taken]), "sums": one.sums, "rows": one.rows}
            for number, one in self.open.items()
        }
        return {"batches": self.batches, "next": self.next, "looked": self.looked, "stopped": self.stopped} | {
            "to_look": self.to_look,
            "open": epochs,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """As `kept` gave it."""
        self.next, self.looked, self.stopped = kept["next"], kept["looked"], kept["stopped"]
        self.to_look = list(kept["to_look"])
        self.open = {
            int(number): _Epoch(list(one["left"]), sums=one["sums"], rows=one["rows"])
            for number, one in kept["open"].items()
        }
