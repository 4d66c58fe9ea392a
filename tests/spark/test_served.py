"""Training inside Spark with a parameter server: ordinary tasks, more than there is room for, lost and run again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gamlp.spark import training
from gamlp.spark.served import launch_spark_served
from gamlp.training.rows import Prepared
from tests.spark.test_training import MINE, job_in, listening, python_workers
from tests.training.small import make_graph, prepared_in

EPOCHS = 40


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """A model in a folder that only this process searches."""
    code = tmp_path_factory.mktemp("code")
    (code / "served_on_spark.py").write_text(MINE)
    sys.path.insert(0, str(code))
    changes = {"model__name": "served_on_spark:Mine", "training__exchange": "server"}
    changes |= {"training__epochs": EPOCHS, "training__batch_size": 7}
    try:
        yield prepared_in(tmp_path_factory.mktemp("hops"), make_graph(), **changes)
    finally:
        sys.path.remove(str(code))
        sys.modules.pop("served_on_spark", None)


def servers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("gamlp.training.server.process" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    "killed",
    ["workers", pytest.param("nobody", marks=pytest.mark.long), pytest.param("server", marks=pytest.mark.long)],
)
def test_tasks_train_without_a_barrier_and_go_on_after_kills(
    spark: Any, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """Five tasks, more than run at once."""
    monkeypatch.setattr(training, "run_in_barrier", None)
    lines: list[dict[str, Any]] = []
    ended: list[int] = []
    addresses: set[str] = set()

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] >= 3 and not ended:
            addresses.update(address for one in servers() for address in listening(one))
            ended.extend(one.pid for one in {"workers": python_workers, "server": servers}.get(killed, list)())
            for pid in ended:
                os.kill(pid, signal.SIGKILL)

    facts, weights = launch_spark_served(job_in(tmp_path, prepared), spark, 5, observe=observe)
    assert bool(ended) == (killed != "nobody")
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    assert facts["epochs"] == EPOCHS and facts["valid"]["score"] > 0.6 and "norm.running_mean" in weights
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
    assert servers() == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:parameter servers were lost")
@pytest.mark.parametrize("killed", ["nobody", "workers", "slice"])
def test_a_slice_is_a_task_of_its_own_and_comes_again(
    spark: Any, prepared: Prepared, tmp_path: Path, killed: str
) -> None:
    """One server and one worker at a time have room; all Python workers die, the server's with them, or it alone.

    Then the next worker has its room before it comes again, and all wait for it.
    """
    prepared = replace(prepared, recipe=prepared.recipe.changed({"training.servers": 1}, trust="served_on_spark:Mine"))
    lines: list[dict[str, Any]] = []
    ended: list[int] = []

    def observe(line: dict[str, Any]) -> None:
        lines.append(line)
        if line["epoch"] >= 3 and not ended and killed != "nobody":
            ended.extend(one.pid for one in python_workers() if killed == "workers" or listening(one))
            for pid in ended:
                os.kill(pid, signal.SIGKILL)

    facts, weights = launch_spark_served(job_in(tmp_path, prepared), spark, 3, observe=observe)
    assert bool(ended) == (killed != "nobody")
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    assert facts["epochs"] == EPOCHS and facts["valid"]["score"] > 0.6 and "norm.running_mean" in weights
    assert servers() == []
