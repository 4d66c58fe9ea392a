"""A test that starts all that tests start and waits to be stopped; `test_stopping.py` runs it, nobody else."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.spark.processes import Gate, driver, save_graph, wait_for
from tests.spark.standalone import Standalone
from tests.training.ranks.test_processes import LONG, start
from tests.training.small import make_graph, store_of

NAMES = ("master.Master", "worker.Worker", "moto.server", "pyspark", "ranks.job", "driver.py")


def test_waits(spark: Any, cluster: Standalone, s3_endpoint: str | None, tmp_path: Path) -> None:
    """Spark in this process, a cluster with a driver at work, an object store, and training in two processes."""
    assert spark.range(2).count() == 2
    store_of(make_graph(), tmp_path / "hops", LONG)
    gate, graph = Gate(tmp_path / "gate"), save_graph(tmp_path / "graph")
    options = ["--gate", "hop 2 of 3", str(gate.folder)]
    with driver(tmp_path, graph, tmp_path / "store", *options, master=cluster.address):
        gate.waiting()
        with start(tmp_path / "hops", tmp_path / "run", "--set", "training.epochs=1000000"):
            wait_for(lambda: all(any(name in words for words in commands()) for name in NAMES), 100)
            Path(os.environ["GAMLP_TEST_READY"]).touch()
            time.sleep(600)


def commands() -> list[str]:
    """Of all that this process started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            found.append(" ".join(child.cmdline()))
    return found
