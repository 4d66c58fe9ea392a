"""`--processes 2`: the run of one process, with the same files; a killed rank, driver or run costs nothing but time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Place
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.run.resources import Resources
from gamlp.run.training import train_run
from gamlp.training.bundle import Bundle
from gamlp.training.ranks.job import TrainingJob, read_result
from gamlp.training.ranks.launch import launch_processes
from gamlp.training.ranks.sources import sources_of, unpacked
from gamlp.training.rows import Prepared
from gamlp.training.run_folder import About, RunFolder
from tests.training.ranks.ranks import HELD
from tests.training.small import ONE_THREAD, RECIPE, make_graph, prepared_in, store_of

pytestmark = pytest.mark.slow

TWO = Resources(threads=2, device="cpu", processes=2)
OWN = {"model.name": "tests.training.ranks.ranks:Double"}
EPOCHS = 60
LONG = RECIPE.changed(
    {"training.epochs": EPOCHS, "training.batch_size": 7, "model.name": "tests.training.ranks.ranks:Held"},
    trust="tests.training.ranks.ranks:Held",
)


def train_in(folder: Path, prepared: Prepared, resources: Resources, observe: Any = None) -> RunFolder:
    run = RunFolder.create(folder, About(graph=None, store="hops"), prepared.recipe, resume=True)
    train_run(prepared, replace(run, checkpoint_seconds=0.0), resources=resources, observe=observe)
    return run


# The same as one process


def test_a_model_that_is_solved_is_solved_by_one_of_them(tmp_path: Path) -> None:
    """Its weights have a size that the others cannot know."""
    pytest.importorskip("lightgbm", reason="LightGBM is not installed: gamlp[boost]")
    options = {"num_iterations": 20, "min_data_in_leaf": 2}
    recipe = Recipe.of({"propagation": {"hops": 1}, "model": {"name": "lightgbm", "beta": 0.0, "options": options}})
    prepared = prepared_in(tmp_path / "hops", make_graph(), recipe)
    lines: list[dict[str, Any]] = []
    one = train_in(tmp_path / "one", prepared, ONE_THREAD)
    two = train_in(tmp_path / "two", prepared, TWO, lines.append)
    mine, theirs = Bundle.load(one.bundle_path), Bundle.load(two.bundle_path)
    assert mine.report["solved"] == theirs.report["solved"] and [line["epoch"] for line in lines] == [1]
    assert mine.report["valid"] == pytest.approx(theirs.report["valid"], abs=1e-6)
    assert all(torch.equal(value, theirs.weights[name]) for name, value in mine.weights.items())


@pytest.mark.long
@pytest.mark.parametrize("setting", ["inductive", "two graphs"])
def test_two_processes_make_the_run_of_one(tmp_path: Path, setting: str) -> None:
    recipe = RECIPE.changed({**OWN, "propagation.folds": 2}, trust=OWN["model.name"])
    valid_graph = make_graph(1, name="other") if setting == "two graphs" else None
    if setting == "inductive":
        recipe = recipe.changed({"training.setting": "inductive", "propagation.scaling": "standard"})
    prepared = prepare(make_graph(), recipe, tmp_path, valid_graph=valid_graph, resources=ONE_THREAD)
    lines: list[dict[str, Any]] = []
    one = train_in(tmp_path / "one", prepared, ONE_THREAD)
    two = train_in(tmp_path / "two", prepared, TWO, lines.append)
    trust = recipe.model.name
    mine, theirs = Bundle.load(one.bundle_path, trust), Bundle.load(two.bundle_path, trust)
    assert mine.weights.keys() == theirs.weights.keys() and (mine.statistics is None) == (setting != "inductive")
    for name, value in mine.weights.items():
        torch.testing.assert_close(theirs.weights[name], value, rtol=0, atol=1e-9)
    assert mine.report["valid"] == pytest.approx(theirs.report["valid"], abs=1e-9)
    assert {**mine.report, "valid": 0} == {**theirs.report, "valid": 0}
    assert [line["epoch"] for line in two.metrics()] == [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]
    for message, expected in zip(two.metrics(), one.metrics()):
        assert message.keys() == expected.keys() and message["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert sorted(path.name for path in two.path.rglob("*")) == sorted(path.name for path in one.path.rglob("*"))


# What dies


@pytest.fixture(scope="module")
def hops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "hops"
    store_of(make_graph(), folder, LONG)
    return folder


CLI = """
import sys
from gamlp.cli.main import main
from gamlp.training.run_folder import RunFolder
from gamlp.run.training import train_run

RunFolder.__init__.__defaults__ = (0.0, *RunFolder.__init__.__defaults__[1:])
sys.argv = ["gamlp", "train", *sys.argv[1:]]
main()
"""


def start(hops: Path, out: Path, *more: str, held: bool = False) -> subprocess.Popen[str]:
    """`gamlp train`; if it is held, it trains some epochs and no further until `go_on`."""
    (out.parent / "recipe.yaml").write_text(LONG.to_yaml())
    if held:
        (out.parent / "held").touch()
    command = [sys.executable, "-c", CLI, str(hops), "--out", str(out), "--recipe", str(out.parent / "recipe.yaml")]
    command += ["--trust", LONG.model.name, "--processes", "2", "--device", "cpu", "--json", *more]
    environment = {**os.environ, HELD: str(out.parent / "held")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def go_on(run: RunFolder) -> None:
    (run.path.parent / "held").unlink()


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def workers(pid: int) -> list[int]:
    """Ranks below a process, in their order."""
    found = {}
    for child in descendants(pid):
        with suppress(psutil.Error):
            if any("gamlp.training.ranks.job" in word for word in child.cmdline()):
                found[int(child.environ()["RANK"])] = child.pid
    return [found[rank] for rank in sorted(found)]


def wait_for(what: Any, seconds: float = 300) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.002)
    raise AssertionError("it did not come")


def far_enough(run: RunFolder) -> bool:
    return run.checkpoint_path(0).exists() and len(run.metrics()) >= 5


@pytest.fixture(scope="module")
def unbroken(hops: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    out = tmp_path_factory.mktemp("unbroken") / "run"
    said = start(hops, out)
    _, errors = said.communicate(timeout=600)
    assert said.returncode == 0, errors[-2000:]
    return RunFolder.open(out, LONG.model.name)


def check_equal(run: RunFolder, unbroken: RunFolder) -> None:
    assert run.bundle_path.read_bytes() == unbroken.bundle_path.read_bytes()
    message = [[{**line, "seconds": 0} for line in of.metrics()] for of in (run, unbroken)]
    assert message[0] == message[1] and len(message[0]) == EPOCHS
    assert [path.name for path in (run.path / "seeds").iterdir()] == ["0.safetensors"]


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_kill_9_of_a_rank_ends_with_the_same_bits(hops: Path, unbroken: RunFolder, tmp_path: Path, rank: int) -> None:
    run = RunFolder(tmp_path / "run")
    said = start(hops, run.path, held=True)
    wait_for(lambda: far_enough(run))
    killed = workers(said.pid)[rank]
    os.kill(killed, signal.SIGKILL)
    go_on(run)
    _, errors = said.communicate(timeout=600)
    assert said.returncode == 0, errors[-2000:]
    check_equal(run, unbroken)


@pytest.mark.long
def test_kill_9_of_the_driver_leaves_no_process_and_resume_ends_with_the_same_bits(
    hops: Path, unbroken: RunFolder, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    said = start(hops, run.path, held=True)
    wait_for(lambda: far_enough(run))
    left = descendants(said.pid)
    assert len(left) >= 2
    said.kill()
    said.communicate()
    wait_for(lambda: not psutil.wait_procs(left, timeout=0.1)[1])
    go_on(run)
    resumed = start(hops, run.path, "--resume")
    _, errors = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, errors[-2000:]
    check_equal(run, unbroken)


# Models of one's own, and what they do


MINE = """
import os, signal
import torch
from torch import nn
from my_layers import Wide


class Mine(nn.Module):
    def __init__(self, shape, *, end=""):
        super().__init__()
        self.wide, self.end, self.steps = Wide(shape), end, 0

    def forward(self, x, y=None):
        self.steps += self.training
        if self.end and self.steps == 20 and os.environ["RANK"] == "1":
            if self.end == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("no idea what to do")
        return self.wide(x)
"""
LAYERS = """
from torch import nn


class Wide(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.map = nn.Linear((shape.hops + 1) * shape.features, shape.classes)

    def forward(self, x):
        return self.map(x.flatten(1))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that only this process searches."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_model.py").write_text(MINE)
    (tmp_path / "code" / "my_layers.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield tmp_path
    for name in ("my_model", "my_layers"):
        sys.modules.pop(name, None)


def job_in(folder: Path, graph: Graph, **changes: Any) -> TrainingJob:
    prepared = prepared_in(folder, graph, **changes)
    return TrainingJob.of(prepared, 0, folder / "0.checkpoint", Place.of(folder), checkpoint_seconds=0.0, device="cpu")


@pytest.mark.parametrize(
    ("end", "reason"),
    [pytest.param("kill", "killed, or out of memory", marks=pytest.mark.long), ("raise", "ValueError: no idea")],
)
def test_a_rank_that_always_dies_is_told_after_bounded_restarts(own: Path, end: str, reason: str) -> None:
    job = job_in(own, make_graph(), model__name="my_model:Mine", model__options={"end": end}, training__epochs=50)
    lines: list[dict[str, Any]] = []
    with pytest.raises(
        GamlpError, match=rf"training processes died 2 times \({reason}.*run it again to go on"
    ) as message:
        launch_processes(job, 2, log=own / "0.log", restarts=1, observe=lines.append)
    assert str(message.value).count("\n") == 0 and "rank" in (own / "0.log").read_text()
    # Each attempt goes on where the one before was: 19 steps of two batches are nine epochs, then nine more.
    assert [line["epoch"] for line in lines] == list(range(1, 19)) and (own / "0.checkpoint").exists()


@pytest.mark.long
def test_what_a_person_can_mend_is_told_as_itself_and_not_tried_again(own: Path) -> None:
    job = job_in(own, make_graph(), training__learning_rate=1e38)
    with pytest.raises(GamlpError, match=r"NaN or infinite in epoch 1, before any good weights; lower training\.lea"):
        launch_processes(job, 2, log=own / "0.log")
    with pytest.raises(GamlpError, match="there is no model 'gmlp': did you mean 'gamlp'"):
        launch_processes(job.model_copy(update={"recipe": {"model": {"name": "gmlp"}}}), 2, log=own / "0.log")


def test_a_damaged_shard_is_told_by_the_rank_that_reads_it(own: Path) -> None:
    job = job_in(own, make_graph())
    (shard,) = Path(job.store).glob("features-*/00000.npy")
    content = bytearray(shard.read_bytes())
    content[-7] ^= 16
    shard.write_bytes(content)
    with pytest.raises(GamlpError, match=r"00000\.npy: is damaged: its bytes are not those that were written"):
        launch_processes(job, 2, log=own / "0.log")


def test_the_code_of_ones_own_model_travels_with_the_job(own: Path) -> None:
    assert sorted(sources_of("my_model:Mine")) == ["my_layers.py", "my_model.py"]
    assert sources_of("gamlp") == sources_of("torch.nn:Linear") == sources_of("json:JSONDecoder") == {}
    package = own / "code" / "my_package"
    (package / "deep").mkdir(parents=True)
    for name in ("__init__.py", "net.py", "deep/__init__.py", "deep/layer.py", "notes.txt"):
        (package / name).write_text("")
    found = sources_of("my_package.net:Net")
    assert sorted(found) == [
        f"my_package/{name}" for name in ("__init__.py", "deep/__init__.py", "deep/layer.py", "net.py")
    ]
    with unpacked({"only_sent.py": "value = 7"}):
        import only_sent  # type: ignore[import-not-found]

        assert only_sent.value == 7 and not Path(only_sent.__file__).is_relative_to(own)
    assert not Path(only_sent.__file__).exists()
    for name in ("../out.py", "/out.py"):
        with pytest.raises(GamlpError, match="is no path of a module"), unpacked({name: ""}):
            pass


def test_a_job_is_plain_json_and_its_result_is_sealed(own: Path) -> None:
    job = job_in(own, make_graph(), model__name="my_model:Mine")
    again = TrainingJob.model_validate(json.loads(job.model_dump_json()))
    assert again == job and Recipe.of(again.recipe, trust="my_model:Mine").model.name == "my_model:Mine"
    assert read_result(job) is None
    Path(job.result).write_bytes(b"nonsense")
    with pytest.raises(GamlpError, match="the result of training is damaged"):
        read_result(job)
