"""What a parameter server knows and decides, without the network: weights, work, refusals, the best epoch, its file."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from safetensors import SafetensorError

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import TrainingState, Weights, read_tensors, save_tensors, with_digest
from gamlp.training.server.ledger import Ledger
from gamlp.training.server.parameters import Group, Moving, Parameters, run_digest
from gamlp.training.server.streams import Kinds

_HEARING = 1.0  # seconds that a worker without work waits for an answer; then it asks again
_LOOK = 0.2  # seconds between two looks at who is alive
Told = Callable[[dict[str, Any], int, str], None]  # a line of metrics, epochs done, a note

NO_TOKEN, OTHER_RUN, OTHER_SHAPE, NOT_FINITE, LATE = (
    "without the token", "of another run", "of another shape", "not finite", "too late"
)  # fmt: skip


class ParameterServer:
    """Weights that workers pull, gradients that they push; every method may be called by any thread.

    run: digest of the recipe and the seed.
    workers: that are expected.
    checkpoint: a file that is written by `save` and gone on from.
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
        self.refused: Counter[str] = Counter()
        self.updates = 0
        self.digest = ""
        self.state = TrainingState()
        self._ended: dict[int, Weights] = {}  # weights at the end of epochs that were not looked at
        self._best: Weights = {}
        self._joined: set[int] = set()
        self._changed = threading.Condition()
        if checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)

    @property
    def known(self) -> bool:
        """Whether it has weights."""
        return bool(self.digest)

    def refuse(self, reason: str) -> str:
        """Count what is not taken."""
        with self._changed:
            self.refused[reason] += 1
        return reason

    def begin(
        self,
        worker: int,
        digest: str,
        groups: list[Group],
        batches: int,
        kinds: Kinds,
        first: Weights,
        moving: Moving | None = None,
    ) -> bool:
        """A worker comes, or comes again; the first brings the weights. False: it is of another run."""
        with self._changed:
            if digest != run_digest(self.run, groups, batches, kinds) or self.digest not in ("", digest):
                self.refused[OTHER_RUN] += 1
                return False
            if not self.known:
                self._start(digest, groups, batches, first, moving or {})
            self._joined.add(worker)
            self.ledger.release(worker)
            self.ledger.heard(worker)
            self._changed.notify_all()
            return True

    def _start(self, digest: str, groups: list[Group], batches: int, first: Weights, moving: Moving) -> None:
        self.digest, self.parameters = digest, Parameters(first, groups, self.settings, moving)
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

    def next(self, worker: int, gone: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """What a worker is to do: `part`, `look`, `end`, or `wait` and ask again."""
        until = time.monotonic() + _HEARING
        with self._changed:
            self.ledger.heard(worker)
            while not gone():
                if self.ledger.finished:
                    return {"task": "end", "state": self._told_state()}
                if (epoch := self.ledger.may_look(worker)) is not None:
                    losses = self.ledger.losses(epoch)
                    return {"task": "look", "epoch": epoch, "losses": losses, "state": self._told_state()}
                if (part := self.ledger.take(worker)) is not None:
                    return {"task": "part", "epoch": part.epoch, "begin": part.begin, "end": part.end}
                if time.monotonic() > until:
                    break
                self._changed.wait(_LOOK)
        return {"task": "wait"}

    def _told_state(self) -> dict[str, Any]:
        return {one.name: getattr(self.state, one.name) for one in fields(self.state) if one.name != "best_weights"}

    def push(self, worker: int, epoch: int, batch: int, given: Weights, losses: list[float], rows: int) -> str:
        """Take one step; why it was not taken, or nothing."""
        with self._changed:
            self.ledger.heard(worker)
            if not self.ledger.owns(worker, epoch, batch):
                self.refused[LATE] += 1
                return LATE
            gradients = [value for name, value in given.items() if name in self.parameters.learned]
            finite = all(bool(value.isfinite().all()) for value in gradients)
            if finite:
                self.parameters.step(given, epoch)
                self.updates += 1
            else:  # the batch is done all the same: handed out again it would say the same
                self.refused[NOT_FINITE] += 1
            for number in self.ledger.pushed(worker, epoch, batch, losses if finite else None, rows):
                self._ended[number] = self.parameters.now()
            self._changed.notify_all()
            return "" if finite else NOT_FINITE

    def pull(self, worker: int, gone: Callable[[], bool] = lambda: False) -> Weights:
        """The weights of now, once this worker is not too far ahead of others."""
        with self._changed:
            self.ledger.heard(worker)
            while self.ledger.ahead(worker) and not gone():
                self._changed.wait(_LOOK)
            return self.parameters.now()

    def ended(self, epoch: int) -> Weights | None:
        """Weights at the end of an epoch that is looked at."""
        with self._changed:
            return self._ended.get(epoch)

    def best(self) -> Weights:
        with self._changed:
            return self._best

    def looked(self, worker: int, epoch: int, state: dict[str, Any], line: dict[str, Any], note: str) -> str:
        """An epoch was validated and compared; why that is not taken, or nothing."""
        with self._changed:
            self.ledger.heard(worker)
            if not self.ledger.is_looking(worker, epoch):
                self.refused[LATE] += 1
                return LATE
            self.state = TrainingState(**state)
            weights = self._ended.pop(epoch)
            if self.state.best_epoch == epoch + 1:
                self._best = weights
            self.ledger.look_ended(bool(self.state.stopped))
            self._tell(line, self.state.epoch, note)
            self._changed.notify_all()
        if self.ledger.finished:
            self.save()
        return ""

    def counts(self) -> dict[str, Any]:
        """For people: steps that were taken, and what was refused."""
        with self._changed:
            return {"updates": self.updates, "refused": dict(self.refused)}

    def save(self) -> None:
        """Write the checkpoint so that a reader sees all of it or nothing."""
        if self.place is None:
            return
        with self._changed:
            if not self.known:
                return
            tensors = {f"now.{name}": value for name, value in self.parameters.now().items()}
            tensors |= {f"best.{name}": value for name, value in self._best.items()}
            tensors |= {f"optimizer.{name}": value for name, value in self.parameters.optimizer_state().items()}
            for epoch, weights in self._ended.items():
                tensors |= {f"ended.{epoch}.{name}": value for name, value in weights.items()}
            about = {
                "digest": self.digest, "groups": self.parameters.groups, "moving": self.parameters.moving,
                "ledger": self.ledger.kept(),
                "state": self._told_state(), "updates": self.updates, "refused": dict(self.refused),
            }  # fmt: skip
            text = json.dumps(about)
        save_tensors(self.place, tensors, with_digest(text, tensors))

    def _load(self, place: Place) -> None:
        try:
            text, unchanged, tensors = read_tensors(place)
            if not unchanged:
                raise ValueError("its bytes are not those that were written")
            kept: dict[str, Any] = json.loads(text)
            groups: list[Group] = [(decay, rate, names) for decay, rate, names in kept["groups"]]
            batches, first = kept["ledger"]["batches"], _part(tensors, "now.")
            self._start(kept["digest"], groups, batches, first, kept["moving"])
            self.parameters.restore_optimizer(_part(tensors, "optimizer."))
            self.ledger.restore(kept["ledger"])
            self.state = TrainingState(**kept["state"])
            self.updates, self.refused = kept["updates"], Counter(kept["refused"])
            self._best = _part(tensors, "best.")
            self._ended = {epoch: _part(tensors, f"ended.{epoch}.") for epoch in self.ledger.to_look}
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise GamlpError(
                "damaged or foreign checkpoint", file=place.url, hint="remove it to train this seed from the start"
            ) from error


def _part(tensors: Weights, prefix: str) -> Weights:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
