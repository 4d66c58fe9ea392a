"""Every step on Spark over a store that is slow and loses one call in fifty: the right bytes, or one sentence."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions
from gamlp.propagation import HopStore, LocalPropagator, Plan
from gamlp.recipe import Recipe
from gamlp.run import Source, evaluate, predict, train
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from gamlp.training import RunFolder, plan_of
from tests.run.test_scoring import same as same_scores
from tests.spark.graph_tables import random_tables
from tests.spark.processes import CONF, Driver, fingerprints, running
from tests.spark.test_prediction import same as same_rows
from tests.training.small import ONE_THREAD

pytestmark = pytest.mark.long

MOST = 10  # goes of a step
RECIPE = Recipe.of(
    {
        "propagation": {"hops": 2, "label_hops": 1},
        "model": {"hidden": 4},
        "training": {"epochs": 3, "batch_size": 100, "patience": 0},
    }
)
POINTS = "[fsspec.specs]\ngs = faulty_store:FaultyStore\n"


class Store:
    """What lies behind gs://, and the processes that ask it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "store"
        self.root.mkdir()
        packages = folder / "packages"
        (packages / "faulty-1.0.dist-info").mkdir(parents=True)
        (packages / "faulty-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0")
        (packages / "faulty-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
        shutil.copy(Path(__file__).parent / "faulty_store.py", packages)
        self.environment = {"PYTHONPATH": str(packages), "FAULTY_ROOT": str(self.root)}

    @property
    def failed(self) -> int:
        found = Path(f"{self.root}.failed")
        return found.stat().st_size if found.exists() else 0

    def does(self, *words: object) -> None:
        """A verb, given again while the store cannot be reached: it ends well, or with that sentence."""
        conf = [word for key, value in CONF.items() for word in ("--spark-conf", f"{key}={value}")]
        command = [
            sys.executable,
            "-m",
            "gamlp.cli.main",
            *map(str, words),
            "--engine",
            "spark",
            "--master",
            "local[2]",
        ]
        before = self.failed
        for _ in range(MOST):
            with running(Driver([*command, *conf], self.folder, self.environment)) as run:
                run.process.wait(900)
                if run.ends() == 0:
                    assert self.failed > before, f"no call of {words[0]} has failed"
                    return
                said = run.err.read_text().strip().splitlines()[-1]
                assert run.process.returncode == 2 and "cannot be reached (" in said and "Traceback" not in said, said
        pytest.fail("it never came to an end")


def test_every_step_over_a_store_that_loses_calls(spark: Any, tmp_path: Path) -> None:
    store = Store(tmp_path)
    edges, nodes = random_tables(4, "text", 600, 2500).write(tmp_path / "tables", "parquet")
    tables = f"parquet:{edges}", f"parquet:{nodes}"
    store.does("ingest", "--edges", tables[0], "--nodes", tables[1], "--out", "gs://b/graph", "--blocks", 4)
    read = (read_table(spark, table) for table in tables)
    spark_graph(spark, *read, tmp_path / "graph", IngestOptions(), blocks=4)
    assert fingerprints(store.root / "b" / "graph") == fingerprints(tmp_path / "graph")

    (tmp_path / "recipe.yaml").write_text(RECIPE.to_yaml())
    asked = ["--recipe", tmp_path / "recipe.yaml"]
    store.does("propagate", "gs://b/graph", "--out", "gs://b/hops", "--blocks", 4, *asked)
    plan: Plan = plan_of(RECIPE)
    hops = LocalPropagator(threads=1).propagate(Graph.open(tmp_path / "graph"), plan, tmp_path / "hops")
    made, expected = (fingerprints(folder) for folder in (store.root / "b" / "hops", tmp_path / "hops"))
    assert made.pop("store.json") != expected.pop("store.json"), "it says where the graph is"
    assert made == expected

    store.does("train", "gs://b/graph", "--out", "gs://b/run", "--blocks", 4, "--resume", *asked)
    source = Source("graph", None, Graph.open(tmp_path / "graph"))
    run = train(source, Recipe.of(tmp_path / "recipe.yaml"), tmp_path / "run", resources=ONE_THREAD).run
    found = RunFolder(store.root / "b" / "run")
    assert found.seed_path(0).read_bytes() == run.seed_path(0).read_bytes()
    assert isinstance(hops, HopStore)

    trusted = ["--trust", "gs://b/graph"]
    store.does("evaluate", "gs://b/run", *trusted)
    evaluate(run, own=source.graph, resources=ONE_THREAD)
    same_scores(found.evaluation(), run.evaluation())
    store.does("predict", "gs://b/run", "--out", tmp_path / "found.parquet", *trusted)
    predict(run.path, tmp_path / "expected.parquet", own=source.graph, resources=ONE_THREAD)
    same_rows(pq.read_table(tmp_path / "found.parquet"), pq.read_table(tmp_path / "expected.parquet"))
    assert store.failed > 20
