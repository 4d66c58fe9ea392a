"""Training on Spark with parameter servers: ordinary tasks, which may come, be lost and come again at any time."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
import uuid
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.spark.tasks import run_tasks
from gamlp.spark.training import (
    attempt,
    check_room,
    conf_of,
    end_jobs,
    for_tasks,
    gave_up,
    reason_of,
    tag_jobs,
    train_in_task,
)
from gamlp.spark.watch import FOR_EXECUTORS, tell
from gamlp.training import LOOK, LOOPBACK, RETRIES, Follower, Observe, Result, TrainingJob, clear, read_result
from gamlp.training.server import Certificate, ServedWorld, ServerProcess, refusals, serve_slice, settings_of

_TO_END = 10.0  # seconds that tasks have to hear that all is over
_SILENT = 5.0  # seconds after which a slice's server that says nothing, four times a second, may be gone
_LOOKS, _BETWEEN = 5, 1.0  # looks at servers that are gone until workers make room for them, and seconds between two


def launch_spark_served(
    job: TrainingJob,
    spark: Any,
    processes: int,
    *,
    tls: tuple[Path, Path] | None = None,
    retries: int = RETRIES,
    wait: float = FOR_EXECUTORS,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train in tasks that need not run at once, with the parameter server in a process beside the driver.

    Where the recipe names servers they hold the weights, each in a task of its own that stays to the end. Spark runs a
    lost task again; where it gives up a stage, as where its tasks may not fail, we run the stage again. Workers that
    hold the room of a server which was lost are ended, and begin again once it is back.
    """
    job, _ = for_tasks(job, spark)
    host = _reached_by_executors(spark)
    slices = settings_of(job).servers
    if slices:  # they stay, and one that trains must fit beside them
        check_room(spark, slices + 1, wait, "tasks of parameter servers and of training")
    follow = Follower(job, observe, progress)
    follow.catch_up(observed_epoch)
    clear(job)
    text = job.model_dump_json()
    with tempfile.TemporaryDirectory(prefix="gamlp-server-") as folder, Path(folder, "log").open("w+b") as log:
        written = Path(folder, "job")
        written.write_text(text, encoding="utf-8")
        certificate = None if tls is None else Certificate(*tls)
        server = ServerProcess(written, job, processes, log, host, certificate)
        holding = SliceTasks(spark, text, server, certificate, slices, retries)

        def look() -> None:
            follow.look()
            if not server.alive and server.starts <= retries:
                server.start()
            holding.look()

        failure: BaseException | None = None
        try:
            server.start()
            holding.start()
            beside = processes if host == LOOPBACK else int(conf_of(spark, "spark.executor.cores", "1"))
            worlds = [server.world(rank, rank % beside, beside).as_text() for rank in range(processes)]

            def train(number: int) -> dict[str, Any]:
                train_in_task(text, ServedWorld.of_text(worlds[number]))
                return {}

            for _ in range(retries + 1):
                holding.wait(wait)
                try:
                    failure = attempt(spark, lambda: _run(spark, train, processes), look)
                except LostSlices as error:
                    failure = error
                follow.look(last=True)
                if (result := read_result(job)) is not None:
                    if told := refusals(server.counts()):
                        warnings.warn(told, stacklevel=2)
                    holding.stop()  # servers of slices hear of the end from this one
                    server.stop()
                    follow.look(last=True)
                    return result
        finally:
            holding.stop()
            server.stop()
    raise gave_up(job, retries + 1, failure) from failure


def _run(spark: Any, train: Any, processes: int) -> None:
    run_tasks(spark, train, range(processes))


class LostSlices(GamlpError):
    """Servers of slices were lost and do not come back while workers run."""


class SliceTasks:
    """The servers of slices, an ordinary task each, in a job of Spark's own beside that of the workers."""

    def __init__(
        self, spark: Any, job: str, server: ServerProcess, tls: Certificate | None, count: int, retries: int
    ) -> None:
        self._spark, self._job, self._server, self._tls = spark, job, server, tls
        self._count, self._retries, self._ended = count, retries, threading.Event()
        self._tag = f"gamlp-{uuid.uuid4().hex[:8]}"
        self._failure: BaseException | None = None
        self._gone, self._looked, self._updates = 0, 0.0, 0
        self._thread = threading.Thread(target=self._keep_running, daemon=True)

    def start(self) -> None:
        """Begin them."""
        if self._count:
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until all have been heard of from now on: workers that hold the last free core would keep them out."""
        begun, self._gone = time.monotonic(), 0
        while self._count and self._server.counts(within=time.monotonic() - begun).get("slices", 0) < self._count:
            if not self._thread.is_alive() or time.monotonic() > begun + seconds:
                reason = f" ({reason_of(self._failure)})" if self._failure is not None else ""
                raise GamlpError(
                    f"{self._count} tasks of parameter servers did not come{reason}",
                    hint="use fewer --servers, or more executors; --executor-wait waits longer",
                )
            time.sleep(LOOK)

    def look(self) -> None:
        """While workers run: LostSlices where one is gone, and nothing was pushed, for some looks.

        Its task waits for room, which workers have, and they wait for it. One that only writes for long takes pushes.
        """
        if not self._count or time.monotonic() < self._looked + _BETWEEN:
            return
        found = self._server.counts(within=_SILENT)
        there = found.get("slices", 0) >= self._count or found.get("updates", 0) != self._updates
        self._gone = 0 if there else self._gone + 1
        self._looked, self._updates = time.monotonic(), found.get("updates", 0)
        if self._gone >= _LOOKS:
            tell("parameter servers were lost and have no room: workers end, and begin again once they are back")
            raise LostSlices("parameter servers were lost, and workers held the room for new ones")

    def _keep_running(self) -> None:
        tag_jobs(self._spark, self._tag)
        job, world, tls = self._job, self._server.world(0).as_text(), self._tls

        def serve(number: int) -> dict[str, Any]:
            reached = ServedWorld.of_text(world)
            serve_slice(TrainingJob.model_validate_json(job), number, reached, own_address(reached.address), tls)
            return {}

        for number in range(self._retries + 1):
            if number:
                reason = "" if self._failure is None else f" ({reason_of(self._failure)})"
                tell(f"parameter servers were lost{reason}: restart {number} of {self._retries}")
            try:
                run_tasks(self._spark, serve, range(1, self._count + 1))
            except BaseException as error:
                self._failure = error
            if self._ended.is_set():
                return

    def stop(self) -> None:
        """All is over: the tasks hear of it and end."""
        self._ended.set()
        if self._thread.is_alive():
            self._server.end()
            self._thread.join(_TO_END)
        if self._thread.is_alive():
            end_jobs(self._spark, self._tag)


def own_address(server: str) -> str:
    """The address of this machine that has a way to the parameter server's, which is that others reach it by."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # nothing is sent
        return str(probe.getsockname()[0])


def _reached_by_executors(spark: Any) -> str:
    """The driver's address; loopback where executors are on this machine."""
    if conf_of(spark, "spark.master", "").startswith("local"):
        return LOOPBACK
    host = conf_of(spark, "spark.driver.host", "")
    with suppress(OSError):
        if host:
            return socket.gethostbyname(host)
    raise GamlpError(
        "a parameter server runs beside Spark's driver, and its address is not known here",
        hint="use --exchange all-reduce, or start the session here (not over Spark Connect)",
    )
