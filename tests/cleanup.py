"""Ends every process that tests started, when pytest has ended in whatever way: Ctrl-C, SIGTERM or kill -9.

pytest starts this file beside itself and holds the other end of its standard input. When that end closes, processes
that inherited the run's mark in their environment are asked to end, then killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

MARK = "GAMLP_TEST_RUN"
_LOOK = 0.1  # seconds between two looks
_TO_END = 5.0  # seconds in which processes may end by themselves, and again after they were asked to


def start(run: str) -> subprocess.Popen[bytes]:
    """Watch over what is started from now on. Not a part of the terminal's group, which Ctrl-C reaches whole."""
    os.environ[MARK] = run
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    command = [sys.executable, str(Path(__file__)), run]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def stop(watcher: subprocess.Popen[bytes]) -> None:
    """What is called where pytest ends as it should."""
    os.environ.pop(MARK, None)
    assert watcher.stdin is not None
    watcher.stdin.close()


def _marked(run: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == run:
                found.append(process)
        except (psutil.Error, OSError):  # gone by now, or somebody else's
            continue
    return found


def _end(run: str) -> None:
    for end in (None, "terminate", "kill"):
        for process in _marked(run):
            try:
                if end is not None:
                    getattr(process, end)()
            except psutil.Error:
                continue
        until = time.monotonic() + _TO_END
        while time.monotonic() < until:
            if not _marked(run):
                return
            time.sleep(_LOOK)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _end(sys.argv[1])
