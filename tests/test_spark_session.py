"""What is told of Spark without one: Java, options, sentences, and a cluster that gives nothing."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.spark import tasks, training, watch
from gamlp.spark.sessions import SparkSettings, check_java, is_here
from gamlp.spark.tasks import sentence


def java(folder: Path, version: str) -> str:
    """A JAVA_HOME whose java says this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.15", "21", "22-ea"])
def test_a_new_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    check_java()


@pytest.mark.parametrize(("version", "told"), [("11.0.2", "version 11"), ("1.8.0_292", "version 8"), ("x", "unknown")])
def test_an_old_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, told: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, version))
    with pytest.raises(GamlpError, match=f"Spark needs Java 17 or newer, and this one is .*{told}.*; install Java 17"):
        check_java()


def test_no_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GamlpError, match="Spark needs Java, and there is none; install Java 17 or newer"):
        check_java()


def test_options_are_keys_and_values() -> None:
    made = SparkSettings.of("local[2]", ["spark.executor.memory=4g", "a= b=c "])
    assert made == SparkSettings("local[2]", {"spark.executor.memory": "4g", "a": "b=c"})
    with pytest.raises(GamlpError, match="'memory' is no option of Spark; write --spark-conf key=value"):
        SparkSettings.of(None, ["memory"])


@pytest.mark.parametrize(
    ("master", "here"),
    [("local[2]", True), ("local-cluster[2,1,512]", True), ("spark://127.0.0.1:7077", True), ("yarn", False)],
)
def test_what_is_on_this_machine_stays_on_loopback(master: str, here: bool) -> None:
    assert is_here(master) is here


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("… gamlp.errors.GamlpError: nodes.csv: no column 'id'.\n\n at org…", "nodes.csv: no column 'id'."),
        (
            "OSError: [Errno 28] No space left on device: '/data/x'",
            "/data/x: no space left on the device of an executor",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "Java's memory is exhausted; give more"),
        ("Python worker exited unexpectedly (crashed)", "a Python worker died, most likely of too little memory"),
        ("ModuleNotFoundError: No module named 'gamlp'", "the executors' Python has no 'gamlp'; install gamlp there"),
        ("ExecutorLostFailure (executor 3 exited …)", "executors were lost again and again"),
        ("first line\nsecond", "Spark failed (first line)"),
    ],
)
def test_what_spark_raises_is_one_sentence(said: str, told: str) -> None:
    assert str(sentence(RuntimeError(said))).startswith(told)
    assert "\n" not in str(sentence(RuntimeError(said)))


def test_a_cluster_that_runs_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WAITING", 0.3)
    idle = SimpleNamespace(numCompletedTasks=0, numActiveTasks=0, numFailedTasks=0)
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda _: [1], getJobInfo=lambda _: SimpleNamespace(stageIds=[1]), getStageInfo=lambda _: idle
    )
    context: Any = SimpleNamespace(
        statusTracker=lambda: tracker, setJobGroup=lambda *_, **__: None, setLocalProperty=lambda *_: None
    )
    with (
        pytest.warns(UserWarning, match="Spark has begun no task yet: it waits for executors") as warned,
        tasks.status(SimpleNamespace(sparkContext=context), "hop 1", 4, lambda *_, **__: None),
    ):
        until = time.monotonic() + 60
        while not len(warned) and time.monotonic() < until:
            time.sleep(0.05)


class Application:
    """A context of Spark whose executors come and go as a test says."""

    def __init__(self, *rounds: set[str], conf: dict[str, str] | None = None) -> None:
        self.rounds, self.asked = list(rounds), 0
        self.master, self.applicationId = "yarn", f"application-{id(self)}"
        self._jsc = SimpleNamespace(sc=lambda: self)
        self._conf = conf or {}

    def getConf(self) -> dict[str, str]:
        return self._conf

    def statusStore(self) -> Any:
        now = self.rounds[min(self.asked, len(self.rounds) - 1)]
        self.asked += 1
        pairs = [("driver", "driver:1"), *((place[0], place) for place in sorted(now))]
        infos = [SimpleNamespace(id=lambda p=pair: p[0], hostPort=lambda p=pair: p[1]) for pair in pairs]
        listed = SimpleNamespace(size=lambda: len(infos), apply=lambda number: infos[number])
        return SimpleNamespace(executorList=lambda active: listed)


def test_lost_executors_are_told_and_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(watch, "_EVERY", 0.0)
    watched = watch.watch_of(Application({"a:1", "b:2"}, {"a:1", "b:2"}, {"b:2"}))
    watched.look()
    watched.look()
    with pytest.warns(UserWarning, match=r"^executor a at a:1 is lost, 1 are left; what it was doing is done again$"):
        watched.look()
    assert [record.name for record in caplog.records] == ["gamlp.spark"]
    assert "a:1 is lost" in caplog.text


def test_the_wait_for_executors_is_told_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SAID_AFTER", 0.0)
    with pytest.warns(UserWarning, match="no executor has started yet: waiting up to 9 s"):
        watch.wait_for_first(Application(set(), set(), set(), {"a:1"}), 9)
    with (
        pytest.warns(UserWarning, match="waiting up to 0.3 s"),
        pytest.raises(GamlpError, match=r"no executor has started within 0.3 s; .*--executor-wait waits longer"),
    ):
        watch.wait_for_first(Application(set()), 0.3)
    watch.wait_for_first(
        Application(set(), conf={"spark.dynamicAllocation.enabled": "true"}), 0.3
    )  # they come with tasks


def test_the_wait_for_room_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    room = iter([1, 1, 2])
    monkeypatch.setattr(training, "_slots", lambda _: lambda: next(room))
    monkeypatch.setattr(training, "conf_of", lambda *_: "yarn")
    monkeypatch.setattr(training, "SAID_AFTER", 0.0)
    with pytest.warns(UserWarning, match="Spark has room for 1 of 2 training processes: waiting up to 9 s"):
        training.check_room(None, 2, 9)
    monkeypatch.setattr(training, "SAID_AFTER", 60.0)
    monkeypatch.setattr(training, "_slots", lambda _: lambda: 1)
    with pytest.raises(GamlpError, match=r"Spark has room for 1 after 0.01 s; .*; --executor-wait waits longer"):
        training.check_room(None, 2, 0.01)


def test_a_restart_of_training_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    results, job = iter([None, "trained"]), SimpleNamespace(device="cpu", threads=1)
    job.model_copy, job.model_dump_json = lambda update: job, lambda: ""
    faked: dict[str, Any] = {
        "conf_of": lambda *_: "0",
        "check_room": lambda *_: None,
        "attempt": lambda *_: RuntimeError("ExecutorLostFailure (executor 3 exited …)"),
        "Follower": lambda *_: SimpleNamespace(catch_up=lambda _: None, look=lambda **_: None),
        "clear": lambda _: None,
        "read_result": lambda _: next(results),
    }
    for name, value in faked.items():
        monkeypatch.setattr(training, name, value)
    told = r"^training was stopped \(executors were lost again and again\), and goes on .*: restart 1 of 3$"
    with pytest.warns(UserWarning, match=told):
        assert training.launch_spark(job, None, 2) == "trained"  # type: ignore[arg-type, comparison-overlap]
