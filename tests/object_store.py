"""An object store on this machine: moto's S3 server as a process on loopback, for this process and all it starts."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOPBACK = "127.0.0.1"
_START = 60.0  # seconds a server may take to answer
_NEEDED = ("moto", "flask", "s3fs")


def absent() -> str | None:
    """Why there can be no store here; None where there can."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed: pip install 'gamlp[dev]'" if missing else None


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a server; the environment leads every client of this process and of its children to it."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port = probe.getsockname()[1]
    address = f"http://{_LOOPBACK}:{port}"
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    kept = {name: os.environ.get(name) for name in settings}
    command = [sys.executable, "-m", "moto.server", "-H", _LOOPBACK, "-p", str(port)]
    with (folder / "moto.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
    try:
        _wait(server, address, folder / "moto.log")
        os.environ.update(settings)
        yield address
    finally:
        server.terminate()
        server.wait(30)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def new_bucket() -> str:
    """The URL of a new, empty bucket."""
    import s3fs

    name = f"gamlp-{uuid.uuid4().hex[:12]}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    ends = time.monotonic() + _START
    while time.monotonic() < ends and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/moto-api/", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the object store does not answer: {log.read_text()[-500:]}")
