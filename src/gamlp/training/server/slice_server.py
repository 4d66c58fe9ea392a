"""A server with one slice of the weights: it follows the parameter server's journal, and goes back when told to."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights
from gamlp.training.server.checkpoint_sets import CheckpointSets, damage_as_error
from gamlp.training.server.parameter_server import NOT_FINITE, OTHER_RUN
from gamlp.training.server.parameters import Layout, Moving, run_digest
from gamlp.training.server.streams import Kinds
from gamlp.training.server.weight_slice import Entry, LostPush, Push, WeightSlice

_ATTEND = 0.25  # seconds between two words with the parameter server
Say = Callable[..., dict[str, Any]]  # a word to the parameter server with what is asked, and its answer


def slice_run(run: str, number: int, slices: int) -> str:
    """Of a run's slice, from 1: what `run_digest` takes."""
    return f"{run}, slice {number} of {slices}"


class SliceServer:
    """Slice `number`, from 1; every method may be called by any thread.

    run: digest of the recipe and the seed.
    sets: where checkpoints of all servers are.
    """

    def __init__(self, run: str, settings: TrainingSettings, number: int, sets: CheckpointSets | None) -> None:
        self.settings, self.number, self.sets = settings, number, sets
        self.run = slice_run(run, number, settings.servers)
        self.term, self.life = "", uuid.uuid4().hex
        self.digest, self.refused = "", Counter[str]()
        self.slice: WeightSlice | None = None
        self._to_save: tuple[int, dict[str, Any], Weights] | None = None
        self._changed = threading.Lock()

    @property
    def version(self) -> int:
        return 0 if self.slice is None else self.slice.version

    def refuse(self, reason: str) -> str:
        """Count what is not taken."""
        with self._changed:
            self.refused[reason] += 1
        return reason

    def begin(
        self, digest: str, term: str, layout: Layout, batches: int, kinds: Kinds, first: Weights
    ) -> dict[str, Any]:
        """A worker comes; the first brings the weights."""
        with self._changed:
            if term != self.term:
                return {"again": True}
            if digest != run_digest(self.run, layout, batches, kinds) or self.digest not in ("", digest):
                self.refused[OTHER_RUN] += 1
                return {"refused": OTHER_RUN}
            if self.slice is None:
                self.digest, self.slice = digest, WeightSlice(first, layout, self.settings)
            return {}

    def trouble_with(self, digest: str, term: str) -> dict[str, Any]:
        """Why a worker is not heard: it must begin again, or is of another run."""
        with self._changed:
            if term != self.term or self.slice is None:
                return {"again": True}
            if digest != self.digest:
                self.refused[OTHER_RUN] += 1
                return {"refused": OTHER_RUN}
            return {}

    def wait(self, push: Push, given: Weights, moving: Moving) -> str:
        """Hold gradients until the journal takes them; why they are not held, or nothing."""
        with self._changed:
            if self.slice is None:
                return ""  # it went back just now: the worker hears of that with its next word
            if not self.slice.is_finite(given):
                return NOT_FINITE  # the parameter server is told, and counts it
            self.slice.wait(push, given, moving)
            return ""

    def follow(self, journal: Sequence[dict[str, Any]]) -> bool:
        """Do what the journal says; False: something of it is lost, and all must go back to a checkpoint."""
        with self._changed:
            try:
                for entry in map(Entry.of, journal):
                    if self.slice is None:
                        raise LostPush
                    if self.slice.follow(entry) and entry.save:
                        self._to_save = (entry.version, *self.slice.kept())
            except LostPush:
                self.life, self.term = uuid.uuid4().hex, ""
                return False
            return True

    def pull(self, averages: Sequence[str] = ()) -> Weights:
        """The weights of now."""
        with self._changed:
            return {} if self.slice is None else self.slice.parameters.now(averages)

    def ended(self, epoch: int) -> Weights | None:
        """Weights at the end of an epoch that is looked at, or was the best."""
        with self._changed:
            return None if self.slice is None else self.slice.ended(epoch)

    def go_back(self, term: str, version: int) -> None:
        """To a checkpoint, or with version 0 to the beginning."""
        found, digest = None, ""
        if version:
            assert self.sets is not None
            about, tensors = self.sets.read(version, self.number)
            with damage_as_error(self.sets.file(version, self.number)):
                found, digest = WeightSlice.restored(about, tensors, self.settings), about["digest"]
        with self._changed:
            self.slice, self.digest, self.term, self._to_save = found, digest, term, None

    def save(self) -> None:
        """Write the checkpoint that the journal asked for last."""
        with self._changed:
            asked, self._to_save, digest = self._to_save, None, self.digest
        if asked is not None and self.sets is not None:
            version, about, tensors = asked
            self.sets.write(version, self.number, {**about, "digest": digest}, tensors)

    def attend(self, address: str, say: Say, ended: threading.Event) -> None:
        """Keep in touch with the parameter server, until it says that all is over."""
        while not ended.is_set() and not self.attend_once(address, say):
            ended.wait(_ATTEND)

    def attend_once(self, address: str, say: Say) -> bool:
        """Say that it is there, and do what it is told: go back, follow, save; whether all is over."""
        while True:
            with self._changed:
                about = {"life": self.life, "term": self.term, "version": self.version, "refused": dict(self.refused)}
            told = say("attend", number=self.number, address=address, **about)
            if told["over"]:
                return True
            if told["term"] == about["term"]:
                break
            self.go_back(told["term"], told["base"])  # and it hears at once that this slice is as far as all
        self.follow(told["journal"])
        self.save()
        return False
