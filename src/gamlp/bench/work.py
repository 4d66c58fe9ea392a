"""Where a measurement lives and what it may spend, the points it keeps there, and the graphs of its columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gamlp.bench.record import FOLDER, Record
from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest
from gamlp.graph.datasets import DATASETS, cache_folder, communities, load, presence, short_video
from gamlp.io import locked, write_json
from gamlp.peers import Task
from gamlp.progress import Progress, silent
from gamlp.run import LOCAL, Resources

_FORMAT = 1  # raised when the same settings would give another result
_GENERATED = 2  # the same of generated graphs
Options = dict[str, Any]  # a table's: `tasks` and `generated` say what its own datasets are
_GENERATORS: dict[str, Callable[..., Graph]] = {
    "communities": communities,
    "short_video": short_video,
}


@dataclass(frozen=True)
class Work:
    """`folder` keeps runs and hops between calls. None of `seeds`, `datasets`, `methods`: what the table says.

    `deadline` is a time of time.monotonic() after which no new run is begun. Runs of the record in the folder `runs`
    (None: inside `folder`) count as run, and those that end are added to it. `pages` is the folder of earlier pages,
    whose numbers stand where no runs are left.
    """

    folder: Path
    data_dir: Path | None = None
    resources: Resources = LOCAL
    seeds: int | None = None
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    deadline: float | None = None
    progress: Progress = field(default=silent, compare=False)
    runs: Path | None = None
    pages: Path | None = None

    @cached_property
    def record(self) -> Record:
        """Of finished runs; of each table a file."""
        return Record(self.runs or self.folder / "tables" / FOLDER)

    @property
    def over(self) -> bool:
        """Whether the time is spent."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def hops(self) -> Path:
        return self.folder / "hops"


def task_of(
    dataset: str,
    seed: int,
    data_dir: Path | None = None,
    progress: Progress = silent,
    options: Options | None = None,
) -> Task:
    """A column's graphs. Seeds draw the split where the protocol does; a generated graph is that of seed 0."""
    options = options or {}
    if (several := options.get("tasks", {}).get(dataset)) is not None:
        # Countries that are graphs of their own: trained on one, chosen on another, tested on the others.
        tests = {name: load(name, data_dir) for name in several["tests"]}
        return Task(load(several["train"], data_dir), load(several["valid"], data_dir), tests)
    if (made := options.get("generated", {}).get(dataset)) is not None:
        return Task(_generated(dataset, dict(made), progress))
    return Task(load(dataset, data_dir, split_seed(dataset, seed), progress))


def _generated(dataset: str, settings: dict[str, Any], progress: Progress) -> Graph:
    folder = cache_folder() / "graphs" / f"{dataset}-{digest([_GENERATED, settings])}"
    with locked(folder):
        if folder.is_dir():
            return Graph.open(folder)
        generate = _GENERATORS[settings.pop("generator")]
        return generate(folder, **settings, progress=progress)


def split_seed(dataset: str, seed: int) -> int:
    """The seed that a dataset is loaded with: of its split where that is drawn, else 0."""
    entry = DATASETS.get(dataset)
    drawn = entry is not None and entry.raw and (entry.per_class is not None or entry.valid_share is not None)
    return seed if drawn else 0


def missing_reason(dataset: str, data_dir: Path | None = None, options: Options | None = None) -> str | None:
    """Why a dataset cannot be had, or None where it can."""
    options = options or {}
    if dataset in options.get("generated", {}):
        return None
    several = options.get("tasks", {}).get(dataset)
    names = [dataset] if several is None else [several["train"], several["valid"], *several["tests"]]
    statuses = {found.dataset.name: found.status for found in presence(data_dir)}
    for name in names:
        if statuses.get(name) != "present":
            return f"{name} is not at hand: `gamlp datasets` says which files it needs"
    return None


@dataclass(frozen=True)
class Points:
    """Points of one kind; settings are all that decides a point's result."""

    work: Work
    kind: str

    def path(self, settings: Any) -> Path:
        return self.work.folder / "points" / self.kind / f"{digest([_FORMAT, settings])}.json"

    def known(self, settings: Any) -> Any:
        """What was found before, or None."""
        path = self.path(settings)
        return json.loads(path.read_text())["found"] if path.exists() else None

    def keep(self, settings: Any, found: Any) -> None:
        path = self.path(settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        versions = {name: version(name) for name in ("gamlp", "torch", "numpy")}
        content = {"settings": settings, "found": found, "date": time.strftime("%Y-%m-%d %H:%M"), "versions": versions}
        write_json(path, content)

    def found(self, settings: Any, make: Callable[[], Any]) -> Any:
        """What was found before, else what `make` finds now; None when the time is over."""
        known = self.known(settings)
        if known is None and not self.work.over:
            known = make()
            self.keep(settings, known)
        return known


def chosen(kind: str, names: Iterable[str], wanted: tuple[str, ...] | None) -> list[str]:
    """Those names of a table that are wanted, in its order; another one is refused."""
    known = list(names)
    for name in wanted or ():
        if name not in known:
            raise GamlpError(f"the table has no {kind} '{name}'", hint=f"it has {', '.join(known)}")
    return [name for name in known if wanted is None or name in wanted]
