"""Spark's own cluster on loopback: a Master and Workers of one core each, as processes that end with the block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"
MEMORY = "900m"  # of a worker: an executor takes all of it
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # processes that live for seconds: compile quickly
_START, _STOP = 90.0, 30.0  # seconds that a process may take


@dataclass
class Standalone:
    """A running cluster: `address` is the master to submit to; logs and work folders lie in `folder`."""

    folder: Path
    hidden: Path | None  # covered by an empty folder in all workers' eyes
    address: str = ""
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start(self, name: str, *words: str, wrapped: tuple[str, ...] = (), local: Path | None = None) -> None:
        """One process of Spark's, its output in `name.log`."""
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "SPARK_LOCAL_DIRS": str(local or self.folder / name / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        environment.pop("SPARK_HOME", None)
        with (self.folder / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C at the tests does not reach it, they stop it themselves.
            process = subprocess.Popen(
                [*wrapped, _spark_class(), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self._started.append(process)

    def start_worker(self, name: str, work: Path | None = None) -> None:
        """A worker with one core; `work` is where its executors live, and their local folder."""
        place = work or self.folder / name
        wrapped: tuple[str, ...] = ()
        if self.hidden is not None:
            script = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
            wrapped = ("unshare", "--mount", "sh", "-c", script, str(self.hidden))
        options = ["--host", LOOPBACK, "--cores", "1", "--memory", MEMORY, "--webui-port", "0"]
        worker = "org.apache.spark.deploy.worker.Worker"
        self.start(name, worker, *options, "--work-dir", str(place), self.address, wrapped=wrapped, local=work)

    def wait_for_workers(self, count: int) -> None:
        """Until the master has logged so many registrations."""
        self._wait(lambda: self.log("master").count("Registering worker") >= count, f"{count} workers are not there")

    def wait_for_master(self) -> None:
        def known() -> bool:
            found = re.search(rf"Starting Spark master at (spark://{re.escape(LOOPBACK)}:\d+)", self.log("master"))
            self.address = found[1] if found else ""
            return bool(found)

        self._wait(known, "the master does not start")

    def stop_last(self) -> None:
        _stop([self._started.pop()])

    def stop(self) -> None:
        _stop(self._started[::-1])

    def _wait(self, ready, problem: str) -> None:  # type: ignore[no-untyped-def]
        ends = time.monotonic() + _START
        while not ready():
            ended = [process.args for process in self._started if process.poll() is not None]
            if ended or time.monotonic() > ends:
                raise RuntimeError(f"{problem}: {self.log('master')[-800:]}")
            time.sleep(0.1)


@contextmanager
def standalone(folder: Path, hidden: Path | None = None) -> Iterator[Standalone]:
    """A master and two workers, ready."""
    cluster = Standalone(folder, hidden)
    try:
        cluster.start(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", LOOPBACK, "--port", "0", "--webui-port", "0",
        )  # fmt: skip
        cluster.wait_for_master()
        for number in (1, 2):
            cluster.start_worker(f"worker-{number}")
        cluster.wait_for_workers(2)
        yield cluster
    finally:
        cluster.stop()


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """By their ids; a worker takes its executors with it."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(_STOP)


def _spark_class() -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / "spark-class")


def can_mount() -> bool:
    """Whether a process here may mount what others do not see."""
    try:
        probe = subprocess.run(
            ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"], capture_output=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return probe.returncode == 0
