"""The parameter server as a process of its own: started, started again where it dies, ended."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.recipe import Recipe
from gamlp.training.ranks.job import DRIVER, MetricLines, TrainingJob, end_with, tell_trouble
from gamlp.training.ranks.world import LOOPBACK
from gamlp.training.server.parameter_server import LATE, ParameterServer
from gamlp.training.server.service import Certificate, ParameterService, saving
from gamlp.training.server.worker import Client, ServedWorld

_TOKEN, _WORKERS, _HOST, _PORT, _TLS = (f"GAMLP_SERVER_{word}" for word in ("TOKEN", "WORKERS", "HOST", "PORT", "TLS"))
_TO_START = 60.0  # seconds
_LOOK = 0.02  # seconds


def run_of(job: TrainingJob) -> str:
    """Digest of a job's recipe and seed, the same in every worker."""
    text = json.dumps([job.recipe, job.seed, job.stage, job.valid], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class ServerProcess:
    """A parameter server beside its launcher; it listens on `host` alone.

    job: the file of the job, and the job itself.
    output: takes what it prints.
    """

    written: Path
    job: TrainingJob
    workers: int
    output: IO[bytes]
    host: str = LOOPBACK
    tls: Certificate | None = None

    def __post_init__(self) -> None:
        self.token, self.port, self.starts = secrets.token_hex(32), 0, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._told = Path(f"{self.written}.port")

    def start(self) -> None:
        """Start it, on the port that it had before; it goes on from its checkpoint."""
        self._told.unlink(missing_ok=True)
        self.starts += 1
        environment = {_TOKEN: self.token, _WORKERS: str(self.workers), _HOST: self.host, _PORT: str(self.port)}
        if self.tls is not None:
            environment[_TLS] = json.dumps([str(self.tls.certificate), str(self.tls.key)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from gamlp.training.server.process import main; main()", str(self.written)],
            env={**os.environ, **environment, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", DRIVER: str(os.getpid())},
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + _TO_START
        while not self._told.exists():
            if not self.alive or time.monotonic() > until:
                return
            time.sleep(_LOOK)
        self.port = int(self._told.read_text())

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def world(self, rank: int, local_rank: int = 0, local_size: int = 1) -> ServedWorld:
        """Of one worker."""
        root = None if self.tls is None else self.tls.trusted()
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return ServedWorld(
            rank, local_rank=local_rank, local_size=local_size, address=address, token=self.token, run=run_of(self.job),
            root=root,
        )  # fmt: skip

    def counts(self) -> dict[str, Any]:
        """Steps that it took, and what it refused; nothing where it is gone."""
        with suppress(GamlpError):
            client = Client(replace(self.world(0), patience=0.0))
            try:
                return client.say("counts")
            finally:
                client.close()
        return {}

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def refusals(counts: dict[str, Any]) -> str | None:
    """A sentence on what was refused, if anything was; what only came too late, after a restart, is no trouble."""
    found = {reason: count for reason, count in counts.get("refused", {}).items() if count and reason != LATE}
    if not found:
        return None
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()))
    return f"the parameter server refused {sum(found.values())} messages: {words}"


def main() -> None:
    """The process that `ServerProcess` starts: its argument is the file of the job."""
    if driver := os.environ.get(DRIVER):
        end_with(int(driver))
    torch.set_num_threads(1)
    written = Path(sys.argv[1])
    job = TrainingJob.model_validate_json(written.read_bytes())
    try:
        _serve(job, written)
    except GamlpError as error:
        tell_trouble(job, error)
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def _serve(job: TrainingJob, written: Path) -> None:
    # Settings alone are read: the model's own code is not needed here.
    settings = Recipe.of({"training": job.recipe.get("training", {})}).training
    with MetricLines(Place.of(job.metrics)) as lines:

        def tell(line: dict[str, Any], done: int, note: str) -> None:
            lines.observe(line)
            lines.progress(f"seed {job.seed}", done, settings.epochs, "epochs", note)

        given = os.environ
        tls = Certificate(*map(Path, json.loads(given[_TLS]))) if _TLS in given else None
        server = ParameterServer(run_of(job), settings, int(given[_WORKERS]), Place.of(job.checkpoint), tell)
        service = ParameterService(server, given[_TOKEN], given[_HOST], int(given[_PORT]), tls)
        saving(server, job.checkpoint_seconds, threading.Event())
        ready = written.with_name(f"{written.name}.port.new")
        ready.write_text(str(service.port))
        ready.rename(f"{written}.port")
        service.serve()
