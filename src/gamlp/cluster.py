"""A Spark session, and tasks on it: numbers in, one small answer each; whatever goes wrong is told in one sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError, MissingExtra
from gamlp.progress import Progress, silent

OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_POLL = 0.2  # seconds between two looks at Spark's status
Answer = dict[str, Any]


@dataclass(frozen=True)
class SparkSettings:
    """Which Spark, with which options. Without a master: what spark-submit set, else all cores of this machine."""

    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, master: str | None, options: Sequence[str] = ()) -> SparkSettings:
        """From the command line: `key=value` options."""
        conf = {}
        for option in options:
            key, mark, value = option.partition("=")
            if not mark or not key.strip():
                raise GamlpError(f"'{option}' is no option of Spark", hint="write --spark-conf key=value")
            conf[key.strip()] = value.strip()
        return cls(master, conf)


@contextmanager
def session(settings: SparkSettings | None = None) -> Iterator[Any]:
    """A session: the active one where there is one, else a new one that ends with the block."""
    settings = settings or SparkSettings()
    sql = _pyspark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with _home_for(settings.master) as environment:
        spark = _start(sql, settings, environment)
        try:
            yield spark
        finally:
            with suppress(Exception):  # a session whose cluster died cannot be stopped, and need not be
                spark.stop()


def _pyspark() -> Any:
    try:
        from pyspark import sql
    except ImportError as error:
        raise MissingExtra("pyspark", "spark") from error
    return sql


def _start(sql: Any, settings: SparkSettings, environment: dict[str, str]) -> Any:
    master = settings.master
    if master is not None and master.startswith("sc://"):
        try:
            return sql.SparkSession.builder.remote(master).getOrCreate()
        except ImportError as error:
            raise GamlpError(
                f"Spark Connect needs a library that is not installed ({_first_line(error)})",
                hint='run: pip install "pyspark[connect]"',
            ) from error
        except Exception as error:
            raise GamlpError(f"no Spark Connect server answers at {master} ({_first_line(error)})") from error
    check_java()
    wanted = _defaults(master) | settings.conf
    builder = sql.SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    elif "spark.master" not in settings.conf and "SPARK_SUBMIT" not in os.environ and not _submitted():
        builder = builder.master("local[*]")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    # A session reads the executors' Python from the environment alone; spark-submit reads the option.
    os.environ.setdefault("PYSPARK_PYTHON", wanted.get("spark.pyspark.python", sys.executable))
    for key, value in environment.items():
        os.environ.setdefault(key, value)
    loud = "spark.log.level" in wanted
    try:
        with nullcontext() if loud else _java_unheard():
            spark = builder.getOrCreate()
    except Exception as error:
        raise GamlpError(
            f"Spark cannot be started on '{master or 'local[*]'}' ({_first_line(error)})",
            hint="see --master and --spark-conf; --spark-conf spark.log.level=WARN tells more",
        ) from error
    if not loud:
        spark.sparkContext.setLogLevel("OFF")  # what goes wrong is told once, by us
    return spark


@contextmanager
def _java_unheard() -> Iterator[None]:
    """Java writes what it thinks of its modules and loggers to the terminal: a process begun here writes nowhere."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _submitted() -> bool:
    """Whether spark-submit started this process: it then says where to run."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _defaults(master: str | None) -> dict[str, str]:
    """Options that work out of the box; on loopback everything stays there."""
    found = {
        "spark.app.name": "gamlp",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.executorEnv.OMP_NUM_THREADS": "1",  # a task has one core; Spark runs as many as there are
    }
    if is_here(master):
        found |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.ui.enabled": "false",
        }
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    return found


def is_here(master: str | None) -> bool:
    """Whether all of this Spark is on this machine."""
    where = master or ("" if _submitted() else "local[*]")
    return where.startswith("local") or f"//{_LOOPBACK}" in where or "//localhost" in where


def check_java() -> None:
    """Refuse a machine without Java, or with one too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {OLDEST_JAVA} or newer, or set JAVA_HOME to it; --engine local needs none"
    if java is None or not Path(java).exists():
        raise GamlpError("Spark needs Java, and there is none", hint=hint)
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise GamlpError(f"Java does not start ({_first_line(error)})", hint=hint) from error
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = "of unknown version" if found is None else f"version {found[1]}"
        raise GamlpError(f"Spark needs Java {OLDEST_JAVA} or newer, and this one is {version}", hint=hint)


@contextmanager
def _home_for(master: str | None) -> Iterator[dict[str, str]]:
    """local-cluster writes its work folders into Spark's home: give it one of its own, that is removed afterwards."""
    if master is None or not master.startswith("local-cluster") or "SPARK_HOME" in os.environ:
        yield {}
        return
    import pyspark

    package = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory(prefix="gamlp-spark-", ignore_cleanup_errors=True) as home:
        for part in package.iterdir():
            if part.name != "work":
                (Path(home) / part.name).symlink_to(part)
        try:
            yield {"SPARK_HOME": home}
        finally:
            if os.environ.get("SPARK_HOME") == home:
                del os.environ["SPARK_HOME"]


def run_tasks(
    spark: Any,
    work: Callable[[int], Answer],
    numbers: Sequence[int],
    stage: str = "",
    progress: Progress = silent,
) -> list[Answer]:
    """`work(number)` for every number, each in a task of its own on the executors; answers in the order of numbers.

    `work` may be called twice for a number, even at once: it must write the same bytes, and let them appear whole.
    A GamlpError is an answer too: it is not tried again, and raised here as it was.
    """
    if not numbers:
        return []
    chosen = [int(number) for number in numbers]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            places = batch.column(0).to_pylist()
            answers = [answered(work, chosen[place]) for place in places]
            yield pa.RecordBatch.from_pydict({"place": pa.array(places, pa.int64()), "answer": pa.array(answers)})

    frame = spark.range(0, len(chosen), 1, len(chosen)).mapInArrow(run, "place long, answer string")
    found = collect_answers(spark, frame, stage, len(chosen), progress)
    answers = {row["place"]: answer for row, answer in found}
    return [answers[place] for place in range(len(chosen))]


def collect_answers(
    spark: Any, frame: Any, stage: str = "", total: int = 1, progress: Progress = silent
) -> list[tuple[Any, Answer]]:
    """Rows of a frame whose column `answer` is what `answered` gave, and what it says."""
    with told(), status(spark, stage, total, progress):
        rows = frame.collect()
    found = [(row, json.loads(row["answer"])) for row in rows]
    for _, answer in found:
        if "gamlp_error" in answer:
            raise GamlpError(**answer["gamlp_error"])
    progress(stage, total, total, "blocks")
    return found


def answered(work: Callable[[int], Answer], number: int) -> str:
    """What a task tells the driver: the answer, or what went wrong, as JSON."""
    try:
        return json.dumps(work(number))
    except GamlpError as error:
        fields = {name: getattr(error, name) for name in ("problem", "file", "row", "column", "hint")}
        return json.dumps({"gamlp_error": fields})
    except MemoryError:
        problem = f"task {number} has too little memory"
        hint = "use more blocks (--blocks), or give tasks more memory (--spark-conf spark.executor.memoryOverhead=…)"
        return json.dumps({"gamlp_error": {"problem": problem, "hint": hint}})


@contextmanager
def told() -> Iterator[None]:
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
    return GamlpError(f"Spark failed ({_first_line(error)})", hint="see the executors' logs")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^(\w+\.)*\w*(Error|Exception)\b.*:", line)]
    return " ".join((named or lines or [type(error).__name__])[-1 if named else 0].split())[:300].rstrip(".")


@contextmanager
def status(spark: Any, stage: str, total: int, progress: Progress) -> Iterator[None]:
    """Tell how many tasks are done, by Spark's own status; over Connect there is none."""
    context = None
    with suppress(Exception):  # Connect has no context, and says so with an error of its own
        context = spark.sparkContext
    if context is None or progress is silent:
        yield
        return
    group, ended = f"gamlp-{uuid.uuid4().hex[:8]}", threading.Event()
    tracker = context.statusTracker()

    def look() -> None:
        while not ended.wait(_POLL):
            with suppress(Exception):
                stages = [tracker.getStageInfo(each) for each in _stages(tracker, group)]
                done = sum(info.numCompletedTasks for info in stages if info is not None)
                progress(stage, min(done, total), total, "blocks")

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
