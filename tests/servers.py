"""Servers of others as processes on loopback, for as long as tests ask them."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
_START = 90.0  # seconds a server may take to answer


def missing(needed: Sequence[str]) -> str | None:
    """Why there can be no server here; None where all that it needs is installed."""
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed: pip install 'gamlp[dev]'" if absent else None


def free_port() -> int:
    """One that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(
    command: Sequence[str], asked: str, log: Path, settings: Mapping[str, str], folder: Path | None = None
) -> Iterator[None]:
    """The server from its first answer to `asked`, a URL, to the end of the block; what it says goes to `log`."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **settings}, cwd=folder)
    try:
        _wait(server, asked, log)
        yield
    finally:
        server.terminate()
        server.wait(30)


def _wait(server: subprocess.Popen[bytes], asked: str, log: Path) -> None:
    ends = time.monotonic() + _START
    while time.monotonic() < ends and server.poll() is None:
        try:
            with urllib.request.urlopen(asked, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"{asked} does not answer: {log.read_text(errors='replace')[-2000:]}")
