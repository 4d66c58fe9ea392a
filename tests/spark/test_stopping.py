"""Who stops the tests stops all that they started, a cluster, an object store and training included."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.spark.processes import Driver, running, wait_for

CASE = Path(__file__).parent / "everything_runs.py"


@pytest.mark.long
@pytest.mark.slow
def test_stopping_pytest_leaves_no_java_object_store_or_training(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}"]
    with running(Driver([*pytest_here, str(CASE)], tmp_path, {"GAMLP_TEST_READY": str(ready)})) as tests:
        wait_for(lambda: ready.exists() or tests.process.poll() is not None, 300)
        assert ready.exists(), tests.told[-3000:]
        os.kill(tests.process.pid, signal.SIGTERM)
        tests.ends()
        assert tests.left() == []
