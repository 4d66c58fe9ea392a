"""Ten recorded runs, drawn by a fixed seed from the quick ones, give today what the committed record says."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from gamlp.bench.cells import Cell, columns_of
from gamlp.bench.measure import is_special
from gamlp.bench.record import Record, as_report
from gamlp.bench.sparsity import changed_graph
from gamlp.bench.tables import NAMES, table_of
from gamlp.bench.work import Work, task_of
from gamlp.peers import Workspace, run
from gamlp.run.resources import Resources

RUNS = Path(__file__).parents[2] / "docs" / "results" / "bench" / "runs"
COUNT, MOST_SECONDS = 10, 5.0  # each, when it was recorded: ten take less than a minute
SEED = 21  # of the draw: the same on every machine and every day, until the record changes
FEWEST = 3  # seeds of a cell, so that its deviation is known


def quick(record: Record, data_dir: Path) -> list[tuple[Cell, float]]:
    """Current runs of cells whose data are at hand, with the deviation over seeds, in an order that stays."""
    found: dict[str, tuple[Cell, float]] = {}
    for name in NAMES:
        table = table_of(name)
        if is_special(table) or table.options.get("generated"):  # generated graphs are large
            continue
        for cell in columns_of(table, Work(Path(), data_dir, seeds=1)).cells:
            reports = record.reports(cell.recipe_key, cell.made)
            scores = [report["test"]["score"] for report in reports]
            for report in reports if len(reports) >= FEWEST else ():
                if sum(report["seconds"].values()) <= MOST_SECONDS:
                    one = replace(cell, seed=report["seed"])
                    found.setdefault("-".join(map(str, one.key)), (one, statistics.stdev(scores)))
    return [found[key] for key in sorted(found)]


@pytest.mark.slow
def test_ten_recorded_runs_come_out_again(data_dir: Path, tmp_path: Path) -> None:
    """The same seed on another processor, or with another number of threads, sums in another order, and training
    carries that on: at worst its score is that of another seed, whose difference has √2 times the deviation over
    seeds. Each run may be four of that apart (by chance once in 16,000, and at least half a point: few seeds may have
    the same score), and the mean of ten no more than four of its own error, which a method that changed would pass.
    """
    record = Record(RUNS)
    known = quick(record, data_dir)
    if len(known) < COUNT:
        pytest.skip(f"{len(known)} recorded runs are quick, current and of data at hand, and {COUNT} are wanted")
    apart = []
    for cell, deviation in random.Random(SEED).sample(known, COUNT):
        task = task_of(cell.dataset, cell.seed, data_dir, options=table_of(cell.table).options)
        if cell.change is not None and cell.point is not None:
            task = replace(task, graph=changed_graph(task.graph, cell.change, cell.point, cell.seed))
        report = run(task, cell.recipe, cell.seed, Workspace(tmp_path / "hops", Resources(threads=1, device="cpu")))
        line = record.line(cell.key)
        assert line is not None
        width = max(math.sqrt(2) * deviation, 0.005 / 4)
        apart.append((report.test["score"] - as_report(line)["test"]["score"]) / width)
        assert abs(apart[-1]) <= 4, f"{cell.name}, seed {cell.seed}: {report.test['score']}, recorded {line['test']}"
    assert abs(statistics.fmean(apart)) <= 4 / math.sqrt(COUNT)
