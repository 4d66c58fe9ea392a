"""A table from its name to its files: what it lacks is run, what it has is written."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gamlp.bench import complexity, hop_weights, sgc_steps
from gamlp.bench.earlier import or_earlier, with_earlier
from gamlp.bench.figures import write_figures
from gamlp.bench.pages import Stamp, as_content, as_markdown, write_pages
from gamlp.bench.results import Key, Reports, Results
from gamlp.bench.runner import columns_of, record_runs, run_table
from gamlp.bench.tables import PaperTable
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.io import usable_cores
from gamlp.progress import silent

_LOOK_SECONDS = 0.5
_Measure = Callable[[PaperTable, Work], dict[str, Any]]
_AsResults = Callable[[PaperTable, dict[str, Any]], Results]
_SPECIAL: dict[str, tuple[_Measure, _AsResults]] = {
    "complexity": (complexity.measure, complexity.as_results),
    "hop-weights": (hop_weights.measure, hop_weights.as_results),
    "sgc-steps": (sgc_steps.measure, sgc_steps.as_results),
}


@dataclass(frozen=True)
class WrittenTable:
    """Files of a table; `page` is its Markdown. Where nothing was `measured` it holds published values alone."""

    page: str
    content: dict[str, Any]
    files: list[Path]
    measured: bool


def measure_table(table: PaperTable, work: Work, jobs: int = 1) -> dict[str, str]:
    """Run what is missing until the deadline; gives what could not be run, with its reason."""
    if table.kind in _SPECIAL:
        run, _ = _SPECIAL[table.kind]
        refused: dict[str, str] = run(table, work).get("refused", {})
        return refused
    if jobs == 1:
        return run_table(table, work)
    cores = work.resources.threads or usable_cores()
    return run_in_processes(table, work, jobs, max(1, cores // jobs))


def results_of(table: PaperTable, work: Work) -> Results:
    """What has been measured so far, here, by the record and by earlier pages; nothing is run."""
    if table.kind in _SPECIAL:
        look, as_results = _SPECIAL[table.kind]
        points = look(table, replace(work, deadline=0.0))  # past its deadline it only reads
        return or_earlier(as_results(table, points), work.pages)
    # All rows and columns, whichever were asked to run, and on datasets that others had.
    columns = columns_of(table, replace(work, methods=None, datasets=None), absent=True)
    found: dict[Key, Reports] = {}
    recipes: dict[Key, str] = {}
    for cell in columns.cells:
        place = (cell.method, cell.dataset, cell.point)
        recipes.setdefault(place, cell.recipe_key)
        if (report := cell.load(work)) is not None:
            found.setdefault(place, []).append(report)
    return with_earlier(Results(table, found, columns.missing, recipes=recipes), work.pages)


def write_result(table: PaperTable, work: Work, folder: Path) -> WrittenTable:
    """Markdown, CSV and JSON, and the figure as PNG and SVG; a page that is there gives numbers whose runs are lost."""
    if table.kind not in _SPECIAL:
        record_runs(columns_of(table, work).cells, work)
    results = results_of(table, replace(work, pages=folder))
    stamp = Stamp.now(f"gamlp bench run {table.name}")
    write_pages(results, folder, stamp)  # first: numbers are there even where nothing can draw
    figures = write_figures(results, folder)
    files = write_pages(results, folder, stamp, [path.name for path in figures if path.suffix == ".png"])
    return WrittenTable(
        as_markdown(results, stamp), as_content(results, stamp), [*files, *figures], results.measured_any
    )


def run_in_processes(table: PaperTable, work: Work, jobs: int, threads: int) -> dict[str, str]:
    """As run_table, in `jobs` processes of `threads` threads each."""
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    quiet = replace(work, progress=silent, resources=replace(work.resources, threads=threads))
    refused = context.SimpleQueue()
    left = None if work.deadline is None else work.deadline - time.monotonic()
    processes = [context.Process(target=_work, args=(table, quiet, left, threads, refused)) for _ in range(jobs)]
    cells = columns_of(table, work).cells
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            done = sum(cell.done(work) for cell in cells)
            work.progress("runs", done, len(cells), "runs", f"{jobs} processes")
            time.sleep(_LOOK_SECONDS)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
    found: dict[str, str] = {}
    while not refused.empty():
        found |= refused.get()
    if failed := [process.exitcode for process in processes if process.exitcode]:
        raise GamlpError(f"a process of the measurement ended with code {failed[0]}", hint="run it again with --jobs 1")
    return found


def _work(table: PaperTable, work: Work, left: float | None, threads: int, refused: object) -> None:
    import torch

    torch.set_num_threads(threads)
    deadline = None if left is None else time.monotonic() + left
    found = run_table(table, replace(work, deadline=deadline))
    refused.put(found)  # type: ignore[attr-defined]
