"""Runs what a table still lacks, cells with fewest seeds first, within its budget; several processes may share it."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gamlp.bench.cells import Cell, cells_of, depths_of
from gamlp.bench.points import chosen
from gamlp.bench.sparsity import EDGES_REMOVED, changed_graph
from gamlp.bench.tables import Table
from gamlp.bench.work import Options, Work, missing_reason, split_seed, task_of
from gamlp.errors import GamlpError
from gamlp.graph.datasets.load import load
from gamlp.io import locked
from gamlp.peers.contract import Place, Task
from gamlp.peers.registry import recipe_named, run

LONG_RUN = 300.0  # seconds; cells whose runs take longer get LONG_SEEDS seeds
LONG_SEEDS = 3


@dataclass
class Columns:
    """Runs of a table: those of datasets at hand, and why the others are missing."""

    cells: list[Cell]
    missing: dict[str, str] = field(default_factory=dict)


def columns_of(table: Table, work: Work) -> Columns:
    """Every run that the table asks for, seeds outermost."""
    methods = chosen("method", table.methods, work.methods)
    seeds = work.seeds or table.seeds
    columns = Columns([])
    for dataset in chosen("dataset", table.datasets, work.datasets):
        if (reason := missing_reason(dataset, work.data_dir, table.options)) is not None:
            columns.missing[dataset] = reason
        else:
            columns.cells += cells_of(
                table, dataset, [name for name in table.runs_of(dataset) if name in methods], seeds
            )
    columns.cells.sort(key=lambda cell: cell.seed)
    return columns


def run_table(table: Table, work: Work) -> dict[str, str]:
    """Run what is missing until it is done or the deadline comes; gives what could not be run, with its reason."""
    columns = columns_of(table, work)
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
        if cell.path(work.folder).exists() or name in refused or clock.enough(cell):
            continue
        if work.over:
            break
        with locked(cell.path(work.folder), wait=False) as ours:
            if not ours or cell.path(work.folder).exists():  # another process has it
                continue
            clock.tell(cell)
            try:
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
        work.folder.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(prefix=".fresh-", dir=work.folder))
        try:
            cell.run(task, work.folder, Place(own, work.resources))
        finally:
            shutil.rmtree(own, ignore_errors=True)
    else:
        cell.run(task, work.folder, Place(work.hops, work.resources, depths=depths))
    return time.monotonic() - begun


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
            if (report := cell.load(work.folder)) is not None:
                self._seconds[_place(cell)] = sum(report["seconds"].values())

    def enough(self, cell: Cell) -> bool:
        """Whether a cell of long runs has its seeds."""
        return cell.seed >= LONG_SEEDS and self._seconds.get(_place(cell), 0.0) > LONG_RUN

    def done(self, cell: Cell, seconds: float) -> None:
        self._seconds[_place(cell)] = seconds

    def tell(self, cell: Cell) -> None:
        left = [one for one in self._cells if not one.path(self._work.folder).exists() and not self.enough(one)]
        known = [self._seconds[_place(one)] for one in left if _place(one) in self._seconds]
        typical = sum(known) / len(known) if known else 0.0
        minutes = (sum(known) + typical * (len(left) - len(known))) / 60
        estimate = f", about {minutes:.0f} min left" if known else ""
        at = "" if cell.point is None else f" at {cell.point:g}"
        note = f"{cell.method} on {cell.dataset}{at}, seed {cell.seed}{estimate}"
        self._work.progress("runs", len(self._cells) - len(left), len(self._cells), "runs", note)

    def end(self) -> None:
        done = sum(cell.path(self._work.folder).exists() for cell in self._cells)
        self._work.progress("runs", done, len(self._cells), "runs", "")


def _place(cell: Cell) -> tuple[str, str, float | None]:
    return cell.method, cell.dataset, cell.point
