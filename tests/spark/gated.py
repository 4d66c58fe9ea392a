"""A verb of `gamlp` as a process of its own, whose tasks wait at gates, so that what runs them can be killed there.

    python -m tests.spark.gated FOLDER VERB … OPTIONS

Every folder in FOLDER is a gate, and its file `.asked` says which: `STAGE FUNCTION`. While that stage runs, a task
whose function is called so leaves a file named by its process there, and waits for the file `go`. Tables are cut into
small parts, so that few rows are several tasks; with a file FOLDER.travel no task may hold all ids.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql.classic.dataframe import DataFrame

from gamlp.spark import tasks

_LONGEST = 180.0  # seconds that a task waits


def asked(gate: Path) -> tuple[str, str]:
    stage, function = (gate / ".asked").read_text().split()
    return stage, function


def gated(work: Callable[[Any], Any], root: Path) -> Callable[[Any], Iterator[Any]]:
    name = work.__qualname__

    def run(rows: Any) -> Iterator[Any]:
        for gate in sorted(root.iterdir()):
            if (gate / ".armed").exists() and name.endswith(asked(gate)[1]):
                mark = gate / f".{uuid.uuid4().hex}"
                mark.touch()
                mark.rename(gate / f"{os.getpid()}.{mark.name[-8:]}")
                ends = time.monotonic() + _LONGEST
                while not (gate / "go").exists() and time.monotonic() < ends:
                    time.sleep(0.05)
        yield from work(rows)

    return run


def put_gates(root: Path) -> None:
    """Before all functions of tasks, in what Spark is given."""
    plain_status, plain_frame, plain_rdd = tasks.status, DataFrame.mapInArrow, RDD.mapPartitions

    @contextmanager
    def status(spark: Any, stage: str, *rest: Any, **named: Any) -> Iterator[None]:
        of_stage = [gate for gate in root.iterdir() if asked(gate)[0] == stage]
        for gate in of_stage:
            (gate / ".armed").touch()
        try:
            with plain_status(spark, stage, *rest, **named):
                yield
        finally:
            for gate in of_stage:
                (gate / ".armed").unlink()

    def map_in_arrow(frame: Any, work: Any, *rest: Any, **named: Any) -> Any:
        return plain_frame(frame, gated(work, root), *rest, **named)

    def map_partitions(rdd: Any, work: Any, *rest: Any, **named: Any) -> Any:
        return plain_rdd(rdd, gated(work, root), *rest, **named)

    tasks.status = status
    DataFrame.mapInArrow = map_in_arrow
    RDD.mapPartitions = map_partitions


def cut_small(travel: bool) -> None:
    """Several tasks for few rows."""
    from gamlp.propagation.store import store
    from gamlp.spark.ingest import edges, nodes, parquet, rounds

    parquet._LEAST = parquet._PART = 1
    nodes.IDS_PER_TASK = 200
    if travel:
        edges.FILE_EDGES, rounds.TABLE_BYTES = 1000, 0
    store.RANGE_BYTES = 1 << 14


def main() -> None:
    root = Path(sys.argv[1])
    put_gates(root)
    cut_small(root.with_suffix(".travel").exists())
    from gamlp.cli.main import main as gamlp

    sys.argv[:2] = ["gamlp"]
    gamlp()


if __name__ == "__main__":
    main()
