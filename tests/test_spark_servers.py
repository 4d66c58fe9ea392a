"""Parameter servers as tasks of Spark, without Spark: tasks are threads here; with it, tests/spark/test_served.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.spark import served
from gamlp.spark.served import LostSlices, SliceTasks, launch_spark_served, own_address
from gamlp.training.ranks.job import TrainingJob
from gamlp.training.rows import Prepared
from gamlp.training.server.checkpoint_sets import CheckpointSets
from gamlp.training.server.client import Client
from gamlp.training.server.process import run_of, settings_of
from gamlp.training.server.service import SliceService
from gamlp.training.server.slice_server import SliceServer
from gamlp.training.server.worker import ServedWorld
from tests.training.small import make_graph, prepared_in

EPOCHS = 30


class TaskThreads:
    """What `run_tasks` asks of Spark: a job that fails as soon as one of its tasks does."""

    conf = SimpleNamespace(get=lambda key, usual: "local[8]" if key == "spark.master" else usual)

    def range(self, begin: int, end: int, step: int, tasks: int) -> TaskThreads:
        self.count = end
        return self

    def mapInArrow(self, run: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Any:
        count = self.count

        def task(place: int) -> dict[str, Any]:
            (found,) = run(iter([pa.record_batch({"id": pa.array([place])})]))
            return {"place": place, "answer": found.column("answer")[0].as_py()}

        def collect() -> list[dict[str, Any]]:
            with ThreadPoolExecutor(count) as together:
                return list(together.map(task, range(count)))

        return SimpleNamespace(collect=collect)


def job_in(folder: Path, servers: int, **changes: Any) -> TrainingJob:
    prepared: Prepared = prepared_in(
        folder, make_graph(), training__exchange="server", training__servers=servers, training__epochs=EPOCHS,
        training__batch_size=7, **changes,
    )  # fmt: skip
    return TrainingJob.of(
        prepared, 0, folder / "checkpoint", Place.of(folder), checkpoint_seconds=0.0, device="cpu", threads=1
    )


@pytest.mark.slow
def test_slices_are_tasks_and_lost_ones_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks of the slices are lost once, in the third epoch; training goes on from what all had written."""
    job = job_in(tmp_path, 2)
    lines: list[dict[str, Any]] = []
    lost, begun = threading.Event(), list[int]()

    def serve_slice(job: TrainingJob, number: int, world: ServedWorld, host: str, tls: Any) -> None:
        assert host == "127.0.0.1"
        begun.append(number)
        first = begun.count(number) == 1
        server = SliceServer(run_of(job), settings_of(job), number, CheckpointSets(Place.of(job.checkpoint), 2))
        service, client = SliceService(server, world.token, host, tls=tls), Client(world)
        server.attend(service.address, client.say, lost if first else threading.Event())
        service.shutdown()
        client.close()
        if first:
            raise RuntimeError("ExecutorLostFailure (executor 1 exited)")

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] >= 3 and CheckpointSets(Place.of(job.checkpoint), 2).last():
            lost.set()

    monkeypatch.setattr(served, "serve_slice", serve_slice)
    with pytest.warns(UserWarning, match="parameter servers were lost .*: restart 1 of 3"):
        facts, weights = launch_spark_served(job, TaskThreads(), 2, observe=observe)
    assert sorted(begun) == [1, 1, 2, 2]
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    assert facts["epochs"] == EPOCHS and facts["valid"]["score"] > 0.6 and weights


@pytest.mark.slow
def test_slices_that_do_not_come_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve_slice(*_: Any) -> None:
        raise RuntimeError("ExecutorLostFailure (executor 1 exited)")

    monkeypatch.setattr(served, "serve_slice", serve_slice)
    told = "2 tasks of parameter servers did not come .*; use fewer --servers"
    with pytest.warns(UserWarning, match="restart 1 of 1"), pytest.raises(GamlpError, match=told):
        launch_spark_served(job_in(tmp_path, 2), TaskThreads(), 2, retries=1)


@pytest.mark.parametrize(
    ("heard", "ended"),
    [
        ([{"slices": 2, "updates": 7}] * 9, False),
        ([{"slices": 1, "updates": 7}] * 9, True),
        ([{"slices": 1, "updates": number} for number in range(9)], False),
        ([{"slices": 2, "updates": 7} if number % 4 == 3 else {} for number in range(9)], False),
    ],
    ids=["all there", "one is lost", "one writes for long", "all come back"],
)
def test_workers_make_room_for_slices_that_are_lost(
    monkeypatch: pytest.MonkeyPatch, heard: list[dict[str, int]], ended: bool
) -> None:
    monkeypatch.setattr(served, "_BETWEEN", 0.0)
    answers = iter(heard)
    server: Any = SimpleNamespace(counts=lambda within: next(answers))
    slices = SliceTasks(TaskThreads(), "", server, None, 2, 0)
    with pytest.raises(LostSlices) if ended else nullcontext(), pytest.warns() if ended else nullcontext():
        for _ in heard:
            slices.look()


def test_a_server_that_has_no_room_for_its_slices_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(served.check_room.__globals__, "_slots", lambda _: lambda: 2)
    told = r"3 tasks of parameter servers and of training must run at once, and Spark has room for 2"
    with pytest.raises(GamlpError, match=told):
        launch_spark_served(job_in(tmp_path, 2), TaskThreads(), 2, wait=0.0)


def test_a_task_listens_on_the_address_that_has_a_way_to_the_parameter_server() -> None:
    assert own_address("127.0.0.1:4711") == "127.0.0.1"
