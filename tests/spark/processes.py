"""Drivers as processes: started, waited for within bounds, killed; whom they leave behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from gamlp.graph import Graph, Split
from gamlp.io import Place
from gamlp.propagation import LocalPropagator
from tests.spark.driver import PLAN
from tests.spark.standalone import QUICK_JAVA

SCRIPT = Path(__file__).parent / "driver.py"
# An executor of a test is small, starts quickly, and takes one core: others may have the rest.
CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.executor.cores": "1",
}
_LONG = 150.0  # seconds that a run may take on a busy machine
_MARK = "GAMLP_TEST_DRIVER"


class Driver:
    """A process, what it says, and whom it started."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
        self.mark, folder = uuid.uuid4().hex, folder / f"driver-{uuid.uuid4().hex[:6]}"
        folder.mkdir(parents=True)
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        wanted = {**os.environ, **(environment or {}), _MARK: self.mark, "TMPDIR": str(folder)}
        wanted.pop("SPARK_HOME", None)
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # of a session in this process
            wanted.pop(name, None)
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=wanted, start_new_session=True)

    @property
    def told(self) -> str:
        return self.out.read_text()

    def ends(self) -> int:
        """The exit code."""
        return self.process.wait(_LONG)

    def ends_well(self) -> None:
        assert self.ends() == 0, f"{self.told}\n{self.err.read_text()[-2000:]}"

    def ends_with_a_sentence(self) -> str:
        """Exit code 2 and one sentence, no traceback."""
        assert self.ends() == 2, f"{self.told}\n{self.err.read_text()[-2000:]}"
        said = self.err.read_text().strip()
        assert "Traceback" not in said
        assert said.endswith(".")
        return " ".join(said.split())

    def stages(self) -> dict[str, list[int]]:
        """Which tasks it asked for, by stage."""
        pairs = (line.split(": ") for line in self.told.splitlines() if ": [" in line)
        return {stage: [int(number) for number in numbers[1:-1].split(",") if number] for stage, numbers in pairs}

    def left(self) -> list[str]:
        """Processes of its making that are still there, after they had time to end."""
        wait_for(lambda: not self._living(), 30, fail=False)
        return self._living()

    def _living(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline())[:200])
            except psutil.Error:
                continue
        return found


@contextmanager
def driver(folder: Path, graph: Path, store: object, *options: str, master: str = "local[2]") -> Iterator[Driver]:
    """`driver.py` at work; it does not outlive the block."""
    conf = [f"--conf={key}={value}" for key, value in CONF.items()]
    command = [sys.executable, str(SCRIPT), str(graph), str(store), "--master", master, *conf, *options]
    with running(Driver(command, folder)) as started:
        yield started


@contextmanager
def running(started: Driver) -> Iterator[Driver]:
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait(30)


class Gate:
    """Tasks that wait; see `driver.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def waiting(self, count: int = 1) -> list[psutil.Process]:
        """So many Python workers that wait at the gate."""
        wait_for(lambda: len(self._names()) >= count, _LONG)
        return [psutil.Process(int(name.partition(".")[0])) for name in self._names()[:count]]

    def waits(self) -> bool:
        return bool(self._names())

    def open(self) -> None:
        (self.folder / "go").touch()

    def _names(self) -> list[str]:
        return sorted(
            path.name for path in self.folder.iterdir() if not path.name.startswith(".") and path.name != "go"
        )


def wait_for(ready: Callable[[], bool], seconds: float, *, fail: bool = True) -> None:
    ends = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > ends:
            assert not fail, f"waited {seconds:g} s in vain"
            return
        time.sleep(0.1)


def fingerprints(store: str | Path | Place) -> dict[str, str]:
    """Every file of a store but its lock."""
    place = Place.of(store)
    return {name: hashlib.sha256((place / name).read()).hexdigest() for name in files_in(place)}


def files_in(place: Place, above: str = "") -> list[str]:
    found = []
    for name in place.names():
        if (place / name).size() is not None:
            found += [above + name] if not name.startswith(".lock") else []
        else:
            found += files_in(place / name, f"{above}{name}/")
    return found


def save_graph(folder: Path, nodes: int = 900) -> Path:
    """A small graph with features, labels and a split."""
    rng = np.random.default_rng(7)
    split = Split.of(nodes, train=np.arange(0, 200), valid=np.arange(200, 300), test=np.arange(300, 700))
    edges, features = rng.integers(0, nodes, (2, 4 * nodes)), rng.normal(size=(nodes, 21)).astype(np.float32)
    Graph.from_arrays(edges, features, rng.integers(0, 5, nodes), split=split).save(folder)
    return folder


def local_bytes(graph: Path, store: Path) -> dict[str, str]:
    """What the local engine writes for the driver's plan."""
    LocalPropagator(threads=1).propagate(Graph.open(graph), PLAN, store)
    return fingerprints(store)
