"""An object store on this machine: moto's S3 server as a process on loopback, for this process and all it starts."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import LOOPBACK, free_port, missing, started


def absent() -> str | None:
    """Why there can be no store here; None where there can."""
    return missing(("moto", "flask", "s3fs"))


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a server; the environment leads every client of this process and of its children to it."""
    port = free_port()
    address = f"http://{LOOPBACK}:{port}"
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    kept = {name: os.environ.get(name) for name in settings}
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    try:
        with started(command, f"{address}/moto-api/", folder / "moto.log", settings):
            os.environ.update(settings)
            yield address
    finally:
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
