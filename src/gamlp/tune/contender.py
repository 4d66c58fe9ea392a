"""A candidate on a graph: trained a part at a time in a folder of its own, and what it says of validation rows.

Everything is in the folder: killed at any moment and asked again, it goes on and ends with the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gamlp.errors import GamlpError
from gamlp.io import DiskFull, Place, map_array, save_array
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources
from gamlp.training import (
    Bundle,
    Machine,
    Prepared,
    RunFolder,
    Said,
    bundle_of,
    choose_device,
    fit_prepared,
    judged,
    make_model,
    probabilities_of,
    rows_of,
    shape_of,
    some_rows,
    to_train_on,
)
from gamlp.tune.candidates import Candidate
from gamlp.tune.effort import Clock, epoch_seconds

_LOOKED_BACK = 3  # epochs: the mean of so many is compared, since one alone may be luck
_VALID = "valid.npy"
_TIME = "the time that was given was over"


def read_as(deepest: Prepared, recipe: Recipe) -> Prepared:
    """The rows of the deepest recipe as another one reads them: fewer hops, other channels, of the same stores."""
    inner = deepest.train.store
    train = to_train_on(rows_of(inner, recipe, deepest.train.rows, deepest.train.features_from), recipe)
    valid = deepest.valid
    if valid is not None:
        valid = rows_of(valid.store, recipe, valid.rows, valid.features_from)
    shape = shape_of(deepest.train.features_from or inner, recipe)
    return replace(deepest, recipe=recipe, train=train, valid=valid, shape=shape)


@dataclass
class Contender:
    """One candidate on one split."""

    candidate: Candidate
    prepared: Prepared
    folder: Path
    clock: Clock
    resources: Resources = LOCAL
    progress: Progress = silent
    failed: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "seeds").mkdir(exist_ok=True)
        self.run = RunFolder(self.folder)

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def seed(self) -> int:
        return self.prepared.recipe.training.seeds[0]

    @cached_property
    def _known(self) -> tuple[int, bool]:
        """Weights of its model, and whether it is solved."""
        with torch.random.fork_rng(devices=[]):
            model = make_model(self.prepared.recipe, self.prepared.shape)
        return sum(value.numel() for value in model.parameters()), hasattr(model, "solve")

    @property
    def weights(self) -> int:
        """Numbers that are learned."""
        return self._known[0]

    @property
    def solved(self) -> bool:
        """Whether there are no epochs: weights are found at once."""
        return self._known[1]

    @cached_property
    def epoch_seconds(self) -> float:
        """Counted, not measured."""
        return epoch_seconds(self.prepared, self.weights)

    @property
    def finished(self) -> bool:
        return self.run.seed_path(self.seed).exists()

    @property
    def epochs(self) -> int:
        """That it was trained for so far."""
        return max((line["epoch"] for line in self._lines), default=0)

    @property
    def seconds(self) -> float:
        """That its training took."""
        return float(sum(line.get("seconds") or 0.0 for line in self._lines))

    @property
    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in self.run.metrics() if line["seed"] == self.seed]

    def train(self, epochs: float = math.inf) -> None:
        """On to so many epochs, or to its end. A recipe that cannot be trained here has `failed`, in a sentence."""
        if self.finished or self.failed or (self.epochs >= epochs and not self.solved):
            return
        self._fit(lambda done: done >= epochs or self.clock.over)

    def settle(self) -> None:
        """Keep the best weights so far: there is no time for more."""
        if not self.finished and not self.failed:
            self._fit(lambda done: True, keep=True)

    def _fit(self, pause: Callable[[int], bool], keep: bool = False) -> None:
        paused = False

        def asked(state: Any) -> bool:
            nonlocal paused
            paused = pause(state.epoch)
            return paused

        files, settings = self.run.files(self.seed), self.prepared.recipe.training
        device = choose_device(self.resources.device)
        machine = Machine(device, self.resources.memory, files.checkpoint, files.checkpoint_seconds, pause=asked)
        told: Progress = lambda stage, *rest, **more: self.progress(self.candidate.title, *rest, **more)  # noqa: E731
        try:
            fitted = fit_prepared(self.prepared, self.seed, machine, observe=self.run.lines(self.seed), progress=told)
        except DiskFull:
            raise  # no fault of the recipe: with more room it goes on
        except GamlpError as error:
            self.failed = str(error)
            return
        except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
            # A fault in one of many: it is told in the leaderboard, and the others go on.
            self.failed = f"ended by an error of its own ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            return
        ended = bool(fitted.stopped) or fitted.epochs >= settings.epochs or not paused
        if ended or keep:
            fitted = fitted if ended else replace(fitted, stopped=_TIME)
            self.run.keep(self.seed, bundle_of(self.prepared, fitted, self.seed))
        self.clock.keep()

    @property
    def bundle(self) -> Bundle:
        return Bundle.load(self.run.seed_path(self.seed), self.run.trust)

    def standing(self, epochs: float = math.inf) -> float:
        """How well it validated at its best until an epoch, as its lines tell; higher is better."""
        settings = self.prepared.recipe.training
        seen = [judged(_valid(line), settings) for line in self._lines if line["epoch"] <= epochs]
        means = [np.mean(seen[max(0, end - _LOOKED_BACK) : end]) for end in range(1, len(seen) + 1)]
        return float(np.nanmax(means)) if means and not np.isnan(means).all() else -math.inf

    def said(self) -> Said:
        """Of validation rows: asked once, then kept beside the bundle."""
        assert self.prepared.valid is not None
        rows = some_rows(self.prepared.valid)
        path = self.folder / _VALID
        if path.exists():
            kept = np.asarray(map_array(path))
            if kept.ndim == 2 and len(kept) == len(rows):
                return Said(rows.rows, kept, rows.targets)
        found = probabilities_of(self.bundle, rows, choose_device(self.resources.device), self.resources.memory)
        with Place.of(path).atomic_file() as new:
            save_array(new, found)
        return Said(rows.rows, found, rows.targets)


def _valid(line: dict[str, Any]) -> dict[str, float]:
    """What an epoch's line says of validation rows; no number is NaN."""
    found = {name: line.get(f"valid_{name}") for name in ("loss", "score", "metric") if f"valid_{name}" in line}
    return {"loss": math.nan, "score": math.nan} | {
        name: math.nan if value is None else float(value) for name, value in found.items()
    }
