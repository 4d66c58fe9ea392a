"""Parameter servers as processes of their own: started, started again where they die, ended."""

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import torch

from gamlp.errors import GamlpError
from gamlp.io import Place
from gamlp.recipe import Recipe, TrainingSettings
from gamlp.training.ranks.job import DRIVER, MetricLines, TrainingJob, end_with, tell_trouble
from gamlp.training.ranks.world import LOOPBACK
from gamlp.training.server.checkpoint_sets import CheckpointSets
from gamlp.training.server.client import Client, SilentServer
from gamlp.training.server.parameter_server import LATE, ParameterServer
from gamlp.training.server.service import Certificate, ParameterService, SliceService, saving
from gamlp.training.server.slice_server import SliceServer
from gamlp.training.server.worker import ServedWorld

_TOKEN, _WORKERS, _HOST, _PORT, _TLS, _SLICE = (
    f"GAMLP_SERVER_{word}" for word in ("TOKEN", "WORKERS", "HOST", "PORT", "TLS", "SLICE")
)
_TO_START, _TO_END = 60.0, 20.0  # seconds
_LOOK = 0.02  # seconds


def run_of(job: TrainingJob) -> str:
    """Digest of a job's recipe and seed, the same in every worker."""
    text = json.dumps([job.recipe, job.seed, job.stage, job.valid], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def settings_of(job: TrainingJob) -> TrainingSettings:
    """Alone of the recipe: the model's own code is not needed on a server."""
    return Recipe.of({"training": job.recipe.get("training", {})}).training


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
        self._process = _started(self.written, self.output, self._environment())
        until = time.monotonic() + _TO_START
        while not self._told.exists():
            if not self.alive or time.monotonic() > until:
                return
            time.sleep(_LOOK)
        self.port = int(self._told.read_text())

    def _environment(self) -> dict[str, str]:
        found = {_TOKEN: self.token, _WORKERS: str(self.workers), _HOST: self.host, _PORT: str(self.port)}
        return found | _told_tls(self.tls)

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

    def counts(self, **within: float) -> dict[str, Any]:
        """Steps that it took, what it refused, how many slices it heard of; nothing where it is gone."""
        return self._say("counts", **within)

    def end(self) -> None:
        """Let the servers of slices go."""
        self._say("end")

    def _say(self, word: str, **asked: float) -> dict[str, Any]:
        with suppress(GamlpError):
            client = Client(replace(self.world(0), patience=0.0))
            try:
                return client.say(word, **asked)
            finally:
                client.close()
        return {}

    def stop(self) -> None:
        """End it; where a URL holds the metrics, it puts the last of them first."""
        if self.alive and Place.of(self.job.metrics).local is None:
            assert self._process is not None
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TO_END)
        _stop(self._process)
        self._process = None


@dataclass
class SliceProcesses:
    """The servers of slices on this machine, as many as the recipe says; each is started again where it ended."""

    server: ServerProcess
    starts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = settings_of(self.server.job).servers
        self._running: dict[int, subprocess.Popen[bytes] | None] = {number + 1: None for number in range(count)}

    @property
    def most_starts(self) -> int:
        return max(self.starts.values(), default=0)

    def keep_running(self) -> None:
        """Start those that are not running; they find the parameter server, and it them."""
        for number, process in self._running.items():
            if process is None or process.poll() is not None:
                self.starts[number] = self.starts.get(number, 0) + 1
                known = {_SLICE: json.dumps([number, self.server.world(0).as_text()]), _HOST: self.server.host}
                environment = known | _told_tls(self.server.tls)
                self._running[number] = _started(self.server.written, self.server.output, environment)

    def stop(self) -> None:
        for process in self._running.values():
            _stop(process)


def _started(written: Path, output: IO[bytes], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C is for the driver, which ends it.
    return subprocess.Popen(
        [sys.executable, "-c", "from gamlp.training.server.process import main; main()", str(written)],
        env={**os.environ, **environment, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", DRIVER: str(os.getpid())},
        stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
    )  # fmt: skip


def _stop(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _told_tls(tls: Certificate | None) -> dict[str, str]:
    return {} if tls is None else {_TLS: json.dumps([str(tls.certificate), str(tls.key)])}


def refusals(counts: dict[str, Any]) -> str | None:
    """A sentence on what was refused, if anything was; what only came too late, after a restart, is no trouble."""
    found = {reason: count for reason, count in counts.get("refused", {}).items() if count and reason != LATE}
    if not found:
        return None
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()))
    return f"the parameter server refused {sum(found.values())} messages: {words}"


def main() -> None:
    """The process that a launcher starts: its argument is the file of the job."""
    if driver := os.environ.get(DRIVER):
        end_with(int(driver))
    torch.set_num_threads(1)
    written, given = Path(sys.argv[1]), os.environ
    job = TrainingJob.model_validate_json(written.read_bytes())
    tls = Certificate(*map(Path, json.loads(given[_TLS]))) if _TLS in given else None
    try:
        if _SLICE in given:
            number, world = json.loads(given[_SLICE])
            serve_slice(job, number, ServedWorld.of_text(world), given[_HOST], tls)
        else:
            _serve(job, written, tls)
    except GamlpError as error:
        if _SLICE not in given:
            tell_trouble(job, error)
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def serve_slice(job: TrainingJob, number: int, world: ServedWorld, host: str, tls: Certificate | None) -> None:
    """Hold slice `number`, from 1, for the parameter server of a world, until it says that all is over."""
    settings = settings_of(job)
    server = SliceServer(run_of(job), settings, number, CheckpointSets(Place.of(job.checkpoint), settings.servers))
    service, client = SliceService(server, world.token, host, tls=tls), Client(world)
    try:
        server.attend(service.address, client.say, threading.Event())
    except SilentServer:  # that is told by whoever keeps the parameter server running
        raise
    except GamlpError as error:
        tell_trouble(job, error)
        raise
    finally:
        client.close()
        service.shutdown()


def _serve(job: TrainingJob, written: Path, tls: Certificate | None) -> None:
    settings, given = settings_of(job), os.environ
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # it stops serving, and what waits to be told is told
    with MetricLines(Place.of(job.metrics)) as lines:

        def tell(line: dict[str, Any], done: int, note: str) -> None:
            lines.observe(line)
            lines.progress(f"seed {job.seed}", done, settings.epochs, "epochs", note)

        server = ParameterServer(run_of(job), settings, int(given[_WORKERS]), Place.of(job.checkpoint), tell)
        service = ParameterService(server, given[_TOKEN], given[_HOST], int(given[_PORT]), tls=tls)
        saving(server, job.checkpoint_seconds, threading.Event())
        ready = written.with_name(f"{written.name}.port.new")
        ready.write_text(str(service.port))
        ready.rename(f"{written}.port")
        service.serve()
