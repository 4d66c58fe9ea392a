"""A cell's trials on disk: a file of lines that only grows, shared by processes; a kill loses at most one run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from gamlp.bench.search.allocation import Purse, Standing, Tried
from gamlp.errors import GamlpError
from gamlp.io import disk_full_as_error
from gamlp.recipe import Recipe

Line = dict[str, Any]


@dataclass
class Trial:
    """A recipe and its runs by replicate, each `{score, loss, seconds, reserve, epoch}`. `source`: who proposed it."""

    number: int
    source: str
    recipe: Recipe
    runs: dict[int, Line] = field(default_factory=dict)
    failed: str = ""

    @property
    def tried(self) -> Tried:
        """What allocation knows of it."""
        scores = {key: run["score"] for key, run in self.runs.items()}
        losses = {key: run["loss"] for key, run in self.runs.items()}
        return Tried(self.number, scores, losses, fmean(run["seconds"] for run in self.runs.values()))

    def next_replicate(self) -> int:
        """The first that it lacks: trials are compared on those that they share."""
        return next(number for number in range(len(self.runs) + 1) if number not in self.runs)


@dataclass(frozen=True)
class Trials:
    """All that a file says of a cell."""

    trials: list[Trial]
    spent: Purse = field(default_factory=Purse)
    splits: bool = True

    @cached_property
    def standing(self) -> Standing:
        """Of those that ran and did not fail."""
        return Standing([one.tried for one in self.trials if one.runs and not one.failed], self.splits)

    @property
    def waiting(self) -> list[Trial]:
        """Proposed, and never run to an end."""
        return [one for one in self.trials if not one.runs and not one.failed]

    def leader(self) -> Trial | None:
        """The best by validation rows."""
        found = self.standing.leader
        return None if found is None else self.trials[found.number]


@dataclass(frozen=True)
class Journal:
    """The file. To be appended to while the search's lock is held, so that numbers are given once."""

    path: Path
    splits: bool = True  # whether replicates are splits, or seeds alone

    def read(self) -> Trials:
        """What is there; a line that a kill cut short is passed over."""
        if not self.path.exists():
            return Trials([], splits=self.splits)
        lines = self.path.read_text(encoding="utf-8").splitlines()
        trials: list[Trial] = []
        equal = reserve = 0.0
        for number, line in enumerate(_parsed(lines, self.path)):
            try:
                _tell(trials, line)
                seconds = float(line.get("seconds", 0.0))
            except (KeyError, TypeError, ValueError, IndexError, GamlpError) as error:
                raise GamlpError(
                    f"line {number + 1} is damaged ({error})", file=self.path, hint="remove the line, or choose --work"
                ) from error
            equal, reserve = (equal, reserve + seconds) if line.get("reserve") else (equal + seconds, reserve)
        return Trials(trials, Purse(equal, reserve), self.splits)

    def append(self, line: Line) -> None:
        """One line, on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with disk_full_as_error(self.path), self.path.open("ab+") as file:
            cut = file.tell() and not self._ends_with_newline()
            file.write((b"\n" if cut else b"") + json.dumps(line, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def _parsed(lines: list[str], path: Path) -> Iterable[Line]:
    for number, line in enumerate(lines):
        try:
            yield json.loads(line)
        except ValueError:
            if not line.startswith("{"):  # else a kill cut it short, and the next writer began a new line after it
                raise GamlpError(
                    f"line {number + 1} is no JSON", file=path, hint="remove the line, or choose --work"
                ) from None


def _tell(trials: list[Trial], line: Line) -> None:
    number = int(line["trial"])
    if "recipe" in line:
        if number != len(trials):
            raise ValueError("trials are numbered from 0")
        trials.append(Trial(number, str(line["source"]), Recipe.of(line["recipe"])))
        return
    trial = trials[number]
    if "failed" in line:
        trial.failed = str(line["failed"])
        return
    if not all(math.isfinite(line[key]) for key in ("score", "loss", "seconds")):
        raise ValueError("a number that is not finite")
    trial.runs[int(line["replicate"])] = line
