"""A test that starts all that tests start and waits to be stopped; `test_stopping.py` runs it, nobody else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil

from tests.spark.processes import Gate, driver, save_graph
from tests.spark.standalone import Standalone
from tests.training.ranks.test_processes import LONG, start
from tests.training.small import make_graph, store_of


def test_waits(spark: Any, cluster: Standalone, s3_endpoint: str | None, tmp_path: Path) -> None:
    """Spark in this process, a cluster with a driver at work, an object store, and training in two processes."""
    assert spark.range(2).count() == 2
    store_of(make_graph(), tmp_path / "hops", LONG)
    start(tmp_path / "hops", tmp_path / "run", "--set", "training.epochs=100000")
    gate, graph = Gate(tmp_path / "gate"), save_graph(tmp_path / "graph")
    with driver(tmp_path, graph, tmp_path / "store", "--gate", "hop 2 of 3", str(gate.folder), master=cluster.address):
        gate.waiting()
        names = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
        Path(os.environ["GAMLP_TEST_READY"]).write_text("\n".join(names))
        time.sleep(600)
