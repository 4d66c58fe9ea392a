"""Several processes of this machine for one training job, and what every launcher does.

A process that dies ends the attempt, and the next one goes on from the last checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from gamlp.errors import GamlpError
from gamlp.io import Place, available_memory, usable_cores
from gamlp.progress import Progress, silent
from gamlp.training.checkpoint import Weights
from gamlp.training.loop import Observe
from gamlp.training.ranks.job import DRIVER, GO_ON, TrainingJob, read_result
from gamlp.training.ranks.world import LOOPBACK, Meeting, World

RETRIES = 3
LOOK = 0.1  # seconds between two looks at the metrics
Result = tuple[dict[str, Any], Weights]


def launch_processes(
    job: TrainingJob,
    processes: int,
    *,
    log: Path,
    restarts: int = RETRIES,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Result:
    """Train with processes on this machine; what they say goes to the file `log`. `told`: epochs observed before."""
    job, written, follow = begun(job, processes, observed_epoch, observe, progress)
    command = [sys.executable, "-c", "from gamlp.training.ranks.job import main; main()", str(written)]
    # The working folder is not searched for modules: what a job needs of it is in its sources.
    environment = {"OMP_NUM_THREADS": str(job.threads), "PYTHONSAFEPATH": "1"}
    with log.open("wb") as output:
        for _ in range(restarts + 1):
            run_ranks(command, processes, environment, output, follow.look)
            follow.look(last=True)
            if (result := read_result(job)) is not None:
                return result
    raise died(job, restarts + 1, f"what they said is in {log}; {GO_ON}")


def begun(
    job: TrainingJob, processes: int, observed_epoch: int, observe: Observe | None, progress: Progress
) -> tuple[TrainingJob, Path, Follower]:
    """The job with each process's share of this machine, as a file that they read, and who follows its epochs."""
    threads = job.threads or max(1, usable_cores() // processes)
    memory = available_memory() // 2 // processes if job.memory is None else job.memory
    job = job.model_copy(update={"threads": threads, "memory": memory})
    follow = Follower(job, observe, progress)
    follow.catch_up(observed_epoch)
    clear(job)
    written = Path(f"{job.result}.job")
    written.write_text(job.model_dump_json(), encoding="utf-8")
    return job, written, follow


def run_ranks(
    command: list[str],
    processes: int,
    environment: dict[str, str],
    output: IO[bytes],
    look: Callable[[], None] = lambda: None,
) -> bool:
    """Whether all ranks of one attempt ended well; they meet on loopback, and one that dies ends the others."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        port, open_file = listening.getsockname()[1], listening.fileno()
        ranks: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(processes):
                meeting = Meeting(port=port, listening=open_file if rank == 0 else None)
                known = World(rank, processes, rank, processes, meeting).environment()
                # A session of its own: Ctrl-C is for the driver, which ends them.
                started = subprocess.Popen(
                    command,
                    env={**os.environ, **environment, **known, DRIVER: str(os.getpid())},
                    pass_fds=[open_file] if rank == 0 else [],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip
                ranks.append(started)
            while (codes := [rank.poll() for rank in ranks]).count(None) and not any(codes):
                look()
                time.sleep(LOOK)
        finally:
            for process in ranks:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
                process.wait()
    for number, code in enumerate(codes):
        if code:
            output.write(f"rank {number} ended with code {code}\n".encode())
            output.flush()
    return not any(codes)


def clear(job: TrainingJob) -> None:
    """What an earlier launch left."""
    for place in (Place.of(job.result), Place.of(job.metrics), job.trouble):
        place.remove()


def died(job: TrainingJob, times: int, hint: str) -> GamlpError:
    reason = json.loads(job.trouble.read()) if job.trouble.exists() else "killed, or out of memory"
    return GamlpError(f"training processes died {times} times ({reason})", hint=hint)


class Follower:
    """Reads the metrics while workers write them; epochs that come again after a restart are not told again."""

    def __init__(self, job: TrainingJob, observe: Observe | None, progress: Progress) -> None:
        self.place, self.observe, self.progress = Place.of(job.metrics), observe, progress
        self.read, self.epoch, self.next = 0, 0, 0.0

    def catch_up(self, observed_epoch: int) -> None:
        """Tell what workers wrote after their driver died: a checkpoint may be as far, and they come from there."""
        self.epoch = observed_epoch
        self.look(last=True)
        self.read = 0
        if self.epoch == observed_epoch:  # nothing: epochs after the last checkpoint come again, as in one process
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
                message = json.loads(text)
            except ValueError:  # cut off by a kill
                continue
            self._tell(message)

    def _tell(self, message: dict[str, Any]) -> None:
        line = message.pop("line")
        if line:  # none is there yet while a model is solved
            if line["epoch"] <= self.epoch:
                return
            self.epoch = line["epoch"]
            if self.observe is not None:
                self.observe(line)
        self.progress(*(message[name] for name in ("stage", "done", "total", "unit", "note")))
