"""Ranks in a barrier stage, without Spark: where they meet, and what a task imports before it says so."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from gamlp.spark import barrier, training
from gamlp.training import World

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")

OPENED = """
import pickle, sys
function = pickle.loads(sys.stdin.buffer.read())
heavy = [name for name in ("torch", "numpy", "pyarrow", "pandas") if name in sys.modules]
assert not heavy, f"opening the function of a task imports {heavy}"
"""


class Context:
    """What a task knows of its stage: `hosts[rank]`, and what the others say."""

    def __init__(self, rank: int, hosts: list[str], said: list[str], all_said: threading.Barrier) -> None:
        self.rank, self.said, self.all_said = rank, said, all_said
        self.infos = [SimpleNamespace(address=f"{host}:400{number}") for number, host in enumerate(hosts)]

    def partitionId(self) -> int:
        return self.rank

    def getTaskInfos(self) -> list[Any]:
        return self.infos

    def allGather(self, message: str) -> list[str]:
        self.said[self.rank] = message
        self.all_said.wait(30)
        return self.said

    def resources(self) -> dict[str, Any]:
        return {}


def test_ranks_meet_at_the_socket_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, said, all_said = ["127.0.0.1", "127.0.0.1", "127.0.0.1"], ["", "", ""], threading.Barrier(3)
    own = threading.local()
    worlds: dict[int, World] = {}
    trained = threading.Barrier(3)

    def train(text: str, world: World) -> None:
        assert text == "the job"
        if world.rank:
            socket.create_connection((world.meeting.host, world.meeting.port), 30).close()
        worlds[world.rank] = world
        trained.wait(30)  # the first one listens as long as it trains

    monkeypatch.setattr(training, "train_in_task", train)
    monkeypatch.setattr(pyspark, "BarrierTaskContext", SimpleNamespace(get=lambda: own.context))

    def task(rank: int) -> None:
        own.context = Context(rank, hosts, said, all_said)
        barrier.run_rank(3, "the job")

    with ThreadPoolExecutor(3) as together:
        list(together.map(task, range(3)))
    assert [(world.rank, world.size, world.local_rank, world.local_size) for _, world in sorted(worlds.items())] == [
        (0, 3, 0, 3), (1, 3, 1, 3), (2, 3, 2, 3),
    ]  # fmt: skip
    assert len({(world.meeting.host, world.meeting.port) for world in worlds.values()}) == 1
    assert [worlds[rank].meeting.listening is None for rank in range(3)] == [False, True, True]
    with pytest.raises(OSError):
        socket.create_connection((worlds[1].meeting.host, worlds[1].meeting.port), 5)


class Sent:
    """A Spark that takes the function of a stage and runs nothing; without `connected` it has no context."""

    def __init__(self, connected: bool) -> None:
        self.rank: Callable[[Iterator[Any]], Iterator[Any]] | None = None
        self.asked: list[tuple[Any, ...]] = []
        if connected:
            self.sparkContext = self

    def parallelize(self, rows: range, parts: int) -> Sent:
        self.asked.append((list(rows), parts))
        return self

    def barrier(self) -> Sent:
        return self

    def range(self, *numbers: int) -> Sent:
        self.asked.append(numbers)
        return self

    def mapPartitions(self, rank: Any) -> Sent:
        self.rank = rank
        return self

    def mapInArrow(self, rank: Any, schema: str, barrier: bool) -> Sent:
        assert barrier
        return self.mapPartitions(rank)

    def collect(self) -> list[Any]:
        return []


@pytest.mark.parametrize("connected", [True, False])
def test_a_task_imports_nothing_large_before_it_says_where_it_is(connected: bool) -> None:
    spark = Sent(connected)
    barrier.run_in_barrier(spark, 2, "the job")
    assert spark.asked == ([([0, 1], 2)] if connected else [(0, 2, 1, 2)])
    data = pyspark.cloudpickle.dumps(spark.rank)
    environment = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", OPENED], input=data, check=True, timeout=60, env=environment)
