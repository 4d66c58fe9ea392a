"""Several processes for one training job: torchrun on this machine, TorchDistributor on Spark's executors.

All run the same worker, a single one on Spark in a task like any other. A process that dies ends the attempt, and the
next one goes on from the last checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from gamlp.errors import GamlpError
from gamlp.io import Place, available_memory, usable_cores
from gamlp.progress import Progress, silent
from gamlp.spark.tasks import run_tasks, sentence
from gamlp.training.checkpoint import Weights
from gamlp.training.loop import Observe
from gamlp.training.ranks.job import DRIVER, TrainingJob, read_result, run_job
from gamlp.training.ranks.world import ALONE, World

RETRIES = 3
_LOOK = 0.1  # seconds between two looks at the metrics
_TO_END = 10.0  # seconds a launcher has to end its workers when it is asked to
_FOR_ROOM = 60.0  # seconds in which executors may still register
_GO_ON = "go on with --resume"
Result = tuple[dict[str, Any], Weights]


def launch_processes(
    job: TrainingJob,
    processes: int,
    *,
    log: Path,
    restarts: int = RETRIES,
    told: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train with processes on this machine; what they say goes to the file `log`. `told`: epochs observed before."""
    threads = job.threads or max(1, usable_cores() // processes)
    memory = available_memory() // 2 // processes if job.memory is None else job.memory
    job = job.model_copy(update={"threads": threads, "memory": memory})
    follow = _Follower(job, observe, progress)
    follow.catch_up(told)
    _clear(job)
    written = Path(f"{job.result}.job")
    written.write_text(job.model_dump_json(), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={processes}"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", f"--rdzv-id={uuid.uuid4().hex}"]
    command += [
        "--local-addr=127.0.0.1",
        f"--max-restarts={restarts}",
        f"--log-dir={written.parent}",
        "-m",
        "gamlp.training.ranks.job",
        str(written),
    ]
    # The working folder is not searched for modules: what a job needs of it is in its sources.
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), DRIVER: str(os.getpid()), "PYTHONSAFEPATH": "1"}
    with log.open("wb") as said:
        torchrun = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            while torchrun.poll() is None:
                follow.look()
                time.sleep(_LOOK)
        finally:
            _end(torchrun)
    follow.look(last=True)
    if (result := read_result(job)) is None:
        raise _died(job, restarts + 1, f"what they said is in {log}; {_GO_ON}")
    return result


def _end(torchrun: subprocess.Popen[bytes]) -> None:
    """The launcher first, which ends its workers; then whatever is left of its group."""
    if torchrun.poll() is None:
        torchrun.terminate()
        with suppress(subprocess.TimeoutExpired):
            torchrun.wait(_TO_END)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(torchrun.pid, signal.SIGKILL)
    torchrun.wait()


def launch_spark(
    job: TrainingJob,
    spark: Any,
    processes: int,
    *,
    retries: int = RETRIES,
    told: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train in tasks that run at once, a process for each. Spark gives up a stage whose task dies: we try again."""
    given = int(_conf(spark, "spark.task.resource.gpu.amount", "0")) > 0
    gpu = job.device.startswith("cuda") or (job.device == "auto" and given)
    threads = job.threads or int(_conf(spark, "spark.task.cpus", "1"))
    job = job.model_copy(update={"threads": threads, "device": job.device if gpu else "cpu"})
    _check_room(spark, processes)
    follow = _Follower(job, observe, progress)
    follow.catch_up(told)
    _clear(job)
    said: BaseException | None = None
    for _ in range(retries + 1):
        said = _attempt(spark, job, processes, gpu, follow)
        if (result := read_result(job)) is not None:
            return result
    if not job.trouble.exists() and said is not None:
        reason = sentence(said).problem
        raise GamlpError(
            f"training on Spark failed {retries + 1} times: {reason}", hint=f"see the executors' logs; {_GO_ON}"
        ) from said
    raise _died(job, retries + 1, f"see the executors' logs; {_GO_ON}") from said


def _attempt(spark: Any, job: TrainingJob, processes: int, gpu: bool, follow: _Follower) -> BaseException | None:
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
                _in_a_barrier(processes, gpu, text)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            follow.look()
            thread.join(_LOOK)
    except BaseException:
        with suppress(Exception):
            spark.interruptTag(tag)
        thread.join(_TO_END)
        raise
    follow.look(last=True)
    return raised[0] if raised else None


def _in_a_task(spark: Any, text: str) -> None:
    """One process has nobody to meet: the task's own worker trains, which has imported all that it needs."""

    def train(_: int) -> dict[str, Any]:
        threads = torch.get_num_threads()
        try:
            run_job(TrainingJob.model_validate_json(text), ALONE)
        finally:
            torch.set_num_threads(threads)  # the worker has other tasks after this one
        return {}

    run_tasks(spark, train, [0])


def _in_a_barrier(processes: int, gpu: bool, text: str) -> None:
    """Tasks that run at once, each with a process that torchrun starts."""
    from pyspark.ml.torch.distributor import TorchDistributor

    with _unheard():
        TorchDistributor(processes, local_mode=False, use_gpu=gpu).run(spark_worker, text)


def spark_worker(text: str) -> None:
    """What each of TorchDistributor's processes runs."""
    try:
        run_job(TrainingJob.model_validate_json(text), World.from_environment())
    finally:
        # torchrun's folder of logs, which nobody asked for and nobody would remove.
        logs = (place for place in Path(os.environ.get("TORCHELASTIC_ERROR_FILE", "")).parents)
        for place in logs:
            if place.name.startswith("torchelastic_"):
                shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _unheard() -> Iterator[None]:
    """TorchDistributor prints all that workers say, heard by a server that is open to the whole network: neither."""
    distributor: Any = import_module("pyspark.ml.torch.distributor")
    reader: Any = import_module("pyspark.ml.torch.log_communication").WriteLogToStdout
    logger, server = logging.getLogger("TorchDistributor"), distributor.LogStreamingServer

    class Kept(reader):  # type: ignore[misc]
        def handle(self) -> None:
            self.request.setblocking(0)
            deque(self._read_bline(), maxlen=0)

    class Quiet(server):  # type: ignore[misc, valid-type]
        def start(self, spark_host_address: str = "") -> None:
            listening: Any = socketserver.ThreadingTCPServer((spark_host_address, 0), Kept)
            listening.daemon_threads, listening.is_active = True, True
            self.server, self.port = listening, listening.server_address[1]
            self.serve_thread = threading.Thread(target=listening.serve_forever, args=(_LOOK,), daemon=True)
            self.serve_thread.start()

        def shutdown(self) -> None:
            listening = self.server
            super().shutdown()
            if listening is not None:
                listening.server_close()

    logger.disabled = True  # its level is set anew by every TorchDistributor
    distributor.LogStreamingServer = Quiet
    try:
        yield
    finally:
        distributor.LogStreamingServer = server
        logger.disabled = False


def _check_room(spark: Any, processes: int) -> None:
    """All tasks of a barrier stage run at once; Spark itself would wait ten minutes before it says so."""
    slots = _slots(spark)
    wait = 0.0 if _conf(spark, "spark.master", "local").startswith("local[") else _FOR_ROOM
    until = time.monotonic() + wait
    while slots() < processes and time.monotonic() < until:
        time.sleep(_LOOK)
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


def _clear(job: TrainingJob) -> None:
    """What an earlier launch left."""
    for place in (Place.of(job.result), Place.of(job.metrics), job.trouble):
        place.remove()


def _died(job: TrainingJob, times: int, hint: str) -> GamlpError:
    reason = json.loads(job.trouble.read()) if job.trouble.exists() else "killed, or out of memory"
    return GamlpError(f"training processes died {times} times ({reason})", hint=hint)


class _Follower:
    """Reads the metrics while workers write them; epochs that come again after a restart are not told again."""

    def __init__(self, job: TrainingJob, observe: Observe | None, progress: Progress) -> None:
        self.place, self.observe, self.progress = Place.of(job.metrics), observe, progress
        self.read, self.epoch, self.next = 0, 0, 0.0

    def catch_up(self, told: int) -> None:
        """Tell what workers wrote after their driver died: a checkpoint may be as far, and they come from there."""
        self.epoch = told
        self.look(last=True)
        self.read = 0
        if self.epoch == told:  # nothing: epochs after the last checkpoint come again, as in one process
            self.epoch = 0

    def look(self, *, last: bool = False) -> None:
        if self.place.local is None:  # over a network, about as often as it is written
            if time.monotonic() < self.next and not last:
                return
            self.next = time.monotonic() + 1
        try:
            data = self.place.read(self.read)
        except (FileNotFoundError, OSError, GamlpError):
            return  # nothing yet, or not now
        whole = data[: data.rfind(b"\n") + 1]
        self.read += len(whole)
        for text in whole.splitlines():
            try:
                told = json.loads(text)
            except ValueError:  # cut off by a kill
                continue
            self._tell(told)

    def _tell(self, told: dict[str, Any]) -> None:
        line = told.pop("line")
        if line["epoch"] <= self.epoch:
            return
        self.epoch = line["epoch"]
        if self.observe is not None:
            self.observe(line)
        self.progress(*(told[name] for name in ("stage", "done", "total", "unit", "note")))
