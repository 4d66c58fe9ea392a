"""Real processes die, disks fill, files are cut: every run ends in the local engine's bytes or in one sentence."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

import gamlp.io.locks
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions
from gamlp.io import Place
from gamlp.propagation import HopStore
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from gamlp.spark.prediction import write_spark_predictions
from tests.spark.driver import PLAN, ToldEngine
from tests.spark.graph_tables import random_tables
from tests.spark.processes import Gate, driver, files_in, fingerprints, local_bytes, save_graph, wait_for
from tests.spark.standalone import can_mount
from tests.spark.test_prediction import bundle_of, graph_of, hops_of, same

HOP = "hop 2 of 3"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return save_graph(tmp_path_factory.mktemp("graph") / "graph")


@pytest.fixture(scope="module")
def expected(graph, tmp_path_factory):
    return local_bytes(graph, tmp_path_factory.mktemp("local") / "store")


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


@contextmanager
def small_disk(place, size):
    """A file system of its own of so many bytes."""
    if os.geteuid() != 0 or not can_mount():
        pytest.skip("only root may mount a small disk")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def half_written(store):
    """Files that are neither whole nor gone."""
    return [name for name in files_in(Place.of(store)) if any(part.startswith(".") for part in Path(name).parts)]


def executor_of(worker: psutil.Process) -> psutil.Process:
    return next(process for process in worker.parents() if process.name() == "java")


# Processes


@pytest.mark.long
def test_an_executor_and_a_python_worker_that_are_killed_in_a_hop_are_replaced(
    cluster, graph, expected, tmp_path, gate
):
    store = tmp_path / "store"
    with driver(tmp_path, graph, store, "--gate", HOP, str(gate.folder), master=cluster.address) as run:
        first, second = gate.waiting(2)
        assert executor_of(first) != executor_of(second)
        executor_of(first).kill()
        second.kill()
        wait_for(lambda: "is lost, " in run.err.read_text(), 60)  # told while it runs
        gate.open()
        run.ends_well()
        assert fingerprints(store) == expected
        assert run.left() == []
        assert "failed so far; what failed is tried again" in run.err.read_text()


@pytest.mark.long
def test_after_a_killed_driver_the_next_one_goes_on(cluster, graph, expected, tmp_path, gate):
    """Block 0 of hop 2 is done when the driver dies: hop 1 and that block are not computed again."""
    store = tmp_path / "store"
    with driver(tmp_path, graph, store, "--gate", HOP, str(gate.folder), master=cluster.address) as run:
        gate.waiting()
        wait_for(lambda: list(store.glob("work/blocks-*/pass-*/hop2/00000.npy")) != [], 60)
        os.kill(run.process.pid, signal.SIGKILL)
        run.ends()
        assert run.left() == []  # its Java hands out tasks for a while yet: the gate stays shut till it is gone
        gate.open()
    assert not (store / "store.json").exists()
    with driver(tmp_path, graph, store, master=cluster.address) as run:
        run.ends_well()
        stages = run.stages()
    assert "hop 1 of 3" not in stages
    assert 0 not in stages[HOP] and 3 in stages[HOP]  # two tasks waited, so that the last one never began
    assert stages["hop 3 of 3"] == [0, 1, 2, 3]
    assert fingerprints(store) == expected


# Disks


@pytest.mark.long
def test_a_full_disk_is_told_and_after_room_is_made_the_run_goes_on(spark, graph, expected, tmp_path, capsys):
    with small_disk(tmp_path / "disk", "320k") as disk:
        with pytest.raises(GamlpError, match="no space left on the device"):
            ToldEngine(4).propagate(Graph.open(graph), PLAN, disk / "store")
        assert "hop 1 of 3: [0, 1, 2, 3]" in capsys.readouterr().out  # it had begun
        assert half_written(disk / "store") == []
        assert not (disk / "store" / "store.json").exists()
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        ToldEngine(4).propagate(Graph.open(graph), PLAN, disk / "store")
        assert "neighbours: []" in capsys.readouterr().out  # it went on
        assert fingerprints(disk / "store") == expected


@pytest.mark.long
def test_a_disk_that_fills_up_while_a_graph_is_built_is_told_and_nothing_stays(spark, tmp_path):
    edges, nodes = random_tables(4, "text", 3000, 9000).write(tmp_path / "tables", "parquet")

    def build(out):
        read = (read_table(spark, f"parquet:{table}") for table in (edges, nodes))
        return spark_graph(spark, *read, out / "graph", IngestOptions(), blocks=4)

    build(tmp_path)
    with small_disk(tmp_path / "disk", "200k") as disk:
        with pytest.raises(GamlpError, match="no space left on the device"):
            build(disk)
        assert list(disk.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        build(disk)
        assert fingerprints(disk / "graph") == fingerprints(tmp_path / "graph")


@pytest.mark.long
def test_a_disk_that_fills_up_while_predictions_are_written_is_told_and_nothing_stays(spark, tmp_path):
    graph, bundle = graph_of(tmp_path, "strings"), bundle_of()
    store = hops_of(graph, tmp_path)
    write_spark_predictions(spark, bundle, store, graph, tmp_path / "expected.parquet")
    with small_disk(tmp_path / "disk", "4k") as disk:
        with pytest.raises(GamlpError, match="no space left on the device"):
            write_spark_predictions(spark, bundle, store, graph, disk / "out.parquet")
        assert list(disk.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        write_spark_predictions(spark, bundle, store, graph, disk / "out.parquet")
        same(pq.read_table(disk / "out.parquet"), pq.read_table(tmp_path / "expected.parquet"))


@pytest.mark.long
def test_a_worker_whose_disk_is_full_is_passed_over(cluster, graph, expected, tmp_path):
    with small_disk(tmp_path / "disk", "4k") as disk:
        (disk / "full").write_bytes(b"x" * 4096)
        cluster.start_worker("full", work=disk)
        try:
            cluster.wait_for_workers(3)
            with driver(tmp_path, graph, tmp_path / "store", master=cluster.address) as run:
                run.ends_well()
            assert fingerprints(tmp_path / "store") == expected
            assert "No space left on device" in cluster.log("full")
        finally:
            cluster.stop_last()


@pytest.mark.long
def test_executors_that_cannot_see_the_storage_are_told(cluster, graph, tmp_path):
    if cluster.hidden is None:
        pytest.skip("only root may hide a folder from a process")
    with driver(tmp_path, graph, cluster.hidden / "store", master=cluster.address) as run:
        said = run.ends_with_a_sentence()
    assert "the executors cannot see this file of the driver's; give a folder that all machines share" in said
    assert str(cluster.hidden / "store") in said


# Files


def stopped_before(spark, graph, store, stage):
    """An unfinished store: the run is stopped where this stage would begin."""

    class Stopped(Exception):
        pass

    def stop(name, work):
        if name == stage:
            raise Stopped
        return work

    with pytest.raises(Stopped):
        ToldEngine(4, fault=stop).propagate(Graph.open(graph), PLAN, store)


def cut_to_half(path):
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("stage", "pattern"),
    [
        ("hop 3 of 3", "work/blocks-*/pass-*/hop2/00001.npy"),
        ("write features", "work/blocks-*/pass-*/hop1/00002.npy"),
        ("write labels", "features-*/00000.npy"),
        ("hop 1 of 3", "work/blocks-*/needs/00003.places.npy"),
    ],
    ids=["state", "state of a finished hop", "final shard", "needed rows"],
)
def test_a_file_that_was_cut_in_an_unfinished_store_is_made_anew(spark, graph, expected, tmp_path, stage, pattern):
    stopped_before(spark, graph, tmp_path / "store", stage)
    (found,) = (tmp_path / "store").glob(pattern)
    cut_to_half(found)
    ToldEngine(4).propagate(Graph.open(graph), PLAN, tmp_path / "store")
    assert fingerprints(tmp_path / "store") == expected
    assert HopStore.open(tmp_path / "store").damaged() == []


def test_a_file_that_is_cut_between_two_stages_is_named_and_mended_by_the_next_run(spark, graph, expected, tmp_path):
    store = tmp_path / "store"

    def cut(stage, work):
        if stage == HOP:
            cut_to_half(next(store.glob("work/blocks-*/pass-*/hop1/00002.npy")))
        return work

    with pytest.raises(GamlpError, match=r"hop1/00002\.npy"):
        ToldEngine(4, fault=cut).propagate(Graph.open(graph), PLAN, store)
    assert half_written(store) == []
    ToldEngine(4).propagate(Graph.open(graph), PLAN, store)
    assert fingerprints(store) == expected


@pytest.mark.long
def test_a_file_that_is_cut_while_it_is_read_is_named_and_mended_by_the_next_run(
    cluster, spark, graph, expected, tmp_path
):
    """A mapped file that shrinks kills the process that reads it; the next try tells."""
    store = tmp_path / "store"
    with driver(tmp_path, graph, store, "--cut", HOP, "hop1/00002.npy", master=cluster.address) as run:
        assert "hop1/00002.npy" in run.ends_with_a_sentence()
    assert not (store / "store.json").exists()
    ToldEngine(4).propagate(Graph.open(graph), PLAN, store)
    assert fingerprints(store) == expected


# Two drivers


@pytest.mark.long
@pytest.mark.parametrize("kind", ["folder", "object store"])
def test_a_second_driver_is_refused_and_the_first_ends_well(graph, expected, tmp_path, gate, kind, request):
    store = tmp_path / "store"
    if kind == "object store":
        store = f"{request.getfixturevalue('s3_bucket')}/two"
    with driver(tmp_path, graph, store, "--gate", HOP, str(gate.folder)) as first:
        gate.waiting()
        with driver(tmp_path, graph, store) as second:
            assert "another run is writing this store; wait for it to end" in second.ends_with_a_sentence()
            assert second.stages() == {}
        gate.open()
        first.ends_well()
    assert fingerprints(store) == expected


@pytest.mark.long
def test_a_lease_that_a_killed_driver_left_is_passed_over_when_it_is_stale(
    spark, graph, expected, tmp_path, gate, s3_bucket, monkeypatch
):
    store = f"{s3_bucket}/stale"
    with driver(tmp_path, graph, store, "--gate", HOP, str(gate.folder)) as run:
        gate.waiting()
        run.process.kill()
        run.ends()
        assert run.left() == []
        gate.open()
    with pytest.raises(GamlpError, match="another run is writing this store"):
        ToldEngine(4).propagate(Graph.open(graph), PLAN, store)
    monkeypatch.setattr(gamlp.io.locks, "STALE", 0.0)
    ToldEngine(4).propagate(Graph.open(graph), PLAN, store)
    assert fingerprints(store) == expected
    assert [name for name in Place.of(store).names() if name.startswith(".lock")] == []


# Memory


def test_too_little_memory_for_a_block_names_the_options(spark, graph, tmp_path):
    with pytest.raises(
        GamlpError, match=r"2 blocks need .* use --blocks \d+ or more, or give tasks more with --memory"
    ):
        ToldEngine(2, memory=20_000).propagate(Graph.open(graph), PLAN, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_task_that_gets_no_memory_names_the_options(spark, graph, expected, tmp_path):
    def starve(stage, work):
        def starving(number):
            held = psutil.Process().memory_info().vms
            limits = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (held - (1 << 20), limits[1]))  # the next allocation fails
            try:
                return work(number)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, limits)

        return starving if stage == HOP else work

    with pytest.raises(GamlpError, match="too little memory; use more blocks"):
        ToldEngine(1, fault=starve).propagate(Graph.open(graph), PLAN, tmp_path / "store")
    ToldEngine(1).propagate(Graph.open(graph), PLAN, tmp_path / "store")
    assert fingerprints(tmp_path / "store") == expected


def test_a_python_worker_that_is_killed_again_and_again_names_the_options(spark, graph, tmp_path):
    def die(stage, work):
        return (lambda number: os.kill(os.getpid(), signal.SIGKILL)) if stage == HOP else work

    with pytest.raises(GamlpError, match=r"Python worker died.* use more blocks \(--blocks\)"):
        ToldEngine(4, fault=die).propagate(Graph.open(graph), PLAN, tmp_path / "store")
    assert half_written(tmp_path / "store") == []
