"""Training in Spark's tasks: each runs the ordinary worker, several at once in a barrier stage where they meet.

A task that dies ends the attempt, and the next one goes on from the last checkpoint.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.spark.barrier import run_in_barrier
from gamlp.spark.tasks import run_tasks, sentence
from gamlp.spark.watch import FOR_EXECUTORS, SAID_AFTER, tell, watch_of
from gamlp.training import (
    ALONE,
    GO_ON,
    LOOK,
    RETRIES,
    Follower,
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


def launch_spark(
    job: TrainingJob,
    spark: Any,
    processes: int,
    *,
    retries: int = RETRIES,
    wait: float = FOR_EXECUTORS,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train in tasks that run at once, a process for each. Spark gives up a stage whose task dies: we try again.

    wait: seconds in which as many executors may still register.
    """
    job, gpu = for_tasks(job, spark)
    check_room(spark, processes, wait)
    follow = Follower(job, observe, progress)
    follow.catch_up(observed_epoch)
    clear(job)
    failure: BaseException | None = None
    text = job.model_dump_json()
    run = partial(_in_a_task, spark, text)
    if processes > 1 or gpu:
        run = partial(run_in_barrier, spark, processes, text)
    for number in range(retries + 1):
        if number:
            reason = "" if failure is None else f" ({reason_of(failure)})"
            tell(f"training was stopped{reason}, and goes on from its last checkpoint: restart {number} of {retries}")
            check_room(spark, processes, wait)
        failure = attempt(spark, run, follow.look)
        follow.look(last=True)
        if (result := read_result(job)) is not None:
            return result
    raise gave_up(job, retries + 1, failure) from failure


def for_tasks(job: TrainingJob, spark: Any) -> tuple[TrainingJob, bool]:
    """The job with the threads and the device of a task, and whether that is a GPU."""
    given = int(conf_of(spark, "spark.task.resource.gpu.amount", "0")) > 0
    gpu = job.device.startswith("cuda") or (job.device == "auto" and given)
    threads = job.threads or int(conf_of(spark, "spark.task.cpus", "1"))
    return job.model_copy(update={"threads": threads, "device": job.device if gpu else "cpu"}), gpu


def gave_up(job: TrainingJob, times: int, failure: BaseException | None) -> GamlpError:
    """What is told when the last attempt failed."""
    hint = f"see the executors' logs; {GO_ON}"
    if not job.trouble.exists() and failure is not None:
        return GamlpError(f"training on Spark failed {times} times: {reason_of(failure)}", hint=hint)
    return died(job, times, hint)


def reason_of(failure: BaseException) -> str:
    """What ended an attempt, in a sentence."""
    return failure.problem if isinstance(failure, GamlpError) else sentence(failure).problem


def attempt(spark: Any, run: Callable[[], None], look: Callable[[], None]) -> BaseException | None:
    """One job of Spark, in a thread of its own, so that this one can look; what was raised."""
    raised: list[BaseException] = []
    tag = f"gamlp-{uuid.uuid4().hex[:8]}"

    def tagged() -> None:
        try:
            tag_jobs(spark, tag)
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=tagged, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            look()
            _watch(spark)
            thread.join(LOOK)
    except BaseException:
        end_jobs(spark, tag)
        thread.join(_TO_END)
        raise
    return raised[0] if raised else None


def tag_jobs(spark: Any, tag: str) -> None:
    """Jobs that this thread begins from now on can be ended by the tag; by both ways that there are.

    A session's tag ends nothing from another thread (pyspark 4.3), and Connect has no context; tags need Spark 4.
    """
    with suppress(Exception):
        spark.addTag(tag)
    with suppress(Exception):
        spark.sparkContext.addJobTag(tag)


def end_jobs(spark: Any, tag: str) -> None:
    """End jobs of any thread that have the tag."""
    with suppress(Exception):
        spark.interruptTag(tag)
    with suppress(Exception):
        spark.sparkContext.cancelJobsWithTag(tag)


def _in_a_task(spark: Any, text: str) -> None:
    """One process has nobody to meet: an ordinary task, which Spark may begin whenever there is room."""

    def train(_: int) -> dict[str, Any]:
        train_in_task(text, ALONE)
        return {}

    run_tasks(spark, train, [0])


def train_in_task(text: str, world: World) -> None:
    """One process's part of a job."""
    threads = torch.get_num_threads()
    try:
        run_job(TrainingJob.model_validate_json(text), world)
    finally:
        torch.set_num_threads(threads)  # the worker has other tasks after this one


def _watch(spark: Any) -> None:
    with suppress(Exception):  # Connect has no context
        watch_of(spark.sparkContext).look()


def check_room(spark: Any, processes: int, wait: float, what: str = "training processes") -> None:
    """All tasks of a barrier stage run at once; Spark itself would wait ten minutes before it says so."""
    slots = _slots(spark)
    wait = 0.0 if conf_of(spark, "spark.master", "local").startswith("local[") else wait
    begun, said = time.monotonic(), False
    while (room := slots()) < processes and time.monotonic() - begun < wait:
        if not said and time.monotonic() - begun > SAID_AFTER:
            said = True
            tell(f"Spark has room for {room:g} of {processes} {what}: waiting up to {wait:g} s for executors")
        time.sleep(LOOK)
    if room < processes:
        waited = f" after {wait:g} s" if wait else ""
        raise GamlpError(
            f"{processes} {what} must run at once, and Spark has room for {room:g}{waited}",
            hint="use fewer --processes, or more cores: --master local[N], or --spark-conf spark.executor.instances=…"
            + ("; --executor-wait waits longer" if wait else ""),
        )


def _slots(spark: Any) -> Callable[[], float]:
    try:
        context = spark.sparkContext
    except Exception:  # Connect: it does not tell
        return lambda: float("inf")
    cpus = int(conf_of(spark, "spark.task.cpus", "1"))

    def count() -> float:
        with suppress(Exception):  # a method of Spark's own; its scheduler asks the same one
            scala = context._jsc.sc()
            return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
        return int(context.defaultParallelism) // cpus

    return count


def conf_of(spark: Any, key: str, usual: str) -> str:
    """A setting of Spark's, or the usual value."""
    with suppress(Exception):
        return str(spark.conf.get(key, usual))
    return usual
