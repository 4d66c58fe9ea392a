"""Training inside Spark: a barrier stage trains what processes here train, with code that executors never saw."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.run.training import train
from gamlp.spark import training
from gamlp.spark.training import launch_spark
from gamlp.training.loop import Machine
from gamlp.training.ranks.job import TrainingJob
from gamlp.training.ranks.launch import launch_processes
from gamlp.training.ranks.world import LOOPBACK
from gamlp.training.rows import Prepared
from gamlp.training.seeds import fit_prepared
from tests.training.small import ONE_THREAD, RECIPE, make_graph, prepared_in, same_weights

MINE = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.first, self.norm = nn.Linear((shape.hops + 1) * shape.features, 8), nn.BatchNorm1d(8)
        self.last = nn.Linear(8, shape.classes)

    def forward(self, x, y=None):
        found = torch.dropout(torch.relu(self.norm(self.first(x.flatten(1)))), 0.5, self.training)
        return self.last(found)
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """A model in a folder that only this process searches."""
    code = tmp_path_factory.mktemp("code")
    (code / "spark_model.py").write_text(MINE)
    sys.path.insert(0, str(code))
    changes = {"model__name": "spark_model:Mine", "training__epochs": 40, "training__batch_size": 7}
    try:
        yield prepared_in(tmp_path_factory.mktemp("hops"), make_graph(), **changes)
    finally:
        sys.path.remove(str(code))
        sys.modules.pop("spark_model", None)


@pytest.fixture(scope="module")
def by_processes(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("processes")
    return launch_processes(job_in(folder, prepared), 2, log=folder / "log")


def job_in(folder: Path | Place, prepared: Prepared, **settings: Any) -> TrainingJob:
    place = Place.of(folder)
    options = {"checkpoint_seconds": 0.0, "device": "cpu", "threads": 1, **settings}
    return TrainingJob.of(prepared, 0, place / "0.checkpoint", place, **options)


def ranks() -> list[psutil.Process]:
    """Workers of this process's Spark that are in a process group: there each listens to the others."""
    return [worker for worker in python_workers() if listening(worker)]


def listening(process: psutil.Process) -> list[str]:
    """Addresses on which a process listens."""
    return [found.laddr.ip for found in process.net_connections("tcp") if found.status == psutil.CONN_LISTEN]


@pytest.fixture(scope="module")
def here(prepared: Prepared) -> Any:
    fitted = fit_prepared(prepared, 0, Machine(torch.device("cpu")))
    told = ("epoch", "epochs", "valid", "stopped", "solved")
    return {name: getattr(fitted, name) for name in told}, fitted


def test_one_process_trains_in_a_task_what_is_trained_here(
    spark: Any, prepared: Prepared, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "run_in_barrier", None)
    killed: list[int] = []
    lines: list[dict[str, Any]] = []

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] >= 3 and not killed:
            killed.extend(worker.pid for worker in python_workers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    facts, weights = launch_spark(job_in(tmp_path, prepared), spark, 1, observe=observe)
    assert killed and facts == here[0] and same_weights(weights, here[1].weights)
    assert [line["epoch"] for line in lines] == list(range(1, 41))


def test_stages_with_consistency_are_those_of_one_machine(spark: Any, tmp_path: Path) -> None:
    """Hops of a stage's labels by tasks, from what the teacher said; training in a task: the same bytes."""
    recipe = RECIPE.changed(
        {"training.stages": 2, "training.reliable": 0.5, "consistency": {"batch_size": 8}, "propagation.folds": 2}
    )
    make_graph().save(tmp_path / "graph")
    for name, resources in (("here", ONE_THREAD), ("there", replace(ONE_THREAD, engine="spark"))):
        train(tmp_path / "graph", recipe, tmp_path / name, resources=resources)
    for stage in (0, 1):
        here, there = (
            tmp_path / name / "stages" / str(stage) / "seeds" / "0.safetensors" for name in ("here", "there")
        )
        assert here.read_bytes() == there.read_bytes(), stage


def python_workers() -> list[psutil.Process]:
    """Of this process's Spark: what its daemons forked; there are several, and one may have nothing to do."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and all("pyspark.daemon" in one.cmdline() for one in (process, parent)):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.long
def test_a_barrier_stage_trains_what_processes_train_quietly(
    spark: Any, prepared: Prepared, by_processes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines: list[dict[str, Any]] = []
    shown: list[float] = []
    addresses: set[str] = set()

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] == 20:
            addresses.update(address for rank in ranks() for address in listening(rank))

    facts, weights = launch_spark(
        job_in(tmp_path, prepared), spark, 2,
        observe=observe, progress=lambda stage, done, *_: shown.append(done),
    )  # fmt: skip
    assert addresses == {LOOPBACK}
    assert facts == by_processes[0] and same_weights(weights, by_processes[1])
    assert [line["epoch"] for line in lines] == shown == list(range(1, 41))
    assert capfd.readouterr() == ("", "")


def test_kill_9_of_a_rank_is_tried_again_and_ends_with_the_same_weights(
    spark: Any, prepared: Prepared, by_processes: Any, tmp_path: Path
) -> None:
    killed: list[int] = []
    lines: list[dict[str, Any]] = []

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] >= 3 and not killed and (alive := ranks()):
            killed.append(alive[0].pid)
            os.kill(alive[0].pid, signal.SIGKILL)

    # Epochs are told while they are trained, so that the kill comes in the middle.
    facts, weights = launch_spark(job_in(tmp_path, prepared), spark, 2, observe=observe)
    assert killed and facts == by_processes[0] and same_weights(weights, by_processes[1])
    assert [line["epoch"] for line in lines] == list(range(1, 41))


@pytest.mark.long
def test_two_processes_end_where_one_would_but_for_rounding(spark: Any, tmp_path: Path) -> None:
    """Without dropout: its random numbers differ by process."""
    prepared = prepared_in(tmp_path, make_graph(), model__dropout=0.0, training__epochs=40, training__batch_size=7)
    for processes in (1, 2):
        (tmp_path / str(processes)).mkdir()
    (_, one), (_, two) = (
        launch_spark(job_in(tmp_path / str(processes), prepared), spark, processes) for processes in (1, 2)
    )
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_what_a_person_can_mend_is_told_as_itself(spark: Any, prepared: Prepared, tmp_path: Path) -> None:
    job = job_in(tmp_path, prepared)
    broken = job.model_copy(update={"store": str(tmp_path / "nowhere")})
    with pytest.raises(GamlpError, match=r"nowhere: not a store \(no store\.json\)"):
        launch_spark(broken, spark, 1)


def test_more_processes_than_spark_has_room_for_are_refused_at_once(
    spark: Any, prepared: Prepared, tmp_path: Path
) -> None:
    with pytest.raises(GamlpError, match=r"3 training processes must run at once, and Spark has room for 2; use fewer"):
        launch_spark(job_in(tmp_path, prepared), spark, 3)


def test_checkpoint_result_and_metrics_may_lie_in_an_object_store(
    spark: Any, prepared: Prepared, here: Any, s3_bucket: str
) -> None:
    place, lines = Place.of(s3_bucket) / "training", list[dict[str, Any]]()
    facts, weights = launch_spark(job_in(place, prepared), spark, 1, observe=lines.append)
    assert facts == here[0] and same_weights(weights, here[1].weights)
    assert [line["epoch"] for line in lines] == list(range(1, 41))
    assert {"0.checkpoint", "metrics.jsonl", "result.safetensors"} <= set(place.names())
