"""A driver as a process of its own: SparkPropagator over a graph, its stages told line by line, faults by request.

    python driver.py GRAPH STORE [--master M] [--conf k=v …] [--gate STAGE FOLDER] [--cut STAGE FILE]

A gate holds all tasks of a stage but the first: each leaves a file named by its process and waits for `go`.
`--cut` truncates a file of the previous hop while a task of the stage has it mapped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Workers
from gamlp.progress import Progress
from gamlp.propagation import FeatureSignal, LabelSignal, Plan
from gamlp.spark.engine import SparkPropagator
from gamlp.spark.sessions import SparkSettings

PLAN = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2))
Work = Callable[[int], dict[str, Any]]


@dataclass(frozen=True)
class ToldEngine(SparkPropagator):
    """Says which tasks of which stage it asks for, and lets `fault` stand before their work."""

    fault: Callable[[str, Work], Work] = lambda stage, work: work

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(
                work: Work, numbers: Sequence[int], stage: str, progress: Progress, together: int = 1
            ) -> list[dict[str, Any]]:
                print(f"{stage}: {list(numbers)}", flush=True)  # each block in a task of its own, however small
                return workers.tasks(self.fault(stage, work), numbers, stage, progress)

            yield Workers(tasks, workers.slots)


def gate(folder: str, work: Work) -> Work:
    def waiting(number: int) -> dict[str, Any]:
        if number > 0:
            mark = Path(folder) / f".{uuid.uuid4().hex}"
            mark.write_text(f"{number}")
            mark.rename(Path(folder) / f"{os.getpid()}.{mark.name[-8:]}")
            ends = time.monotonic() + 180
            while not (Path(folder) / "go").exists() and time.monotonic() < ends:
                time.sleep(0.05)
        return work(number)

    return waiting


def cut(name: str, work: Work) -> Work:
    def cutting(number: int) -> dict[str, Any]:
        from gamlp.propagation.blocks import pull as block_pull

        opened = block_pull.open_rows

        def open_and_cut(place: Any) -> Any:
            values = opened(place)
            if place.url.endswith(name):
                os.truncate(place.url, 256)
            return values

        block_pull.open_rows = open_and_cut
        try:
            return work(number)
        finally:
            block_pull.open_rows = opened

    return cutting


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graph", type=Path)
    parser.add_argument("store")
    parser.add_argument("--master")
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--gate", nargs=2)
    parser.add_argument("--cut", nargs=2)
    options = parser.parse_args()

    def fault(stage: str, work: Work) -> Work:
        for asked, made in ((options.gate, gate), (options.cut, cut)):
            if asked is not None and asked[0] == stage:
                work = made(asked[1], work)
        return work

    engine = ToldEngine(options.blocks, settings=SparkSettings.of(options.master, options.conf), fault=fault)
    try:
        engine.propagate(Graph.open(options.graph), PLAN, options.store)
    except GamlpError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print("done", flush=True)


if __name__ == "__main__":
    main()
