"""Runs of tables, the most needed first, until they are done or the time is spent; processes may share them."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gamlp.bench.cells import Cell, depths_of
from gamlp.bench.measure import measure_special
from gamlp.bench.own_process import in_own_process
from gamlp.bench.schedule import Forecast, Schedule, Waiting, duration
from gamlp.bench.sparsity import EDGES_REMOVED, changed_graph
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Options, Work, split_seed, task_of
from gamlp.errors import GamlpError
from gamlp.graph.datasets import load
from gamlp.io import locked, usable_cores, work_folder
from gamlp.peers import Task, Workspace, recipe_named, run
from gamlp.progress import silent

_LOOK_SECONDS = 1.0


def measure_tables(tables: Sequence[PaperTable], work: Work, jobs: int = 1, extra: bool = False) -> dict[str, str]:
    """Run what is missing until the deadline; gives what could not be run, with its reason.

    `extra` seeds are spent on rows that are not told apart, when all cells have those of their table.
    """
    refused = run_tables(tables, work, extra) if jobs == 1 else run_in_processes(tables, work, jobs, extra)
    for table in tables:
        refused |= measure_special(table, work)
    return refused


def run_tables(tables: Sequence[PaperTable], work: Work, extra: bool = False) -> dict[str, str]:
    """The same of tables of runs, in this process; a run that would not end in time is not begun."""
    schedule = Schedule(tables, work, extra)
    runner = _Runner(schedule, work, {table.name: table.options for table in tables})
    if any(table.kind == "efficiency" for table in tables):
        _warm_up()
    while not work.over and runner.run_next():
        pass
    done, total = schedule.counts()
    work.progress("runs", done, total, "runs", "")
    return runner.refused


class _Runner:
    """Runs of a schedule one after another. `refused` are rows on columns that cannot be run, with the reason."""

    def __init__(self, schedule: Schedule, work: Work, options: dict[str, Options]) -> None:
        self.refused: dict[str, str] = {}
        self._schedule, self._work, self._options = schedule, work, options
        self._tasks = _Tasks(work)

    def run_next(self) -> bool:
        """The first that fits into the time and that no other process has; False where there is none."""
        for one in self._schedule.waiting():
            if _row(one.cell) in self.refused or not self._fits(one):
                continue
            with locked(self._work.folder / "locks" / "-".join(map(str, one.cell.key)), wait=False) as ours:
                self._work.record.refresh()
                if not ours or one.cell.done(self._work):  # another process has it
                    continue
                self._tell(one)
                try:
                    self._run(one.cell)
                except GamlpError as error:
                    self.refused[_row(one.cell)] = str(error)
            self._schedule.refresh(one.cell)
            return True
        return False

    def _fits(self, one: Waiting) -> bool:
        """What is not known is tried: its first run makes it known."""
        deadline = self._work.deadline
        return deadline is None or one.estimate.most <= deadline - time.monotonic()

    def _run(self, cell: Cell) -> None:
        options = self._options[cell.table]
        if cell.apart:
            threads = self._work.resources.threads or torch.get_num_threads()
            in_own_process(_run_apart, cell, replace(self._work, progress=silent), options, threads=threads)
            return
        _run(cell, self._tasks.of(cell, options), depths_of(self._schedule.column(cell)), self._work)

    def _tell(self, one: Waiting) -> None:
        done, total = self._schedule.counts()
        left = Forecast.of(self._schedule.waiting())
        estimate = f", about {duration(left.seconds)} left" if left.seconds else ""
        long = f" (over five minutes: about {duration(one.estimate.seconds or 0)})" if one.estimate.long else ""
        note = f"{one.cell.name}, seed {one.cell.seed}{long}{estimate}"
        self._work.progress("runs", done, total, "runs", note)


def _row(cell: Cell) -> str:
    return f"{cell.method} on {cell.dataset}"


def _run(cell: Cell, task: Task, depths: dict[str, int], work: Work) -> None:
    # Its own hops: where its preparation is timed, and where no other run has its graph.
    if cell.fresh or cell.change == EDGES_REMOVED:
        with work_folder(work.folder / ".fresh") as own:
            cell.run(task, work, Workspace(own / "hops", work.resources))
    else:
        cell.run(task, work, Workspace(work.hops, work.resources, depths=depths))


def _run_apart(cell: Cell, work: Work, options: Options) -> None:
    _warm_up()
    _run(cell, _Tasks(work).of(cell, options), {}, work)


def _warm_up() -> None:
    """A process's first training pays for what is loaded and set up once; it is paid before times are taken."""
    run(load("karate"), recipe_named("sgc").changed({"training.epochs": 2}), 0)


class _Tasks:
    """Graphs of the cells, the last one kept: neighbours in the order mostly share it."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._key: tuple[Any, ...] = ()
        self._task: Task | None = None

    def of(self, cell: Cell, options: Options) -> Task:
        key: tuple[Any, ...] = (cell.dataset, cell.made, split_seed(cell.dataset, cell.seed))
        if cell.change is not None:
            key = (*key, cell.change, cell.point, cell.seed)
        if key != self._key or self._task is None:
            task = task_of(cell.dataset, cell.seed, self._work.data_dir, options=options)
            if cell.change is not None and cell.point is not None:
                task = replace(task, graph=changed_graph(task.graph, cell.change, cell.point, cell.seed))
            self._key, self._task = key, task
        return self._task


def run_in_processes(tables: Sequence[PaperTable], work: Work, jobs: int, extra: bool = False) -> dict[str, str]:
    """As run_tables, in `jobs` processes that share the cores."""
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    threads = max(1, (work.resources.threads or usable_cores()) // jobs)
    quiet = replace(work, progress=silent, resources=replace(work.resources, threads=threads))
    refused = context.SimpleQueue()
    left = None if work.deadline is None else work.deadline - time.monotonic()
    given = (list(tables), quiet, left, threads, extra, refused)
    processes = [context.Process(target=_share, args=given) for _ in range(jobs)]
    schedule = Schedule(tables, work, extra)
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            schedule.refresh()
            done, total = schedule.counts()
            work.progress("runs", done, total, "runs", f"{jobs} processes")
            time.sleep(_LOOK_SECONDS)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
    schedule.refresh()
    found: dict[str, str] = {}
    while not refused.empty():
        found |= refused.get()
    if failed := [process.exitcode for process in processes if process.exitcode]:
        raise GamlpError(f"a process of the measurement ended with code {failed[0]}", hint="run it again with --jobs 1")
    return found


def _share(
    tables: list[PaperTable], work: Work, left: float | None, threads: int, extra: bool, refused: object
) -> None:
    torch.set_num_threads(threads)
    deadline = None if left is None else time.monotonic() + left
    found = run_tables(tables, replace(work, deadline=deadline), extra)
    refused.put(found)  # type: ignore[attr-defined]
