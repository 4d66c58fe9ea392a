"""A server's slice of the weights, which follows the journal: after the same entries all slices are as old.

Workers bring gradients to every slice, and then tell the parameter server, which takes the push or does not. What it
took is an entry of the journal; a slice takes its steps in the order of entries. So the slices at one version hold the
same pushes, wherever they are and whoever died meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from gamlp.recipe import TrainingSettings
from gamlp.training.checkpoint import Weights, tensors_under
from gamlp.training.server.parameters import Layout, Moving, Parameters

Push = tuple[int, int, int]  # worker, epoch, batch


@dataclass(frozen=True)
class Entry:
    """What a parameter server decided.

    version: its number, from 1.
    push: gradients that are taken.
    ended: epochs whose last push it was; their weights are set aside.
    looked: an epoch that was compared, and the best so far, or -1: others up to it are not needed any more.
    save: a checkpoint is to be written.
    """

    version: int
    push: Push | None = None
    ended: tuple[int, ...] = ()
    looked: tuple[int, int] | None = None
    save: bool = False

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Entry:
        push, ended, looked = (tuple(int(one) for one in told.get(name, ())) for name in ("push", "ended", "looked"))
        return cls(
            int(told["version"]),
            (push[0], push[1], push[2]) if push else None,
            ended,
            (looked[0], looked[1]) if looked else None,
            bool(told.get("save")),
        )


class LostPush(RuntimeError):
    """The journal names gradients that are not here."""


class WeightSlice:
    """Parameters, gradients that wait for their entry, and weights at the ends of epochs."""

    def __init__(self, first: Weights, layout: Layout, settings: TrainingSettings) -> None:
        self.parameters, self.version = Parameters(first, layout, settings), 0
        self._waiting: dict[Push, tuple[Weights, Moving]] = {}
        self._ended: dict[int, Weights] = {}

    def wait(self, push: Push, given: Weights, moving: Moving | None = None) -> None:
        """Hold gradients until the journal takes them."""
        self._waiting[push] = given, moving or {}

    def is_finite(self, given: Mapping[str, Tensor]) -> bool:
        gradients = [value for name, value in given.items() if name in self.parameters.learned]
        return all(bool(value.isfinite().all()) for value in gradients)

    def follow(self, entry: Entry) -> bool:
        """Do what an entry says; whether it was new. One after a gap, or of a push that is not here, is an error."""
        if entry.version <= self.version:
            return False
        if entry.version > self.version + 1 or (entry.push is not None and entry.push not in self._waiting):
            raise LostPush
        if entry.push is not None:
            given, moving = self._waiting.pop(entry.push)
            self.parameters.step(given, entry.push[1], moving)
        for epoch in entry.ended:
            self._ended[epoch] = self.parameters.now()
            # What was brought for this epoch and not taken came too late.
            self._waiting = {push: held for push, held in self._waiting.items() if push[1] > epoch}
        if entry.looked is not None:
            epoch, best = entry.looked
            self._ended = {at: weights for at, weights in self._ended.items() if at > epoch or at == best}
        self.version = entry.version
        return True

    def ended(self, epoch: int) -> Weights | None:
        """Weights at the end of an epoch that is looked at, or was the best."""
        return self._ended.get(epoch)

    def kept(self) -> tuple[dict[str, Any], Weights]:
        """For a checkpoint: what waits is not part of it."""
        tensors = {f"now.{name}": value for name, value in self.parameters.now().items()}
        tensors |= {f"optimizer.{name}": value for name, value in self.parameters.optimizer_state().items()}
        for epoch, weights in self._ended.items():
            tensors |= {f"ended.{epoch}.{name}": value for name, value in weights.items()}
        about = {"layout": self.parameters.layout.as_json(), "version": self.version, "ended": list(self._ended)}
        return about | {"steps": self.parameters.steps}, tensors

    @classmethod
    def restored(cls, about: Mapping[str, Any], tensors: Weights, settings: TrainingSettings) -> WeightSlice:
        """As `kept` gave it."""
        layout, now = Layout.of(about["layout"]), tensors_under(tensors, "now.")
        own = {name: value for name, value in now.items() if name.partition("/")[0] not in layout.averages}
        made = cls(own, layout, settings)
        made.parameters.restore(now, tensors_under(tensors, "optimizer."), about["steps"])
        made._ended = {epoch: tensors_under(tensors, f"ended.{epoch}.") for epoch in about["ended"]}
        made.version = about["version"]
        return made
