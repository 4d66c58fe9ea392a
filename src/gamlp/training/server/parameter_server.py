"""What a parameter server knows and decides, without the network: work, refusals, the best epoch, its file.

Alone it holds the weights too. With slices in other processes it holds none: what it decides is a journal, which they
follow. A slice that was started anew begins another term: all go back to the last checkpoint of which every server has
its file.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gamlp.io import Place
from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import TrainingState, Weights
from gamlp.training.server.checkpoint_sets import CheckpointSets, damage_as_error, read_checkpoint, write_checkpoint
from gamlp.training.server.ledger import Ledger
from gamlp.training.server.parameters import Layout, Moving, run_digest
from gamlp.training.server.streams import Kinds
from gamlp.training.server.weight_slice import Entry, Push, WeightSlice

_HEARING = 1.0  # seconds that a worker without work waits for an answer; then it asks again
_LOOK = 0.2  # seconds between two looks at who is alive
Told = Callable[[dict[str, Any], int, str], None]  # a line of metrics, epochs done, a note

NO_TOKEN, OTHER_RUN, OTHER_SHAPE, NOT_FINITE, LATE = (
    "without the token", "of another run", "of another shape", "not finite", "too late"
)  # fmt: skip


@dataclass
class Member:
    """A slice's server as it was last heard of. `life` is another after every start."""

    address: str
    life: str
    term: str
    version: int
    refused: dict[str, int]
    heard: float  # when, of a clock that only grows


class ParameterServer:
    """Weights that workers pull, gradients that they push; every method may be called by any thread.

    run: digest of the recipe and the seed.
    settings: `servers` of them hold a slice of the weights each; 0: they are here.
    workers: that are expected.
    checkpoint: a file, or of several servers a folder, that is written by `save` and gone on from.
    tell: hears of every epoch that was looked at.
    """

    def __init__(
        self,
        run: str,
        settings: TrainingSettings,
        workers: int,
        checkpoint: Place | None = None,
        tell: Told = lambda line, done, note: None,
    ) -> None:
        self.run, self.settings, self.workers, self.place, self._tell = run, settings, workers, checkpoint, tell
        self.slices, self.term, self.base = settings.servers, "", 0
        self.refused: Counter[str] = Counter()
        self.over = False  # nobody asks any more
        self.members: dict[int, Member] = {}
        self.slice: WeightSlice | None = None
        self._changed = threading.Condition()
        self._new()
        if self.slices:
            self._begin_term()
        elif checkpoint is not None and checkpoint.exists():
            about, tensors = read_checkpoint(checkpoint)
            with damage_as_error(checkpoint):
                self._restore(about)
                self.slice = WeightSlice.restored(about["slice"], tensors, settings)
                self.version = self.slice.version

    def _new(self) -> None:
        """As before the first worker."""
        self.updates, self.digest, self.state = 0, "", TrainingState()
        self.version, self.journal = 0, list[Entry]()
        self.slice = None
        self._joined: set[int] = set()
        self._saved = 0  # the version of the last checkpoint

    @property
    def known(self) -> bool:
        """Whether a worker has begun."""
        return bool(self.digest)

    @property
    def sets(self) -> CheckpointSets | None:
        return None if self.place is None else CheckpointSets(self.place, self.slices)

    @property
    def addresses(self) -> list[str] | None:
        """Of all slices; None while one is missing, or has not gone back to what all have."""
        found = [self.members.get(number) for number in range(1, self.slices + 1)]
        here = [one.address for one in found if one is not None and one.term == self.term]
        return here if len(here) == self.slices else None

    def _begin_term(self) -> None:
        """Go back to the last whole set of checkpoints, or to the beginning."""
        refused = self.refused
        self._new()
        self.refused = refused
        self.term, self.base = uuid.uuid4().hex, 0 if self.sets is None else self.sets.last()
        if self.base:
            assert self.sets is not None
            about, _ = self.sets.read(self.base, 0)
            with damage_as_error(self.sets.file(self.base, 0)):
                self._restore(about)
        self.version = self._saved = self.base

    def attend(
        self, number: int, address: str, life: str, term: str, version: int, refused: dict[str, int]
    ) -> dict[str, Any]:
        """A slice's server says that it is there, and hears what it is to follow, or to go back to."""
        with self._changed:
            before = self.members.get(number)
            if before is not None and before.life != life:  # what it had since its last checkpoint is lost
                self._begin_term()
            self.members[number] = Member(address, life, term, version, refused, time.monotonic())
            self._forget_old_entries()
            self._changed.notify_all()
            told = [one.as_json() for one in self.journal if one.version > version] if term == self.term else []
            return {"term": self.term, "base": self.base, "journal": told, "over": self.over}

    def _forget_old_entries(self) -> None:
        if self.addresses is not None:
            slowest = min(one.version for one in self.members.values())
            self.journal = [one for one in self.journal if one.version > slowest]

    def refuse(self, reason: str) -> str:
        """Count what is not taken."""
        with self._changed:
            self.refused[reason] += 1
        return reason

    def begin(
        self, worker: int, digest: str, layout: Layout, batches: int, kinds: Kinds, first: Weights | None = None
    ) -> str:
        """A worker comes, or comes again; the first brings the weights where they are here. Why it may not."""
        with self._changed:
            if digest != run_digest(self.run, layout, batches, kinds) or self.digest not in ("", digest):
                self.refused[OTHER_RUN] += 1
                return OTHER_RUN
            if not self.known:
                self._start(digest, batches)
                if not self.slices:
                    self.slice = WeightSlice(first or {}, layout, self.settings)
            self._joined.add(worker)
            self.ledger.release(worker)
            self.ledger.heard(worker)
            self._changed.notify_all()
            return ""

    def _start(self, digest: str, batches: int) -> None:
        self.digest = digest
        self.ledger = Ledger(batches, self.settings.epochs, self.workers, self.settings.staleness)

    def trouble_with(self, digest: str, worker: int) -> dict[str, Any]:
        """Why a worker is not heard: it must begin again with a server that was started anew, or is of another run."""
        with self._changed:
            if self.known and digest != self.digest:
                self.refused[OTHER_RUN] += 1
                return {"refused": OTHER_RUN}
            return {} if worker in self._joined else {"again": True}

    def heard(self, worker: int) -> None:
        with self._changed:
            self.ledger.heard(worker)

    def next(self, worker: int, gone: Callable[[], bool] = lambda: False, since: int = 0) -> dict[str, Any]:
        """What a worker is to do: `part`, `look`, `end`, or `wait` and ask again; with the journal since a version."""
        until = time.monotonic() + _HEARING
        with self._changed:
            while not gone() and worker in self._joined:
                self.ledger.heard(worker)
                if (found := self._task(worker)) is not None:
                    return {**found, **self._news(since)}
                if time.monotonic() > until:
                    break
                self._changed.wait(_LOOK)
        return {"task": "wait"}

    def _task(self, worker: int) -> dict[str, Any] | None:
        if self.ledger.finished:
            return {"task": "end", "state": self._told_state()}
        self.ledger.release(worker)  # who asks has nothing in hand: the rest is of a copy of it that is gone
        if (epoch := self.ledger.may_look(worker)) is not None:
            losses = self.ledger.losses(epoch)
            return {"task": "look", "epoch": epoch, "losses": losses, "state": self._told_state()}
        if (part := self.ledger.take(worker)) is not None:
            return {"task": "part", "epoch": part.epoch, "begin": part.begin, "end": part.end}
        return None

    def _news(self, since: int) -> dict[str, Any]:
        """For a worker, which passes it on to the slices."""
        if not self.slices:
            return {}
        return {"version": self.version, "journal": [one.as_json() for one in self.journal if one.version > since]}

    def _told_state(self) -> dict[str, Any]:
        return {one.name: getattr(self.state, one.name) for one in fields(self.state) if one.name != "best_weights"}

    def push(
        self, push: Push, losses: list[float], rows: int, given: Weights | None = None, *, finite: bool = True,
        moving: Moving | None = None,
    ) -> str:  # fmt: skip
        """Take one step by gradients that are given, or that all slices have; why it was not taken, or nothing.

        finite: what the slices said of theirs.
        """
        worker, epoch, batch = push
        with self._changed:
            if worker not in self._joined:
                return LATE
            self.ledger.heard(worker)
            if not self.ledger.owns(worker, epoch, batch):
                self.refused[LATE] += 1
                return LATE
            if self.slice is not None:
                finite = self.slice.is_finite(given or {})
                if finite:
                    self.slice.wait(push, given or {}, moving)
            if not finite:  # the batch is done all the same: handed out again it would say the same
                self.refused[NOT_FINITE] += 1
            self.updates += finite
            ended = self.ledger.pushed(worker, epoch, batch, losses if finite else None, rows)
            self._decide(push=push if finite else None, ended=tuple(ended))
            self._changed.notify_all()
            return "" if finite else NOT_FINITE

    def _decide(self, **what: Any) -> int:
        """The next entry of the journal, which the own slice follows at once."""
        self.version += 1
        entry = Entry(self.version, **what)
        if self.slice is not None:
            self.slice.follow(entry)
        else:
            self.journal.append(entry)
        return self.version

    def catch_up(
        self, worker: int, gone: Callable[[], bool] = lambda: False, since: int = 0, wait: bool = True
    ) -> dict[str, Any]:
        """The journal since a version; with `wait`, once this worker is not too far ahead of others."""
        with self._changed:
            while wait and worker in self._joined and self.ledger.ahead(worker) and not gone():
                self._changed.wait(_LOOK)
            return self._news(since)

    def pull(
        self, worker: int, averages: Sequence[str] | None = (), gone: Callable[[], bool] = lambda: False
    ) -> Weights:
        """The weights of now, once this worker is not too far ahead of others."""
        self.catch_up(worker, gone)
        with self._changed:
            self.ledger.heard(worker)
            return {} if self.slice is None else self.slice.parameters.now(averages)

    def ended(self, epoch: int) -> Weights | None:
        """Weights at the end of an epoch that is looked at, or was the best."""
        with self._changed:
            return None if self.slice is None else self.slice.ended(epoch)

    def looked(self, worker: int, epoch: int, state: dict[str, Any], line: dict[str, Any], note: str) -> str:
        """An epoch was validated and compared; why that is not taken, or nothing."""
        with self._changed:
            if worker not in self._joined or not self.ledger.is_looking(worker, epoch):
                self.refused[LATE] += 1
                return LATE
            self.ledger.heard(worker)
            self.state = TrainingState(**state)
            self.ledger.look_ended(bool(self.state.stopped))
            self._decide(looked=(epoch, self.state.best_epoch - 1))
            self._tell(line, self.state.epoch, note)
            self._changed.notify_all()
            finished = self.ledger.finished
        if finished:
            self.save()
        return ""

    def counts(self, within: float = math.inf) -> dict[str, Any]:
        """Steps that were taken, what was refused, and how many slices were heard of `within` so many seconds."""
        with self._changed:
            refused = self.refused.copy()
            for one in self.members.values():
                refused.update(one.refused)
            since = time.monotonic() - within
            there = sum(one.term == self.term and one.heard >= since for one in self.members.values())
            return {"updates": self.updates, "refused": dict(refused), "slices": there}

    def end(self) -> None:
        """Let the servers of slices go."""
        with self._changed:
            self.over = True

    def save(self) -> None:
        """Write the checkpoint; with slices, when all have written the one before."""
        if self.place is None:
            return
        sets = self.sets if self.slices else None
        whole = [] if sets is None else sets.whole()
        with self._changed:
            if not self.known or self._saved == self.version:
                return
            if self.slices and ((self._saved and self._saved not in whole) or self.addresses is None):
                return
            before, self._saved = self._saved, self._decide(save=True) if self.slices else self.version
            about, tensors, version = self._kept(), Weights(), self._saved
            if self.slice is not None:
                about["slice"], tensors = self.slice.kept()
        try:
            if sets is None:
                write_checkpoint(self.place, about, tensors)
            else:
                sets.write(version, 0, about, {})
        except BaseException:
            with self._changed:
                if self._saved == version:  # a set that never becomes whole would hold up all later ones
                    self._saved = before
            raise
        if sets is not None:
            sets.tidy()

    def _kept(self) -> dict[str, Any]:
        return {
            "digest": self.digest, "ledger": self.ledger.kept(), "state": self._told_state(),
            "updates": self.updates, "refused": dict(self.refused),
        }  # fmt: skip

    def _restore(self, kept: dict[str, Any]) -> None:
        self._start(kept["digest"], kept["ledger"]["batches"])
        self.ledger.restore(kept["ledger"])
        self.state = TrainingState(**kept["state"])
        self.updates = kept["updates"]
        self.refused = self.refused or Counter(kept["refused"])
