"""Workers on this machine with parameter servers: whoever dies is started again, alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO

from gamlp.errors import GamlpError
from gamlp.progress import Progress, silent
from gamlp.training.loop import Observe
from gamlp.training.ranks.job import DRIVER, GO_ON, TrainingJob, end_with, read_result, run_job
from gamlp.training.ranks.launch import LOOK, RETRIES, Result, begun, died
from gamlp.training.server.process import ServerProcess, SliceProcesses, refusals
from gamlp.training.server.service import Certificate
from gamlp.training.server.worker import ServedWorld

_WORLD = "GAMLP_SERVED_WORLD"  # what a worker knows of its server, as JSON


def launch_served(
    job: TrainingJob,
    processes: int,
    *,
    log: Path,
    restarts: int = RETRIES,
    observed_epoch: int = 0,
    observe: Observe | None = None,
    progress: Progress = silent,
    tls: Certificate | None = None,
) -> Result:
    """Train with workers on this machine and a server between them, on loopback; what they say goes to `log`."""
    job, written, follow = begun(job, processes, observed_epoch, observe, progress)
    with log.open("wb") as output:
        server = ServerProcess(written, job, processes, output, tls=tls)
        slices = SliceProcesses(server)
        assert job.threads is not None
        workers = _Workers(server, processes, job.threads, output)
        try:
            server.start()
            # Restarts are for each of them: one that comes and goes does not use up those of the others.
            while max(server.starts, slices.most_starts, workers.most_starts) <= restarts + 1:
                follow.look()
                if (result := read_result(job)) is not None:
                    follow.look(last=True)
                    if sentence := refusals(server.counts()):
                        warnings.warn(sentence, stacklevel=2)
                    return result
                if not server.alive:
                    server.start()
                slices.keep_running()
                workers.keep_running()
                time.sleep(LOOK)
        finally:
            workers.stop()
            slices.stop()
            server.stop()
    raise died(job, restarts + 1, f"what they said is in {log}; {GO_ON}")


class _Workers:
    """Processes by rank; each is started again where it ended without a result."""

    def __init__(self, server: ServerProcess, count: int, threads: int, output: IO[bytes]) -> None:
        self._server, self._threads, self._output = server, threads, output
        self._running: list[subprocess.Popen[bytes] | None] = [None] * count
        self._starts = [0] * count

    @property
    def most_starts(self) -> int:
        return max(self._starts)

    def keep_running(self) -> None:
        for rank, process in enumerate(self._running):
            code = 1 if process is None else process.poll()
            if code is None or code == 0:
                continue
            if process is not None:
                self._output.write(f"worker {rank} ended with code {code}\n".encode())
                self._output.flush()
            self._running[rank] = self._start(rank)

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        self._starts[rank] += 1
        known = self._server.world(rank, rank, len(self._running)).as_text()
        environment = {"OMP_NUM_THREADS": str(self._threads), "PYTHONSAFEPATH": "1", _WORLD: known}
        # A session of its own: Ctrl-C is for the driver, which ends them.
        return subprocess.Popen(
            [sys.executable, "-c", "from gamlp.training.server.launch import main; main()", str(self._server.written)],
            env={**os.environ, **environment, DRIVER: str(os.getpid())},
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, start_new_session=True,
        )  # fmt: skip

    def stop(self) -> None:
        for process in self._running:
            if process is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
                process.wait()


def main() -> None:
    """A worker that `launch_served` starts: its argument is the file of the job."""
    if driver := os.environ.get(DRIVER):
        end_with(int(driver))
    job = TrainingJob.model_validate_json(Path(sys.argv[1]).read_bytes())
    try:
        run_job(job, ServedWorld.of_text(os.environ[_WORLD]))
    except GamlpError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
