"""A driver as a process of its own, whose tasks are in other processes; its own memory at its most is told.

    python driver.py evaluate GRAPH RUN
    python driver.py train STORE RUN

Prints, as JSON, bytes of anonymous memory: before the step, at its most; and the rows that were scored or trained on.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gamlp.graph import Graph
from gamlp.io import Place, Ranges, RangeWork, anonymous_memory, tally_by_tasks
from gamlp.progress import Progress
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import Resources, Source, evaluate, train
from gamlp.run import resources as resources_file
from gamlp.run.engine import LocalEngine
from gamlp.training import RunFolder


class ElsewhereEngine(LocalEngine):
    """Ranges are counted in another process."""

    def tally(self, beside: Any, work: RangeWork, ranges: Ranges, stage: str = "", progress: Any = None) -> Any:
        return tally_by_tasks(in_another_process, Place.of(beside), work, ranges, stage, most_tasks=4)


def in_another_process(
    work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, progress: Progress, together: int = 1
) -> list[dict[str, Any]]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(partial(_run, pickle.dumps(work)), numbers)


def _run(work: bytes, number: int) -> dict[str, Any]:
    found: dict[str, Any] = pickle.loads(work)(number)
    return found


class Peak(threading.Thread):
    """Looks at this process's memory all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.002):
            self.most = max(self.most, anonymous_memory())


RECIPE = Recipe.of(
    {
        "propagation": {"hops": 1, "label_hops": 0},
        "model": {"hidden": 4, "layers": 1, "beta": 0.0},
        "training": {"epochs": 1, "batch_size": 50_000, "patience": 0},
    }
)


def evaluated(graph: Path, run: Path) -> int:
    resources = Resources(device="cpu", engine="elsewhere")
    rows: int = evaluate(RunFolder.open(run), own=Graph.open(graph), resources=resources)["rows"]
    return rows


def trained(store: Path, run: Path) -> int:
    """By two processes; their memory is theirs."""
    source = Source("grown", None, store=HopStore.open(store))
    resources = Resources(device="cpu", engine="elsewhere", processes=2, threads=2, memory=1 << 30)
    bundles = train(source, RECIPE, run, resources=resources).bundles
    assert "calibration" in bundles[0].report
    rows: int = bundles[0].report["train_rows"]
    return rows


def main() -> None:
    step, *places = sys.argv[1:]
    resources_file.ENGINES["elsewhere"] = "tests.run.driver:ElsewhereEngine"
    before, peak = anonymous_memory(), Peak()
    peak.start()
    rows = {"evaluate": evaluated, "train": trained}[step](*map(Path, places))
    peak.ended.set()
    peak.join()
    print(json.dumps({"before": before, "most": peak.most, "rows": rows}))


if __name__ == "__main__":
    main()
