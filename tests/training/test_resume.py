"""Killed at any moment and resumed, a run ends as an unbroken one, to the bit, and has every epoch once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.recipe import Recipe
from gamlp.run.training import train_run
from gamlp.training import run_folder
from gamlp.training.bundle import Bundle
from gamlp.training.checkpoint import TrainingState, save_tensors, with_digest
from gamlp.training.loop import Fitted, Machine
from gamlp.training.rows import Prepared
from gamlp.training.run_folder import About, RunFolder
from gamlp.training.seeds import bundle_of, fit_prepared
from tests.training.small import ONE_THREAD, RECIPE, make_graph, prepared_in, same_weights, trained

SEEDS = (0, 1)
EPOCHS = 5
LONG: dict[str, Any] = {
    "training__epochs": EPOCHS,
    "training__seeds": list(SEEDS),
    "training__schedule": "cosine",
    "training__warmup": 2,
    "model__batch_norm": True,
    "model__attention": "jk",
    "model__reference": "noise",
}


class Killed(BaseException):
    """As sudden as a signal, but in this process."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_in(tmp_path_factory.mktemp("hops"), make_graph(), **LONG)


def run_in(folder: Path, prepared: Prepared, observe: Callable[[dict[str, Any]], None] | None = None) -> RunFolder:
    run = RunFolder.create(folder, About(graph=None, store="hops"), prepared.recipe, resume=True)
    train_run(prepared, replace(run, checkpoint_seconds=0.0), resources=ONE_THREAD, observe=observe)
    return run


@pytest.fixture(scope="module")
def unbroken(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run_in(tmp_path_factory.mktemp("unbroken") / "run", prepared)


def check_equal(run: RunFolder, unbroken: RunFolder) -> None:
    for seed, bundle in unbroken.bundles().items():
        other = Bundle.load(run.seed_path(seed))
        assert same_weights(bundle.weights, other.weights) and bundle.report == other.report
    assert run.bundle_path.read_bytes() == unbroken.bundle_path.read_bytes()

    def told(of: RunFolder) -> list[dict[str, Any]]:
        return [{key: value for key, value in line.items() if key != "seconds"} for line in of.metrics()]

    assert told(run) == told(unbroken)
    assert len({(line["seed"], line["epoch"]) for line in told(run)}) == len(told(run))
    assert not list(run.path.glob("seeds/*.checkpoint"))


IN_THE_MIDST = """
import os, sys, torch
from pathlib import Path
from gamlp.training import checkpoint
os.fsync = lambda _: os.kill(os.getpid(), 9)
checkpoint.save_tensors(Path(sys.argv[1]), {"a": torch.ones(3)}, {})
"""


@pytest.mark.slow
def test_killed_while_a_file_is_written_leaves_nothing_behind(
    prepared: Prepared, unbroken: RunFolder, tmp_path: Path
) -> None:
    run = RunFolder.create(tmp_path / "run", About(graph=None, store="hops"), prepared.recipe, resume=False)
    for place in (run.checkpoint_path(0), run.seed_path(0)):
        killed = subprocess.run([sys.executable, "-c", IN_THE_MIDST, str(place)], check=False)
        assert killed.returncode == -signal.SIGKILL and list(run.path.glob(f"seeds/.{place.name}.*"))
    check_equal(run_in(run.path, prepared), unbroken)
    assert {path.name for path in (run.path / "seeds").iterdir()} == {"0.safetensors", "1.safetensors"}


@pytest.mark.parametrize("epoch", range(1, EPOCHS + 1))
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_after_an_epoch_before_its_checkpoint(
    prepared: Prepared, unbroken: RunFolder, tmp_path: Path, seed: int, epoch: int
) -> None:
    def kill(line: dict[str, Any]) -> None:
        if (line["seed"], line["epoch"]) == (seed, epoch):
            raise Killed

    with pytest.raises(Killed):
        run_in(tmp_path / "run", prepared, kill)
    check_equal(run_in(tmp_path / "run", prepared), unbroken)


@pytest.mark.parametrize("moment", ["keep", "seed_path", "unlink", "choose"])
def test_killed_between_the_last_epoch_and_the_next_seed(
    prepared: Prepared, unbroken: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        if moment == "unlink":  # the bundle is there, and the checkpoint still
            patched.setattr(Path, "unlink", kill)
        elif moment == "seed_path":
            patched.setattr(Bundle, "save", kill)
        else:
            patched.setattr(RunFolder, moment, kill)
        with pytest.raises(Killed):
            run_in(tmp_path / "run", prepared)
    check_equal(run_in(tmp_path / "run", prepared), unbroken)


def test_killed_again_and_again_after_every_epoch(prepared: Prepared, unbroken: RunFolder, tmp_path: Path) -> None:
    seen: set[tuple[int, int]] = set()

    def kill(line: dict[str, Any]) -> None:
        if (line["seed"], line["epoch"]) not in seen:
            seen.add((line["seed"], line["epoch"]))
            raise Killed

    for _ in range(100):
        try:
            check_equal(run_in(tmp_path / "run", prepared, kill), unbroken)
        except Killed:
            continue
        break
    assert len(seen) == len(SEEDS) * EPOCHS


@pytest.mark.parametrize("kind", ["patience", "NaN"])
def test_a_run_that_stopped_early_and_was_killed_trains_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The epoch after the last would be a better one."""
    curve = [0.5, 0.4, 0.3, 0.9, 1.0, 1.0] if kind == "patience" else [0.5, 0.4, np.nan, 0.9, 1.0, 1.0]
    left = iter(curve)

    def evaluate(*_: Any) -> dict[str, float]:
        score = next(left)
        return {"score": score, "loss": 1 - score}

    prepared = prepared_in(tmp_path, make_graph(), training__patience=2)
    monkeypatch.setattr("gamlp.training.loop.evaluate", evaluate)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(RunFolder, "keep", lambda *_: (_ for _ in ()).throw(Killed))
        run_in(tmp_path / "run", prepared)
    report = run_in(tmp_path / "run", prepared).bundles()[0].report
    assert (report["epoch"], report["epochs"]) == (1, 3)
    assert ("NaN" if kind == "NaN" else "no better") in report["stopped"]


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped", "foreign", "folder", "other model"])
def test_a_damaged_checkpoint_is_told_in_a_sentence(prepared: Prepared, tmp_path: Path, damage: str) -> None:
    place = tmp_path / "0.checkpoint"
    trained(prepared, checkpoint=place, checkpoint_seconds=0.0)
    whole = place.read_bytes()
    if damage == "folder":
        place.unlink()
        place.mkdir()
    elif damage == "foreign":
        save_tensors(place, {}, with_digest("[]", {}))
    elif damage == "other model":
        other = prepared_in(tmp_path / "other", make_graph(), RECIPE)
        trained(other, checkpoint=tmp_path / "other.checkpoint", checkpoint_seconds=0.0)
        (tmp_path / "other.checkpoint").replace(place)
    else:
        flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
        content = {"empty": b"", "text": b"hello", "cut": whole[: len(whole) // 2], "flipped": flipped}[damage]
        place.write_bytes(content)
    with pytest.raises(GamlpError, match="damaged or foreign checkpoint; remove it to train this seed from the start"):
        trained(prepared, checkpoint=place)


def test_a_run_of_another_recipe_or_without_resume_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    about = About(graph=None, store="hops")
    RunFolder.create(tmp_path, about, prepared.recipe, resume=False)
    with pytest.raises(GamlpError, match="already holds a run; go on with gamlp train --resume"):
        RunFolder.create(tmp_path, about, prepared.recipe, resume=False)
    with pytest.raises(GamlpError, match=r"another recipe \('training\.epochs' differs\)"):
        RunFolder.create(tmp_path, about, prepared.recipe.changed({"training.epochs": 9}), resume=True)
    elsewhere = About(graph=run_folder.Origin(graph="other"), store="hops")
    with pytest.raises(GamlpError, match="a run on another graph"):
        RunFolder.create(tmp_path, elsewhere, prepared.recipe, resume=True)
    with pytest.raises(GamlpError, match="the run is unfinished"):
        RunFolder.open(tmp_path)


def test_a_line_of_metrics_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, About(graph=None, store="hops"), Recipe(), resume=False)
    write = run.lines(0)
    for epoch in (1, 2):
        write({"seed": 0, "epoch": epoch})
    with run.metrics_path.open("a") as file:
        file.write('{"seed": 0, "ep')
    run.lines(0)({"seed": 0, "epoch": 3})
    assert [line["epoch"] for line in run.metrics()] == [1, 2, 3]
    assert len(run.metrics_path.read_text().splitlines()) == 3


AVERAGED = {
    "training__epochs": 5,
    "training__ema": 0.6,
    "consistency": {"teacher": "average", "warmup": 2, "batch_size": 5},
    "model__batch_norm": True,
}
WINDOW = {"training__epochs": 8, "training__window": 3, "training__monitor": "smooth", "training__metric": "roc_auc"}


def bytes_of(prepared: Prepared, done: Fitted, folder: Path) -> bytes:
    bundle_of(prepared, done, 0).save(folder / "bundle")
    return (folder / "bundle").read_bytes()


@pytest.mark.parametrize("kind", ["window", "averages"])
def test_killed_after_any_epoch_the_numbers_of_the_window_and_averaged_weights_are_kept(
    tmp_path: Path, kind: str
) -> None:
    settings = {**WINDOW, "training__patience": 3} if kind == "window" else AVERAGED
    prepared = prepared_in(tmp_path / "hops", make_graph(), **settings)
    unbroken = trained(prepared)
    assert unbroken.epoch > 1 and ("metric" in unbroken.valid) is (kind == "window")
    for epoch in range(1, unbroken.epochs):

        def kill(line: dict[str, Any], last: int = epoch) -> None:
            if line["epoch"] == last + 1:  # the checkpoint of the epoch before is there
                raise Killed

        machine = Machine(checkpoint=tmp_path / f"{epoch}.checkpoint", checkpoint_seconds=0.0)
        with pytest.raises(Killed):
            fit_prepared(prepared, 0, machine, observe=kill)
        done = fit_prepared(prepared, 0, machine)
        assert (done.epoch, done.epochs, done.stopped) == (unbroken.epoch, unbroken.epochs, unbroken.stopped)
        assert bytes_of(prepared, done, tmp_path) == bytes_of(prepared, unbroken, tmp_path)


def test_paused_after_every_epoch_training_goes_on_to_the_same_bytes(prepared: Prepared, tmp_path: Path) -> None:
    unbroken, asked, epochs = trained(prepared), [], []

    def pause(state: TrainingState) -> bool:
        asked.append(state.epoch)
        return True

    machine = Machine(checkpoint=tmp_path / "checkpoint", pause=pause)
    for _ in range(EPOCHS):
        done = fit_prepared(prepared, 0, machine)
        epochs.append(done.epochs)
        assert not done.stopped and 1 <= done.epoch <= done.epochs and done.weights
    assert epochs == [*range(1, EPOCHS + 1)] and asked == [*range(1, EPOCHS)]  # nothing is left to pause after the last
    assert bytes_of(prepared, done, tmp_path) == bytes_of(prepared, unbroken, tmp_path)


CHILD = """
import sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[2])
from tests.training.small import make_graph, prepared_in
from tests.training.test_resume import LONG, run_in

folder, held = Path(sys.argv[1]), int(sys.argv[3])
prepared = prepared_in(folder / "hops", make_graph(), **{**LONG, "training__epochs": 60})
print("ready", flush=True)


def hold(line):
    if line["seed"] == held and line["epoch"] > 40:
        time.sleep(600)  # killed before, or here


run_in(folder / "run", prepared, hold)
"""


@pytest.mark.long
@pytest.mark.slow
def test_kill_9_of_a_process_and_resume_end_with_the_same_bits(tmp_path: Path) -> None:
    def start(held: int = -1) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(tmp_path), str(Path(__file__).parents[2]), str(held)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        return child

    broken, delays = RunFolder(tmp_path / "run"), random.Random(5)
    for seed in SEEDS:  # once in the middle of each seed
        child = start(seed)
        while not broken.checkpoint_path(seed).exists():
            assert child.poll() is None
            time.sleep(0.002)
        time.sleep(delays.uniform(0.01, 0.1))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert child.returncode == -signal.SIGKILL and not broken.bundle_path.exists()
    start().communicate()
    assert broken.bundle_path.exists()
    prepared = prepared_in(tmp_path / "hops", make_graph(), **{**LONG, "training__epochs": 60})
    check_equal(broken, run_in(tmp_path / "unbroken", prepared))
