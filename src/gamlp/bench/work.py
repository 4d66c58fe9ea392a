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

from gamlp.bench.record import FOLDER, PointRecord, Record, machine_name
from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest
from gamlp.graph.datasets import DATASETS, cache_folder, communities, load, mag_like, presence, short_video
from gamlp.io import locked
from gamlp.peers import Task
from gamlp.progress import Progress, silent
from gamlp.run import LOCAL, Resources

_FORMAT = 1  # raised when the same settings would give another result
_GENERATED = 2  # the same of generated graphs
Options = dict[str, Any]  # a table's: `tasks` and `generated` say what its own datasets are
_GENERATORS: dict[str, Callable[..., Graph]] = {
    "communities": communities,
    "mag_like": mag_like,
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
    """Points of one kind: settings are all that decides a point's result, `made` what else makes it stale.

    They are lines beside the record of runs, so that another machine goes on from them; those that were found before
    points were recorded are files in the folder of the measurement.
    """

    work: Work
    kind: str

    @cached_property
    def record(self) -> PointRecord:
        """What is recorded of them."""
        return PointRecord(self.work.record.folder, self.kind)

    def known(self, settings: Any, name: str = "", made: str = "") -> Any:
        """What was found before, or None. `name` is what similar points have in common: others take as long."""
        line = self.record.lines.get(_key(settings, made))
        if line is not None:
            return line["found"]
        path = self.work.folder / "points" / self.kind / f"{digest([_FORMAT, settings])}.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text())["found"]
        return found if self.work.over else self.keep(settings, found, name, made)

    def keep(self, settings: Any, found: Any, name: str = "", made: str = "", seconds: float | None = None) -> Any:
        """Record it; gives what will be known of it from now on."""
        told = {
            "key": _key(settings, made), "name": name, "seconds": seconds, "gamlp": version("gamlp"),
            "machine": machine_name(), "date": time.strftime("%Y-%m-%d"), "found": found,
        }  # fmt: skip
        return self.record.add(told)["found"]

    def found(self, settings: Any, make: Callable[[], Any], name: str = "", made: str = "") -> Any:
        """What was found before, else what `make` finds now; None when the time is over."""
        known = self.known(settings, name, made)
        if known is None and not self.work.over:
            begun = time.monotonic()
            made_now = make()
            known = self.keep(settings, made_now, name, made, time.monotonic() - begun)
        return known


def _key(settings: Any, made: str) -> str:
    return digest([_FORMAT, settings, made])


def chosen(kind: str, names: Iterable[str], wanted: tuple[str, ...] | None) -> list[str]:
    """Those names of a table that are wanted, in its order; another one is refused."""
    known = list(names)
    for name in wanted or ():
        if name not in known:
            raise GamlpError(f"the table has no {kind} '{name}'", hint=f"it has {', '.join(known)}")
    return [name for name in known if wanted is None or name in wanted]
