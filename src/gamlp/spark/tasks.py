"""Tasks on Spark: numbers in, one small answer each; whatever goes wrong is told in one sentence."""

from __future__ import annotations

import errno
import gc
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.spark.watch import tell, watch_of

_POLL = 0.2  # seconds between two looks at Spark's status
WAITING = 30.0  # seconds without a task after which it is told that there is nobody to run one
_NO_EXECUTORS = "Spark has begun no task yet: it waits for executors; see --master and --spark-conf spark.executor.…"
Answer = dict[str, Any]


def run_tasks(
    spark: Any,
    work: Callable[[int], Answer],
    numbers: Sequence[int],
    stage: str = "",
    progress: Progress = silent,
    together: int = 1,
) -> list[Answer]:
    """`work(number)` for every number on the executors, `together` of them in a task; answers in the order of numbers.

    `work` may be called twice for a number, even at once: it must write the same bytes, and let them appear whole.
    A GamlpError is an answer too: it is not tried again, and raised here as it was.
    """
    if not numbers:
        return []
    chosen = [int(number) for number in numbers]

    def answers(places: Iterable[int]) -> list[dict[str, Any]]:
        found = [{"place": place, "answer": as_result(work, chosen[place])} for place in places]
        settle()
        return found

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pylist(answers(batch.column(0).to_pylist()))

    tasks = -(-len(chosen) // max(1, together))
    if (context := context_of(spark)) is None:
        frame = spark.range(0, len(chosen), 1, tasks).mapInArrow(run, "place long, answer string")
    else:  # no table's rows: no query is planned, and executors need not load what runs one
        frame = context.parallelize(range(len(chosen)), tasks).mapPartitions(answers)
    found = collect_results(spark, frame, stage, len(chosen), progress, tasks)
    results = {row["place"]: result for row, result in found}
    return [results[place] for place in range(len(chosen))]


def context_of(spark: Any) -> Any:
    """What runs functions over numbers, without tables; None over Connect, which says so with an error of its own."""
    with suppress(Exception):
        return spark.sparkContext
    return None


@lru_cache(maxsize=1)
def settle() -> None:
    """Once for each worker: Spark's looks for garbage after every task, among all that was ever imported."""
    gc.freeze()


def collect_results(
    spark: Any, frame: Any, stage: str = "", total: int = 1, progress: Progress = silent, tasks: int | None = None
) -> list[tuple[Any, Answer]]:
    """Rows of a frame (or RDD) whose `answer` is what `as_result` gave, and what it says; `total` blocks in `tasks`."""
    with spark_failure_as_error(), status(spark, stage, total, progress, tasks):
        rows = frame.collect()
    found = [(row, json.loads(row["answer"])) for row in rows]
    for _, result in found:
        if "gamlp_error" in result:
            raise GamlpError(**result["gamlp_error"])
    progress(stage, total, total, "blocks")
    return found


def as_result(work: Callable[[int], Answer], number: int) -> str:
    """What a task tells the driver: the answer, or what went wrong, as JSON."""
    try:
        return json.dumps(work(number))
    except Exception as error:
        if _starved(error):
            options = "--spark-conf spark.executor.memoryOverhead=…"
            hint = f"use more blocks (--blocks), or give tasks more memory ({options})"
            return json.dumps({"gamlp_error": {"problem": f"task {number} has too little memory", "hint": hint}})
        if not isinstance(error, GamlpError):
            raise
        fields = {name: getattr(error, name) for name in ("problem", "file", "row", "column", "hint")}
        return json.dumps({"gamlp_error": fields})


def _starved(error: BaseException) -> bool:
    """Whether memory was refused, to us or to what mapped a file for us."""
    causes = (error, error.__cause__)
    return any(isinstance(each, MemoryError) or getattr(each, "errno", None) == errno.ENOMEM for each in causes)


@contextmanager
def spark_failure_as_error() -> Iterator[None]:
    """What Spark raises, in one sentence."""
    try:
        yield
    except (GamlpError, KeyboardInterrupt):
        raise
    except Exception as error:
        if not _is_spark(error):
            raise
        raise sentence(error) from error


def _is_spark(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j", "grpc")


def sentence(error: BaseException) -> GamlpError:
    """The one thing a person should know of what Spark said."""
    text = str(error)
    if own := re.findall(r"gamlp\.errors\.GamlpError: (.+)", text):
        return GamlpError(own[-1].strip().rstrip("."))
    if "No space left on device" in text or "Errno 28" in text:
        place = re.findall(r"Errno 28\] No space left on device: '([^']+)'", text)
        return GamlpError(
            "no space left on the device of an executor", file=place[-1] if place else None,
            hint="free some space, or name another disk: --spark-conf spark.local.dir=…",
        )  # fmt: skip
    if "Java heap space" in text or "OutOfMemoryError" in text:
        return GamlpError(
            "Java's memory is exhausted",
            hint="give more: --spark-conf spark.executor.memory=… and spark.driver.memory=…",
        )
    if "Python worker exited unexpectedly" in text or "Python worker failed to connect" in text:
        return GamlpError(
            "a Python worker died, most likely of too little memory",
            hint="use more blocks (--blocks), or --spark-conf spark.executor.memoryOverhead=…",
        )
    if missing := re.findall(r"ModuleNotFoundError: No module named '([^']+)'", text):
        return GamlpError(
            f"the executors' Python has no '{missing[-1]}'",
            hint="install gamlp there, or name the right Python: --spark-conf spark.pyspark.python=…",
        )
    if "ExecutorLostFailure" in text or "executor lost" in text.lower():
        return GamlpError(
            "executors were lost again and again", hint="see their logs; run the same command again: it goes on"
        )
    return GamlpError(f"Spark failed ({first_line(error)})", hint="see the executors' logs")


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^(\w+\.)*\w*(Error|Exception)\b.*:", line)]
    return " ".join((named or lines or [type(error).__name__])[-1 if named else 0].split())[:300].rstrip(".")


@contextmanager
def status(spark: Any, stage: str, total: int, progress: Progress, tasks: int | None = None) -> Iterator[None]:
    """Tell how much is done, by Spark's own status of its tasks; over Connect there is none."""
    if (context := context_of(spark)) is None:
        yield
        return
    group, ended = f"gamlp-{uuid.uuid4().hex[:8]}", threading.Event()
    tracker = context.statusTracker()

    def look() -> None:
        begun, warned, failed = time.monotonic(), False, 0
        while not ended.wait(_POLL):
            with suppress(Exception):
                watch_of(context).look()
            with suppress(Exception):
                stages = [info for each in _stages(tracker, group) if (info := tracker.getStageInfo(each)) is not None]
                done = sum(info.numCompletedTasks for info in stages)
                progress(stage, min(done * total // (tasks or total), total), total, "blocks")
                idle = done == 0 and not any(info.numActiveTasks for info in stages)
                if (now := sum(info.numFailedTasks for info in stages)) >= max(1, 2 * failed):  # not every one of many
                    failed = now
                    count = "a task" if failed == 1 else f"{failed} tasks"
                    if not context.master.startswith("local["):  # there nothing is
                        tell(f"{stage or 'Spark'}: {count} failed so far; what failed is tried again")
                if idle and not warned and time.monotonic() - begun > WAITING:
                    warned = True
                    tell(_NO_EXECUTORS)

    context.setJobGroup(group, stage or "gamlp", interruptOnCancel=True)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        ended.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)


def _stages(tracker: Any, group: str) -> list[int]:
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    return [stage for job in jobs if job is not None for stage in job.stageIds]


def slots(spark: Any) -> int:
    """Tasks that run at once; over Connect only the settings tell, and without them it is a guess."""
    with suppress(Exception):  # Connect has no context, and says so with an error of its own
        return int(spark.sparkContext.defaultParallelism)
    with suppress(Exception):
        return int(spark.conf.get("spark.default.parallelism"))
    return 8
