"""Ranks of training in a barrier stage of Spark, a task each.

What is sent to a task names this file alone, which imports little: ranks tell each other where they meet while each
imports torch. Spark looks for the answers of others once a second.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from gamlp.spark.tasks import context_of

_LOOPBACK = "127.0.0.1"


def run_in_barrier(spark: Any, processes: int, text: str) -> None:
    """Tasks that run at once, a rank each, of the job that is `text`."""

    def rank(rows: Iterator[Any]) -> Iterator[Any]:
        run_rank(processes, text)
        yield from rows

    if (context := context_of(spark)) is None:
        spark.range(0, processes, 1, processes).mapInArrow(rank, "id long", barrier=True).collect()
    else:  # no table's rows: no query is planned, and executors need not load what runs one
        context.parallelize(range(processes), processes).barrier().mapPartitions(rank).collect()


def run_rank(processes: int, text: str) -> None:
    """The part of one task."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank, hosts = context.partitionId(), [task.address.rpartition(":")[0] for task in context.getTaskInfos()]
    own = _LOOPBACK if len(set(hosts)) == 1 else socket.gethostbyname(hosts[rank])
    listening = socket.create_server((own, 0)) if rank == 0 else None
    with listening or nullcontext(), ThreadPoolExecutor(1) as beside:
        message = "" if listening is None else f"{own} {listening.getsockname()[1]}"
        gathered = beside.submit(context.allGather, message)
        gc.disable()  # modules are no garbage: looking for it among them takes a tenth of their import
        try:
            from gamlp.spark.training import train_in_task
            from gamlp.training import Meeting, World
        finally:
            gc.enable()
        host, _, port = gathered.result()[0].partition(" ")  # what rank 0 said
        gpus = context.resources()["gpu"].addresses if "gpu" in context.resources() else []
        here, before = hosts.count(hosts[rank]), hosts[:rank].count(hosts[rank])
        place = (int(gpus[0]), 1) if gpus else (before, here)
        meeting = Meeting(host, int(port), own, None if listening is None else listening.fileno())
        train_in_task(text, World(rank, processes, *place, meeting))
