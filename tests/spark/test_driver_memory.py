"""Every step of the daily job on Spark, as verbs, while the graph grows eightfold: the driver holds what it held."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.spark.processes import CONF, Driver, running

pytestmark = pytest.mark.long

FEW = 150_000  # nodes; a copy of eight times as many ids, or numbers for each of them, would be seen
STEPS = ("ingest", "propagate", "train", "evaluate", "predict")
SET = ["propagation.hops=1", "propagation.label_hops=1", "model.hidden=4", "training.epochs=1",
       "training.batch_size=5000"]  # fmt: skip
PROCESSES = {"spark.driver.memory": "600m", "spark.executor.memory": "600m"}  # Spark refuses less than 450


def write_tables(folder: Path, nodes: int) -> tuple[Path, Path]:
    """Ids that are texts, three features, a label for every tenth node, and two edges a node."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    names = pa.array(10**9 + np.arange(nodes)).cast(pa.string())
    classes = random.integers(0, 20, nodes)
    columns = {f"x{at}": (classes == at) + random.normal(size=nodes).astype(np.float32) for at in range(3)}
    label = pa.array([f"class {number:02d}" for number in range(20)]).take(pa.array(classes))
    known = pc.if_else(pa.array(np.arange(nodes) % 10 == 0), label, pa.scalar(None, pa.string()))
    pq.write_table(pa.table({"id": names, **columns, "label": known}), folder / "nodes.parquet", row_group_size=50_000)
    ends = (names.take(pa.array(random.integers(0, nodes, 2 * nodes))) for _ in range(2))
    pq.write_table(pa.table(dict(zip(("src", "dst"), ends))), folder / "edges.parquet", row_group_size=50_000)
    return folder / "edges.parquet", folder / "nodes.parquet"


class Peak(threading.Thread):
    """The most anonymous memory that a process has, looked at all the time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status, self.most, self.ended = Path(f"/proc/{pid}/status"), 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            try:
                lines = self._status.read_text().splitlines()
                self.most = max(self.most, *(1024 * int(line.split()[1]) for line in lines if "RssAnon" in line))
            except (OSError, TypeError):
                return


def measured(folder: Path, *words: object) -> int:
    """Bytes that the driver's Python held at its most during a verb."""
    conf = [word for key, value in {**CONF, **PROCESSES}.items() for word in ("--spark-conf", f"{key}={value}")]
    place = ["--engine", "spark", "--master", "local[2]", *conf]
    with running(Driver([sys.executable, "-m", "gamlp.cli.main", *map(str, words), *place], folder)) as run:
        peak = Peak(run.process.pid)
        peak.start()
        run.process.wait(900)
        peak.ended.set()
        run.ends_well()
    return peak.most


def job(folder: Path, nodes: int) -> dict[str, int]:
    edges, table = write_tables(folder / "tables", nodes)
    graph, hops, run = (folder / name for name in ("graph", "hops", "run"))
    asked = [word for one in SET for word in ("--set", one)]
    words = {
        "ingest": ["ingest", "--edges", edges, "--nodes", table, "--out", graph, "--blocks", 4],
        "propagate": ["propagate", graph, "--out", hops, "--blocks", 4, *asked],
        "train": ["train", hops, "--out", run, "--processes", 2, *asked],
        "evaluate": ["evaluate", run],
        "predict": ["predict", run, "--out", folder / "predictions.parquet"],
    }
    return {step: measured(folder, *words[step]) for step in STEPS}


def test_what_the_driver_holds_does_not_grow_in_any_step(tmp_path: Path) -> None:
    few, many = (job(tmp_path / f"{times}", times * FEW) for times in (1, 8))
    growth = {step: round(many[step] / few[step], 3) for step in STEPS}
    print({step: (few[step] // 10**6, many[step] // 10**6) for step in STEPS}, growth)
    assert all(ratio < 1.1 for ratio in growth.values()), (growth, few, many)
