"""An executor is lost in every step of a run on a cluster: the step ends with the bytes that it would have had."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from gamlp.graph.ingest import IngestOptions
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import Source, evaluate, predict, train
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from gamlp.training import RunFolder
from tests.run.test_scoring import same as same_scores
from tests.spark.graph_tables import random_tables
from tests.spark.processes import CONF, Driver, Gate, fingerprints, running, wait_for
from tests.spark.standalone import Standalone
from tests.spark.test_faults import executor_of
from tests.spark.test_prediction import same as same_rows
from tests.training.small import ONE_THREAD, RECIPE, make_graph, store_of

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
HELD = """
import pathlib, time
from torch import nn


class Held(nn.Module):
    \"\"\"Trains for some steps, and no further while the file `held` is there.\"\"\"

    def __init__(self, shape, *, held):
        super().__init__()
        self.map, self.held, self.steps = nn.Linear((shape.hops + 1) * shape.features, shape.classes), held, 0

    def forward(self, x, y=None):
        self.steps += self.training
        while self.steps > 40 and pathlib.Path(self.held).exists():
            time.sleep(0.01)
        return self.map(x.flatten(1))
"""
EPOCHS = 40


class Gates:
    """Gates of `gated.py`, one after the other; the executor of a task that waits at one is killed."""

    def __init__(self, folder: Path, asked: list[tuple[str, str]]) -> None:
        self.folder, self.gates = folder, list[Gate]()
        folder.mkdir()
        for number, (stage, function) in enumerate(asked):
            self.gates.append(Gate(folder / str(number)))
            (folder / str(number) / ".asked").write_text(f"{stage} {function}")

    def kill_at_each(self, run: Driver) -> None:
        for number, gate in enumerate(self.gates, 1):
            wait_for(lambda gate=gate: gate.waits() or run.process.poll() is not None, 300)
            (waiting,) = gate.waiting()
            executor_of(waiting).kill()
            tell_lost(run, number)
            gate.open()

    def open(self) -> None:
        for gate in self.gates:
            gate.open()


def tell_lost(run: Driver, times: int) -> None:
    """Until the run has told so many times, on its terminal, that an executor is lost."""
    wait_for(lambda: run.err.read_text().count(" is lost, ") >= times or run.process.poll() is not None, 60)


@contextmanager
def on_cluster(folder: Path, cluster: Standalone, *words: object, code: str = "") -> Iterator[Driver]:
    """A verb on the cluster."""
    conf = [word for key, value in CONF.items() for word in ("--spark-conf", f"{key}={value}")]
    place = ["--engine", "spark", "--master", cluster.address, *conf]
    command = [sys.executable, "-m", *map(str, words), *place]
    paths = ":".join([str(ROOT), code] if code else [str(ROOT)])
    with running(Driver(command, folder, {"PYTHONPATH": paths})) as run:
        yield run
        run.ends_well()
        assert run.left() == []


def lose_at(folder: Path, cluster: Standalone, asked: list[tuple[str, str]], *words: object) -> Driver:
    """A verb on the cluster, whose executors die at each of these gates."""
    gates = Gates(folder / "gates", asked)
    try:
        with on_cluster(folder, cluster, "tests.spark.gated", gates.folder, *words) as run:
            gates.kill_at_each(run)
    finally:
        gates.open()
    return run


IN_TASKS = "run_tasks.<locals>.answers"
READ, KEPT = "ParquetFiles.map.<locals>.run", "KeptFiles.map.<locals>.read"
STAGES = [
    ("nodes", READ), ("fit", KEPT), ("fit", "fit_columns.<locals>.merge"), ("ids", "sort_ids.<locals>.sort"),
    ("features", KEPT), ("features", "write_nodes.<locals>.write"), ("labels", IN_TASKS),
]  # fmt: skip
EDGES = {
    "a task holds all ids": [("edges", READ), ("edges", "EdgeBuild.build.<locals>.build")],
    "ids travel": [
        ("edges", READ), ("edges", "with_rows.<locals>.answer"), ("edges", "with_rows.<locals>.put"),
        ("edges", "EdgeBuild.build.<locals>.build"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", EDGES)
def test_executors_that_are_lost_in_ingest(cluster: Standalone, spark: Any, tmp_path: Path, way: str) -> None:
    """One in each stage: before a task of it has begun, and where the one before has left what it sends on its disk."""
    tables = random_tables(4, "text", 1000, 6000, weighted=True).shuffled(1)
    edges, nodes = tables.write(tmp_path / "tables", "parquet")
    (tmp_path / "gates.travel").touch() if way == "ids travel" else None
    read = (read_table(spark, table) for table in ("parquet:" + str(edges), "parquet:" + str(nodes)))
    spark_graph(spark, *read, tmp_path / "unbroken" / "graph", IngestOptions(), blocks=4)
    words = ["ingest", "--edges", f"parquet:{edges}", "--nodes", f"parquet:{nodes}", "--blocks", 4]
    lose_at(tmp_path, cluster, STAGES + EDGES[way], *words, "--out", tmp_path / "made" / "graph")
    assert fingerprints(tmp_path / "made" / "graph") == fingerprints(tmp_path / "unbroken" / "graph")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["graph"], "what waited in files is gone"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("lost")
    graph = make_graph(nodes=900).save(folder / "graph")
    assert isinstance(graph.folder, Path)
    return train(graph.folder, RECIPE, folder / "run", resources=ONE_THREAD).run


def test_an_executor_that_is_lost_while_it_predicts(cluster: Standalone, run: RunFolder, tmp_path: Path) -> None:
    predict(run.path, tmp_path / "expected.parquet", resources=ONE_THREAD)
    lose_at(tmp_path, cluster, [("predict", IN_TASKS)], "predict", run.path, "--out", tmp_path / "found.parquet")
    same_rows(pq.read_table(tmp_path / "found.parquet"), pq.read_table(tmp_path / "expected.parquet"))
    assert [path.name for path in (tmp_path / "found.parquet").iterdir() if path.name.startswith(".")] == []


def test_an_executor_that_is_lost_while_it_scores(cluster: Standalone, run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    evaluate(run, resources=ONE_THREAD)
    lose_at(tmp_path, cluster, [("survey", IN_TASKS), ("score", IN_TASKS)], "evaluate", tmp_path / "run")
    found, expected = RunFolder(tmp_path / "run").evaluation(), run.evaluation()
    assert found is not None
    same_scores(found, expected)
    assert not [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".tally")]


def executors() -> list[psutil.Process]:
    """Of all clusters that this process started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
    return found


@pytest.mark.parametrize("exchange", ["all-reduce", "server"])
def test_an_executor_that_is_lost_while_it_trains(cluster: Standalone, tmp_path: Path, exchange: str) -> None:
    """With all-reduce to the same bytes; with a parameter server every epoch once."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "held_model.py").write_text(HELD)
    held = tmp_path / "held"
    store = store_of(make_graph(nodes=200), tmp_path / "hops", RECIPE)
    assert isinstance(store, HopStore)
    settings = {"model.name": "held_model:Held", "training.epochs": EPOCHS, "training.exchange": exchange,
                "training.batch_size": 20, "model.options": {"held": str(held)}}  # fmt: skip
    sys.path.insert(0, str(tmp_path / "code"))
    try:
        written = RECIPE.changed(settings, trust="held_model:Held").to_yaml()
        (tmp_path / "recipe.yaml").write_text(written)
        recipe = Recipe.of(tmp_path / "recipe.yaml", trust="held_model:Held")
        source = Source("small", None, store=store)
        two = replace(ONE_THREAD, processes=2)
        alone = train(source, recipe, tmp_path / "expected", trust="held_model:Held", resources=two).run
    finally:
        sys.path.remove(str(tmp_path / "code"))
    held.touch()
    words = ["train", tmp_path / "hops", "--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / "run"]
    trained = RunFolder(tmp_path / "run", trust="held_model:Held")
    options = ["--trust", "held_model:Held", "--processes", 2, "--threads", 1]
    with on_cluster(tmp_path, cluster, "gamlp.cli.main", *words, *options, code=str(tmp_path / "code")) as run:
        wait_for(lambda: len(trained.metrics()) >= 2 or run.process.poll() is not None, 300)
        before = len(trained.metrics())
        assert 2 <= before < EPOCHS
        executors()[0].kill()
        tell_lost(run, 1)
        held.unlink()
    assert [line["epoch"] for line in trained.metrics()] == list(range(1, EPOCHS + 1))
    if exchange == "all-reduce":
        assert "restart 1 of" in run.err.read_text()
        assert trained.seed_path(0).read_bytes() == alone.seed_path(0).read_bytes()
    else:
        found, expected = (one.bundles()[0].valid["score"] for one in (trained, alone))
        assert found == pytest.approx(expected, abs=0.1)
