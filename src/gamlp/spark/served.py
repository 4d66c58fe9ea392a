"""Training on Spark with a parameter server: ordinary tasks, which may come, be lost and come again at any time."""

from __future__ import annotations

import socket
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.spark.tasks import run_tasks
from gamlp.spark.training import attempt, conf_of, for_tasks, gave_up, train_in_task
from gamlp.training import LOOPBACK, RETRIES, Follower, Observe, Result, TrainingJob, clear, read_result
from gamlp.training.server import Certificate, ServedWorld, ServerProcess, refusals


def launch_spark_served(
    job: TrainingJob,
    spark: Any,
    processes: int,
    *,
    tls: tuple[Path, Path] | None = None,
    retries: int = RETRIES,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train in tasks that need not run at once, with the server in a process beside the driver.

    Spark runs a lost task again; where it gives up a stage, as where its tasks may not fail, we run the stage again.
    """
    job, _ = for_tasks(job, spark)
    host = _reached_by_executors(spark)
    follow = Follower(job, observe, progress)
    follow.catch_up(observed_epoch)
    clear(job)
    text = job.model_dump_json()
    with tempfile.TemporaryDirectory(prefix="gamlp-server-") as folder, Path(folder, "log").open("w+b") as log:
        written = Path(folder, "job")
        written.write_text(text, encoding="utf-8")
        server = ServerProcess(written, job, processes, log, host, None if tls is None else Certificate(*tls))

        def look() -> None:
            follow.look()
            if not server.alive and server.starts <= retries:
                server.start()

        failure: BaseException | None = None
        try:
            server.start()
            beside = processes if host == LOOPBACK else int(conf_of(spark, "spark.executor.cores", "1"))
            worlds = [server.world(rank, rank % beside, beside).as_text() for rank in range(processes)]

            def train(number: int) -> dict[str, Any]:
                train_in_task(text, ServedWorld.of_text(worlds[number]))
                return {}

            for _ in range(retries + 1):
                failure = attempt(spark, lambda: _run(spark, train, processes), look)
                follow.look(last=True)
                if (result := read_result(job)) is not None:
                    if told := refusals(server.counts()):
                        warnings.warn(told, stacklevel=2)
                    return result
        finally:
            server.stop()
    raise gave_up(job, retries + 1, failure) from failure


def _run(spark: Any, train: Any, processes: int) -> None:
    run_tasks(spark, train, range(processes))


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
