"""The runs of a table, each one peer on one dataset with one seed, kept as a small file; processes may share them."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from gamlp.bench.own_process import in_own_process
from gamlp.bench.record import as_line
from gamlp.bench.sparsity import EDGES_REMOVED, changed_graph
from gamlp.bench.tables import PaperTable, TableMethod
from gamlp.bench.work import Options, Work, chosen, missing_reason, split_seed, task_of
from gamlp.errors import GamlpError
from gamlp.graph import digest
from gamlp.graph.datasets import load
from gamlp.io import locked, work_folder, write_json
from gamlp.peers import Task, Workspace, features_key, recipe_named, run
from gamlp.progress import silent
from gamlp.recipe import Recipe, shipped_names

_FORMAT = 1  # raised when the same settings would give another result
GRAPH = "graph."  # keys of an axis that change the graph and not the recipe
LONG_RUN = 300.0  # seconds; cells whose runs take longer get LONG_SEEDS seeds
LONG_SEEDS = 3


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe that decides a run beside its seed."""
    # Without defaults, so that a setting that comes later leaves the keys of earlier runs as they were.
    left_out: Any = {"about": True, "training": {"seeds"}}
    return recipe.model_dump(mode="json", exclude=left_out, exclude_defaults=True)


@dataclass(frozen=True)
class Cell:
    """One run to be done: where it stands in the table, and all that decides its result."""

    method: str
    dataset: str
    point: float | None
    seed: int
    recipe: Recipe
    change: str | None = None  # graph.edges_removed or graph.labels_per_class, by `point`
    fresh: bool = False  # hops are made anew, so that their time is this run's own
    apart: bool = False  # in a process of its own, so that its memory is

    @cached_property
    def key(self) -> str:
        """Of everything that decides the result; tables with the same run share it."""
        return digest([_FORMAT, self.dataset, self.seed, *self._settings])

    @cached_property
    def recipe_key(self) -> str:
        """Of all of that but the seed: numbers over seeds are of one."""
        return digest([_FORMAT, self.dataset, *self._settings])

    @property
    def _settings(self) -> list[Any]:
        changed = None if self.change is None else [self.change, self.point]
        apart = ["apart"] if self.apart else []
        return [settings_of(self.recipe), changed, self.fresh, *apart]

    def path(self, folder: Path) -> Path:
        """Where its report is kept."""
        return folder / "cells" / self.dataset / f"{self.key}.json"

    def done(self, work: Work) -> bool:
        """Whether it was run, here or by whoever wrote the record."""
        return self.path(work.folder).exists() or (work.record is not None and self.key in work.record)

    def load(self, work: Work) -> dict[str, Any] | None:
        """Its report, or None where it was not run."""
        path = self.path(work.folder)
        if not path.exists():
            return None if work.record is None else work.record.report(self.key)
        content: dict[str, Any] = json.loads(path.read_text())["report"]
        return content

    def line(self, content: dict[str, Any]) -> dict[str, Any]:
        """What the record has of its file."""
        at = {} if self.point is None else {"at": self.point}
        told = {"dataset": self.dataset, "method": self.method, **at, "seed": self.seed, "recipe": self.recipe_key}
        return as_line(self.key, content, **told)

    def run(self, task: Task, work: Work, workspace: Workspace) -> dict[str, Any]:
        """Run it and keep the report with its recipe, versions and time."""
        report = run(task, self.recipe, self.seed, workspace).as_json()
        content = {
            "report": report,
            "dataset": self.dataset,
            "recipe": self.recipe.explicit(),
            "change": None if self.change is None else {self.change: self.point},
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "versions": {name: version(name) for name in ("gamlp", "torch", "numpy")},
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        }
        path = self.path(work.folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
        if work.record is not None:
            work.record.add([self.line(content)])
        return report


def recipe_in(table: PaperTable, entry: TableMethod, dataset: str, point: float | None) -> Recipe:
    """The recipe of a row on a dataset: the shipped one with the row's changes and the axis's value."""
    assert entry.recipe is not None
    column = table.datasets[dataset]
    name, like = column.recipes.get(entry.recipe, entry.recipe), column.like or dataset
    recipe, changes = recipe_named(name, like), dict(entry.changes)
    if entry.tuned is not None:
        searched = {f"{like}-{entry.tuned}", f"{like}-{name}-{entry.tuned}"} & set(shipped_names())
        if searched:
            recipe, changes = Recipe.of(min(searched, key=len)), {}
    if point is not None and table.axis is not None:
        key = entry.axis or table.axis.key
        if not key.startswith(GRAPH):
            changes[key] = point
    return recipe.changed(changes)


def cells_of(table: PaperTable, dataset: str, methods: list[str], seeds: int) -> list[Cell]:
    """Every run of a dataset's column, seeds outermost: those with fewest seeds come first."""
    found = []
    points = table.axis.values if table.axis is not None else (None,)
    for name in methods:
        entry = table.methods[name]
        if entry.recipe is None:
            continue
        for point in points:
            key = None if table.axis is None else entry.axis or table.axis.key
            change = key if key is not None and key.startswith(GRAPH) else None
            recipe = recipe_in(table, entry, dataset, point)
            fresh, apart = table.kind in ("efficiency", "cost"), table.kind == "cost"
            found.append(Cell(name, dataset, point, 0, recipe, change, fresh, apart))
    return [replace(cell, seed=seed) for seed in range(seeds) for cell in found]


def depths_of(cells: list[Cell]) -> dict[str, int]:
    """How deep each store of hops has to be for all of these cells."""
    depths: dict[str, int] = {}
    for cell in cells:
        key = features_key(cell.recipe)
        depths[key] = max(depths.get(key, 0), cell.recipe.propagation.hops)
    return depths


@dataclass
class TableRuns:
    """Runs of a table: those of datasets at hand, and why the others are missing."""

    cells: list[Cell]
    missing: dict[str, str] = field(default_factory=dict)


def columns_of(table: PaperTable, work: Work, absent: bool = False) -> TableRuns:
    """Every run that the table asks for, seeds outermost; with `absent` those on datasets that are missing, too."""
    methods = chosen("method", table.methods, work.methods)
    seeds = work.seeds or table.seeds
    columns = TableRuns([])
    for dataset in chosen("dataset", table.datasets, work.datasets):
        if (reason := missing_reason(dataset, work.data_dir, table.options)) is not None:
            columns.missing[dataset] = reason
        if reason is None or absent:
            columns.cells += cells_of(
                table, dataset, [name for name in table.runs_of(dataset) if name in methods], seeds
            )
    columns.cells.sort(key=lambda cell: cell.seed)
    return columns


def record_runs(cells: list[Cell], work: Work) -> None:
    """Add what was run without the record, or what ended just before it was added."""
    if (record := work.record) is None:
        return
    paths = [(cell, cell.path(work.folder)) for cell in cells if cell.key not in record]
    record.add(cell.line(json.loads(path.read_text())) for cell, path in paths if path.exists())


def run_table(table: PaperTable, work: Work) -> dict[str, str]:
    """Run what is missing until it is done or the deadline comes; gives what could not be run, with its reason."""
    columns = columns_of(table, work)
    record_runs(columns.cells, work)
    clock = _Clock(columns.cells, work)
    refused: dict[str, str] = {}
    tasks = _Tasks(work, table.options)
    depths = {
        dataset: depths_of([cell for cell in columns.cells if cell.dataset == dataset])
        for dataset in {cell.dataset for cell in columns.cells}
    }
    if table.kind == "efficiency":
        _warm_up()
    for cell in columns.cells:
        name = f"{cell.method} on {cell.dataset}"
        if cell.done(work) or name in refused or clock.enough(cell):
            continue
        if work.over:
            break
        with locked(cell.path(work.folder), wait=False) as ours:
            if not ours or cell.done(work):  # another process has it
                continue
            clock.tell(cell)
            try:
                if cell.apart:
                    threads = work.resources.threads or torch.get_num_threads()
                    quiet = replace(work, progress=silent)
                    seconds = in_own_process(_run_apart, cell, quiet, table.options, threads=threads)
                else:
                    seconds = _run(cell, tasks.of(cell), depths[cell.dataset], work)
            except GamlpError as error:
                refused[name] = str(error)
                continue
            clock.done(cell, seconds)
    clock.end()
    return refused


def _run(cell: Cell, task: Task, depths: dict[str, int], work: Work) -> float:
    begun = time.monotonic()
    # Its own hops: where its preparation is timed, and where no other run has its graph.
    if cell.fresh or cell.change == EDGES_REMOVED:
        with work_folder(work.folder / ".fresh") as own:
            cell.run(task, work, Workspace(own / "hops", work.resources))
    else:
        cell.run(task, work, Workspace(work.hops, work.resources, depths=depths))
    return time.monotonic() - begun


def _run_apart(cell: Cell, work: Work, options: Options) -> float:
    _warm_up()
    return _run(cell, _Tasks(work, options).of(cell), {}, work)


def _warm_up() -> None:
    """A process's first training pays for what is loaded and set up once; it is paid before times are taken."""
    run(load("karate"), recipe_named("sgc").changed({"training.epochs": 2}), 0)


class _Tasks:
    """Graphs of the cells, the last one kept: neighbours in the order mostly share it."""

    def __init__(self, work: Work, options: Options) -> None:
        self._work, self._options = work, options
        self._key: tuple[Any, ...] = ()
        self._task: Task | None = None

    def of(self, cell: Cell) -> Task:
        key: tuple[Any, ...] = (cell.dataset, split_seed(cell.dataset, cell.seed))
        if cell.change is not None:
            key = (*key, cell.change, cell.point, cell.seed)
        if key != self._key or self._task is None:
            task = task_of(cell.dataset, cell.seed, self._work.data_dir, options=self._options)
            if cell.change is not None and cell.point is not None:
                task = replace(task, graph=changed_graph(task.graph, cell.change, cell.point, cell.seed))
            self._key, self._task = key, task
        return self._task


class _Clock:
    """How long cells take, and so how long the rest will."""

    def __init__(self, cells: list[Cell], work: Work) -> None:
        self._cells, self._work = cells, work
        self._seconds: dict[tuple[str, str, float | None], float] = {}
        for cell in cells:
            if (report := cell.load(work)) is not None:
                self._seconds[_place(cell)] = sum(report["seconds"].values())

    def enough(self, cell: Cell) -> bool:
        """Whether a cell of long runs has its seeds."""
        return cell.seed >= LONG_SEEDS and self._seconds.get(_place(cell), 0.0) > LONG_RUN

    def done(self, cell: Cell, seconds: float) -> None:
        self._seconds[_place(cell)] = seconds

    def tell(self, cell: Cell) -> None:
        left = [one for one in self._cells if not one.done(self._work) and not self.enough(one)]
        known = [self._seconds[_place(one)] for one in left if _place(one) in self._seconds]
        typical = sum(known) / len(known) if known else 0.0
        minutes = (sum(known) + typical * (len(left) - len(known))) / 60
        estimate = f", about {minutes:.0f} min left" if known else ""
        at = "" if cell.point is None else f" at {cell.point:g}"
        note = f"{cell.method} on {cell.dataset}{at}, seed {cell.seed}{estimate}"
        self._work.progress("runs", len(self._cells) - len(left), len(self._cells), "runs", note)

    def end(self) -> None:
        done = sum(cell.done(self._work) for cell in self._cells)
        self._work.progress("runs", done, len(self._cells), "runs", "")


def _place(cell: Cell) -> tuple[str, str, float | None]:
    return cell.method, cell.dataset, cell.point
