"""A driver as a process of its own: a run is evaluated by tasks in another process; its own memory at its most is told.

    python driver.py GRAPH RUN

Prints, as JSON, bytes of anonymous memory: before the evaluation, at its most, and the rows that were scored.
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
from gamlp.run import Resources, evaluate
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


def main() -> None:
    graph, run = (Path(place) for place in sys.argv[1:])
    resources_file.ENGINES["elsewhere"] = "tests.run.driver:ElsewhereEngine"
    opened, before, peak = Graph.open(graph), anonymous_memory(), Peak()
    peak.start()
    found = evaluate(RunFolder.open(run), own=opened, resources=Resources(device="cpu", engine="elsewhere"))
    peak.ended.set()
    peak.join()
    print(json.dumps({"before": before, "most": peak.most, "rows": found["rows"]}))


if __name__ == "__main__":
    main()
