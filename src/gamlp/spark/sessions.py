"""A Spark session: where it runs, what it needs, and how long it stays."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gamlp.errors import GamlpError, MissingExtra
from gamlp.spark.tasks import first_line
from gamlp.spark.watch import FOR_EXECUTORS, wait_for_first

OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_CONNECT_PORT = 15002  # where the address names none
_ANSWERS = 20.0  # seconds within which a server must


@dataclass(frozen=True)
class SparkSettings:
    """Which Spark, with which options. Without a master: what spark-submit set, else all cores of this machine.

    wait: seconds in which executors may start.
    """

    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    wait: float = FOR_EXECUTORS

    @classmethod
    def of(cls, master: str | None, options: Sequence[str] = (), wait: float = FOR_EXECUTORS) -> SparkSettings:
        """From the command line: `key=value` options."""
        conf = {}
        for option in options:
            key, mark, value = option.partition("=")
            if not mark or not key.strip():
                raise GamlpError(f"'{option}' is no option of Spark", hint="write --spark-conf key=value")
            conf[key.strip()] = value.strip()
        return cls(master, conf, wait)

    def with_defaults(self, conf: dict[str, str]) -> SparkSettings:
        """Options for a session of our own that nobody gave; those of spark-submit stay."""
        return self if _submitted() else replace(self, conf=conf | self.conf)


@contextmanager
def session(settings: SparkSettings | None = None) -> Iterator[Any]:
    """A session: the active one where there is one, else a new one that ends with the block (or see `keeping`)."""
    active = active_session()
    if active is not None:
        yield active
    elif _keepers:
        yield _keepers[-1].enter_context(_new(settings or SparkSettings()))
    else:
        with _new(settings or SparkSettings()) as spark:
            yield spark


def active_session() -> Any:
    """The session of this thread, or the one that another thread began: that is not ours to end either."""
    sessions = _pyspark().SparkSession
    active = sessions.getActiveSession()
    if active is None:
        with suppress(ImportError):  # a client of Connect has no contexts
            from pyspark import SparkContext

            if SparkContext._active_spark_context is not None:
                return sessions.builder.getOrCreate()
    return active


_keepers: list[ExitStack] = []


@contextmanager
def keeping() -> Iterator[None]:
    """A session that begins inside stays until the end: one application for all that a command does.

    Inside another such block nothing changes: the outer one ends it.
    """
    if _keepers:
        yield
        return
    with ExitStack() as stack:
        _keepers.append(stack)
        try:
            yield
        finally:
            _keepers.remove(stack)


@contextmanager
def _new(settings: SparkSettings) -> Iterator[Any]:
    with _home_for(settings.master) as environment:
        spark = _start(_pyspark(), settings, environment)
        try:
            if not (settings.master or "").startswith("sc://"):  # over Connect they are the server's concern
                wait_for_first(spark.sparkContext, settings.wait)
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
        return _connect(sql, master)
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
            f"Spark cannot be started on '{master or 'local[*]'}' ({first_line(error)})",
            hint="see --master and --spark-conf; --spark-conf spark.log.level=WARN tells more",
        ) from error
    if not loud:
        spark.sparkContext.setLogLevel("OFF")  # what goes wrong is told once, by us
    return spark


def _connect(sql: Any, master: str) -> Any:
    """A session over Spark Connect. Its client tries a server that is not there for minutes: look first."""
    address = urlsplit(master)
    unheard = GamlpError(f"no Spark Connect server answers at {master}", hint="start one, or see --master")
    try:
        if address.hostname is None:
            raise unheard
        if not any(name.lower().endswith("_proxy") for name in os.environ):
            socket.create_connection((address.hostname, address.port or _CONNECT_PORT), _ANSWERS).close()
        return sql.SparkSession.builder.remote(master).getOrCreate()
    except ImportError as error:
        raise GamlpError(
            f"Spark Connect needs a library that is not installed ({first_line(error)})",
            hint='run: pip install "pyspark[connect]"',
        ) from error
    except GamlpError:
        raise
    except OSError as error:
        raise unheard from error
    except Exception as error:
        raise GamlpError(f"no Spark Connect server answers at {master} ({first_line(error)})") from error


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
        # A Python process that runs a query's functions is not one that runs an RDD's where their environments differ,
        # and this is all the difference: with it each core would start two, and import everything twice.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
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
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise GamlpError(f"Java does not start ({first_line(error)})", hint=hint) from error
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
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
