"""The local engine's bytes on every kind of Spark: local-cluster, standalone, spark-submit, Connect."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sockets import beyond_loopback, listening
from tests.spark.processes import CONF, Driver, driver, fingerprints, local_bytes, running, save_graph, wait_for
from tests.test_docs import environment, free_port

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")
ROOT = Path(__file__).parents[2]
BIN = Path(pyspark.__file__).parent / "bin"
SUBMIT = [str(BIN / "spark-submit"), *(word for key, value in CONF.items() for word in ("--conf", f"{key}={value}"))]
QUIET = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
HERE = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return save_graph(tmp_path_factory.mktemp("graph") / "graph")


@pytest.fixture(scope="module")
def expected(graph, tmp_path_factory):
    return local_bytes(graph, tmp_path_factory.mktemp("local") / "store")


@pytest.mark.long
def test_local_cluster_writes_the_local_bytes_and_leaves_nothing(graph, expected, tmp_path):
    before = sorted(BIN.parent.iterdir())
    with driver(tmp_path, graph, tmp_path / "store", master="local-cluster[2,1,1024]") as run:
        run.ends_well()
        assert fingerprints(tmp_path / "store") == expected
        assert run.left() == []
        assert sorted(BIN.parent.iterdir()) == before  # no work/app-… in the installed package
        assert [path.name for path in run.out.parent.iterdir() if path.name.startswith("gamlp-")] == []


@pytest.mark.long
def test_the_verb_through_spark_submit_to_a_standalone_master(cluster, graph, expected, tmp_path):
    """The master, and all options, are spark-submit's: the verb is told none."""
    import gamlp.cli.main

    store = str(tmp_path / "store")
    options = ["--hops", "3", "--label-hops", "2", "--engine", "spark", "--blocks", "3", "--out", store]
    verb = [gamlp.cli.main.__file__, "propagate", str(graph), *options]
    with running(Driver([*SUBMIT, *QUIET, "--master", cluster.address, *verb], tmp_path, HERE)) as run:
        run.ends_well()
        assert fingerprints(tmp_path / "store") == expected
        assert run.left() == []
    assert any(list((cluster.folder / worker).glob("app-*")) for worker in ("worker-1", "worker-2"))


@pytest.mark.long
def test_the_cluster_of_the_page_listens_on_loopback_alone(_spark_is_here, tmp_path, monkeypatch):
    """Its commands as they stand there, on other ports; nothing else is set."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)  # that a session in this process set
    page = (ROOT / "docs" / "spark.md").read_text()
    lines = [shlex.split(line) for line in page.splitlines() if "spark-class org.apache" in line]
    assert len(lines) == 3
    ports = {old: str(free_port()) for old in ("7177", "8177")}
    with ExitStack() as stack:
        started = []
        for number, line in enumerate(lines):
            given, words = environment(line)
            for old, new in ports.items():
                words = [word.replace(old, new) for word in words]
            command = [str(BIN / words[0]), *words[1:-1]]
            started.append(stack.enter_context(running(Driver(command, tmp_path / str(number), given))).process.pid)
            if not number:
                wait_for(lambda: any(port == int(ports["7177"]) for _, port in listening(started[0])), 90)
        wait_for(lambda: all(len(listening(pid)) >= 2 for pid in started), 90)  # each its own port, and its web page
        found = {pid: listening(pid) for pid in started}
    assert {pid: beyond_loopback(addresses) for pid, addresses in found.items()} == {pid: set() for pid in started}
    assert int(ports["8177"]) in {port for _, port in found[started[0]]}  # the master's page is among them


@pytest.fixture(scope="module")
def connect(_spark_is_here, tmp_path_factory):
    """A Spark Connect server on loopback."""
    for name in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"Spark Connect needs {name}: pip install 'pyspark[connect]'")
    settings = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    service = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    command = [*SUBMIT, *QUIET, *conf, "--master", "local[2]", *service]
    with running(Driver(command, tmp_path_factory.mktemp("connect"), HERE)) as server:
        started = re.compile(r"Spark Connect server started at: (?:\S*/)?(127\.0\.0\.1:\d+)")
        wait_for(lambda: bool(started.search(server.err.read_text())) or server.process.poll() is not None, 90)
        found = started.search(server.err.read_text())
        assert found, server.err.read_text()[-1000:]
        yield f"sc://{found[1]}"
        server.process.terminate()
        server.process.wait(30)


@pytest.mark.long
def test_connect_writes_the_local_bytes(connect, graph, expected, tmp_path):
    with driver(tmp_path, graph, tmp_path / "store", master=connect) as run:
        run.ends_well()
        assert len(run.stages()) == 7
        assert fingerprints(tmp_path / "store") == expected


VERBS = """
ingest --edges edges.csv --nodes nodes.csv --out graph
propagate graph --out hops --blocks 2
train hops --out run --processes 2 --set training.epochs=2 --set model.hidden=4
predict run --out predictions.parquet --threshold 0.3
run --edges edges.csv --nodes nodes.csv --out whole --set training.epochs=2 --set model.hidden=4
"""
ONE_AFTER_THE_OTHER = """
import sys
from gamlp.cli.main import app
for line in sys.argv[2].strip().splitlines():
    assert not app([*line.split(), "--engine", "spark", "--master", sys.argv[1]], standalone_mode=False), line
"""


@pytest.mark.long
def test_every_verb_runs_over_connect(connect, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"n{row},{row % 2},{row % 3}.5,{'ab'[row % 2]}" for row in range(60)]
    (tmp_path / "nodes.csv").write_text("id,x,y,label\n" + "\n".join(rows))
    edges = [f"n{row},n{(row * 7 + 3) % 60}" for row in range(60)]
    (tmp_path / "edges.csv").write_text("src,dst\n" + "\n".join(edges))
    with running(Driver([sys.executable, "-c", ONE_AFTER_THE_OTHER, connect, VERBS], tmp_path)) as run:
        run.ends_well()
    found = [pq.read_table(tmp_path / place / "predictions.parquet") for place in (".", "whole")]
    assert [len(table) for table in found] == [60, 60]


def test_a_connect_server_that_is_not_there_is_told(graph, tmp_path):
    with driver(tmp_path, graph, tmp_path / "store", master="sc://127.0.0.1:9") as run:
        assert "no Spark Connect server answers at sc://127.0.0.1:9" in run.ends_with_a_sentence()
