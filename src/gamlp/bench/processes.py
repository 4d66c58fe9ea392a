"""Several processes on one table: each takes runs that nobody has yet."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace

from gamlp.bench.runner import columns_of, run_table
from gamlp.bench.tables import Table
from gamlp.bench.work import Work
from gamlp.errors import GamlpError
from gamlp.progress import silent

_LOOK_SECONDS = 0.5


def run_in_processes(table: Table, work: Work, jobs: int, threads: int) -> dict[str, str]:
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
            done = sum(cell.path(work.folder).exists() for cell in cells)
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


def _work(table: Table, work: Work, left: float | None, threads: int, refused: object) -> None:
    import torch

    torch.set_num_threads(threads)
    deadline = None if left is None else time.monotonic() + left
    found = run_table(table, replace(work, deadline=deadline))
    refused.put(found)  # type: ignore[attr-defined]
