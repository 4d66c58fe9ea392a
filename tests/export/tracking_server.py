"""MLflow's own tracking server as a process on loopback, with a database and artifacts in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import LOOPBACK, free_port, missing, started


def absent() -> str | None:
    """Why there can be no server here; None where there can."""
    return missing(("mlflow", "flask", "sqlalchemy", "alembic"))


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    port = free_port()
    address = f"http://{LOOPBACK}:{port}"
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # jobs need a package that mlflow-skinny has not
    }
    command = [sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'tracking.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with started(command, f"{address}/health", folder / "server.log", settings, folder):
        yield address
