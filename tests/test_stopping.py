"""Stopping pytest leaves no process behind, however it is stopped and whatever its tests have started."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
# A test that has started a command in a session of its own, a forked command, and a child of a child, and then waits.
_WAITS = """
import subprocess, sys, time
from pathlib import Path
from tests.forked import _SERVER

def test_waits():
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    within = f"import subprocess; subprocess.run({sleep!r})"
    started = [
        subprocess.Popen(sleep, start_new_session=True).pid,
        subprocess.Popen([sys.executable, "-c", within]).pid,
    ]
    _SERVER.set_forkserver_preload([])
    forked = _SERVER.Process(target=time.sleep, args=(600,))
    forked.start()
    Path(FOLDER, "started").write_text(" ".join(map(str, [*started, forked.pid])))
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "processes"), [(signal.SIGINT, 0), (signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGKILL, 1)]
)
def test_nothing_is_left(tmp_path: Path, end: signal.Signals, processes: int) -> None:
    (tmp_path / "test_waits.py").write_text(_WAITS.replace("FOLDER", repr(str(tmp_path))))
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    command += ["-p", "tests.conftest", "-n", str(processes), str(tmp_path / "test_waits.py")]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait_for(lambda: (tmp_path / "started").exists() and (tmp_path / "started").read_text())
        started = [psutil.Process(int(pid)) for pid in (tmp_path / "started").read_text().split()]
        started += [below for process in list(started) for below in process.children(recursive=True)]
        assert len(started) >= 3 and all(process.is_running() for process in started)
    finally:
        run.send_signal(end)
        run.wait(60)
    _wait_for(lambda: not any(_lives(process) for process in started))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for(what: object, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)
