"""Training in Spark's tasks: each runs the ordinary worker, several at once in a barrier stage where they meet.

A task that dies ends the attempt, and the next one goes on from the last checkpoint.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import torch

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.spark.tasks import run_tasks, sentence
from gamlp.training import (
    ALONE,
    GO_ON,
    LOOK,
    LOOPBACK,
    RETRIES,
    Follower,
    Meeting,
    Observe,
    Result,
    TrainingJob,
    World,
    clear,
    died,
    read_result,
    run_job,
)

_TO_END = 10.0  # seconds that Spark has to end tasks when it is asked to
_FOR_ROOM = 60.0  # seconds in which executors may still register


def launch_spark(
    job: TrainingJob,
    spark: Any,
    processes: int,
    *,
    retries: int = RETRIES,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train in tasks that run at once, a process for each. Spark gives up a stage whose task dies: we try again."""
    given = int(_conf(spark, "spark.task.resource.gpu.amount", "0")) > 0
    gpu = job.device.startswith("cuda") or (job.device == "auto" and given)
    threads = job.threads or int(_conf(spark, "spark.task.cpus", "1"))
    job = job.model_copy(update={"threads": threads, "device": job.device if gpu else "cpu"})
    _check_room(spark, processes)
    follow = Follower(job, observe, progress)
    follow.catch_up(observed_epoch)
    clear(job)
    failure: BaseException | None = None
    for _ in range(retries + 1):
        failure = _attempt(spark, job, processes, gpu, follow)
        if (result := read_result(job)) is not None:
            return result
    if not job.trouble.exists() and failure is not None:
        reason = sentence(failure).problem
        raise GamlpError(
            f"training on Spark failed {retries + 1} times: {reason}", hint=f"see the executors' logs; {GO_ON}"
        ) from failure
    raise died(job, retries + 1, f"see the executors' logs; {GO_ON}") from failure


def _attempt(spark: Any, job: TrainingJob, processes: int, gpu: bool, follow: Follower) -> BaseException | None:
    """One stage, in a thread of its own, so that this one can follow; what was raised."""
    raised: list[BaseException] = []
    tag, text = f"gamlp-{uuid.uuid4().hex[:8]}", job.model_dump_json()

    def run() -> None:
        try:
            with suppress(Exception):  # tags need Spark 4
                spark.addTag(tag)
            if processes == 1 and not gpu:
                _in_a_task(spark, text)
            else:
                _in_a_barrier(spark, processes, text)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            follow.look()
            thread.join(LOOK)
    except BaseException:
        with suppress(Exception):
            spark.interruptTag(tag)
        thread.join(_TO_END)
        raise
    follow.look(last=True)
    return raised[0] if raised else None


def _in_a_task(spark: Any, text: str) -> None:
    """One process has nobody to meet: an ordinary task, which Spark may begin whenever there is room."""

    def train(_: int) -> dict[str, Any]:
        _train(text, ALONE)
        return {}

    run_tasks(spark, train, [0])


def _in_a_barrier(spark: Any, processes: int, text: str) -> None:
    """Tasks that run at once, a rank each."""

    def train(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        rank, hosts = context.partitionId(), [task.address.rpartition(":")[0] for task in context.getTaskInfos()]
        own = LOOPBACK if len(set(hosts)) == 1 else socket.gethostbyname(hosts[rank])
        listening = socket.create_server((own, 0)) if rank == 0 else None
        with listening or nullcontext():
            message = "" if listening is None else f"{own} {listening.getsockname()[1]}"
            host, _, port = context.allGather(message)[0].partition(" ")  # what rank 0 said
            meeting = Meeting(host, int(port), own, None if listening is None else listening.fileno())
            gpus = context.resources()["gpu"].addresses if "gpu" in context.resources() else []
            here, before = hosts.count(hosts[rank]), hosts[:rank].count(hosts[rank])
            place = (int(gpus[0]), 1) if gpus else (before, here)
            _train(text, World(rank, processes, *place, meeting))
        yield from batches

    spark.range(0, processes, 1, processes).mapInArrow(train, "id long", barrier=True).collect()


def _train(text: str, world: World) -> None:
    threads = torch.get_num_threads()
    try:
        run_job(TrainingJob.model_validate_json(text), world)
    finally:
        torch.set_num_threads(threads)  # the worker has other tasks after this one


def _check_room(spark: Any, processes: int) -> None:
    """All tasks of a barrier stage run at once; Spark itself would wait ten minutes before it says so."""
    slots = _slots(spark)
    wait = 0.0 if _conf(spark, "spark.master", "local").startswith("local[") else _FOR_ROOM
    until = time.monotonic() + wait
    while slots() < processes and time.monotonic() < until:
        time.sleep(LOOK)
    if (room := slots()) < processes:
        raise GamlpError(
            f"{processes} training processes must run at once, and Spark has room for {room}",
            hint="use fewer --processes, or more cores: --master local[N], or --spark-conf spark.executor.instances=…",
        )


def _slots(spark: Any) -> Callable[[], float]:
    try:
        context = spark.sparkContext
    except Exception:  # Connect: it does not tell
        return lambda: float("inf")
    cpus = int(_conf(spark, "spark.task.cpus", "1"))

    def count() -> float:
        with suppress(Exception):  # a method of Spark's own; its scheduler asks the same one
            scala = context._jsc.sc()
            return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
        return int(context.defaultParallelism) // cpus

    return count


def _conf(spark: Any, key: str, usual: str) -> str:
    with suppress(Exception):
        return str(spark.conf.get(key, usual))
    return usual
