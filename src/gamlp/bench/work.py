"""Where a measurement lives and what it may spend; graphs of its columns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from gamlp.bench.contract import Task
from gamlp.graph.catalogue import DATASETS
from gamlp.graph.datasets import load, presence
from gamlp.progress import Progress, silent
from gamlp.training.preparing import HERE, Resources


@dataclass(frozen=True)
class Work:
    """`folder` keeps runs and hops between calls. None of `seeds`, `datasets`, `methods`: what the table says.

    `deadline` is a time of time.monotonic() after which no new run is begun.
    """

    folder: Path
    data_dir: Path | None = None
    resources: Resources = HERE
    seeds: int | None = None
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    deadline: float | None = None
    progress: Progress = field(default=silent, compare=False)

    @property
    def over(self) -> bool:
        """Whether the time is spent."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def hops(self) -> Path:
        return self.folder / "hops"


# Countries that are graphs of their own: trained on one, chosen on another, tested on the others.
_SEVERAL = {
    "twitch": ("twitch-de", "twitch-engb", ("twitch-es", "twitch-fr", "twitch-ptbr", "twitch-ru", "twitch-zhtw"))
}


def task_of(dataset: str, seed: int, data_dir: Path | None = None, progress: Progress = silent) -> Task:
    """A column's graphs. Seeds draw the split where the protocol does; a generated graph is that of seed 0."""
    if dataset in _SEVERAL:
        train, valid, tests = _SEVERAL[dataset]
        return Task(load(train, data_dir), load(valid, data_dir), {name: load(name, data_dir) for name in tests})
    return Task(load(dataset, data_dir, split_seed(dataset, seed), progress))


def split_seed(dataset: str, seed: int) -> int:
    """The seed that a dataset is loaded with: of its split where that is drawn, else 0."""
    entry = DATASETS.get(dataset)
    drawn = entry is not None and entry.raw and (entry.per_class is not None or entry.valid_share is not None)
    return seed if drawn else 0


def missing_reason(dataset: str, data_dir: Path | None = None) -> str | None:
    """Why a dataset cannot be had, or None where it can."""
    train, valid, tests = _SEVERAL.get(dataset, (dataset, dataset, ()))
    told = {found.dataset.name: found.told for found in presence(data_dir)}
    for name in (train, valid, *tests):
        if told.get(name) != "present":
            return f"{name} is not at hand: `gamlp datasets` says which files it needs"
    return None
