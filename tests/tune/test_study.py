"""A study file that is damaged, foreign or hostile: one sentence, and nothing of it is run."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.io import DiskFull, one_of_several
from gamlp.tune.search import Search
from tests.tune.test_search import quick_search

pytest.importorskip("optuna", reason="the search comes with gamlp[tune]")

SPACE = {"training.learning_rate": [0.01, 0.02]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """With a study of two finished trials."""
    search = quick_search(tmp_path_factory.mktemp("study"), SPACE, confirm=1)
    search.run(2)
    return search


@pytest.fixture
def search(made: Search, tmp_path: Path) -> Search:
    """A copy of it, to be damaged."""
    shutil.copytree(made.folder, tmp_path / "s")
    return dataclasses.replace(made, folder=tmp_path / "s")


def change(search: Search, statement: str, *values: Any) -> None:
    with sqlite3.connect(search.folder / "study.db") as study:
        assert study.execute(statement, values).rowcount > 0
    study.close()


@pytest.mark.parametrize("damage", ["text", "cut", "zeros", "empty table", "a folder"])
def test_a_damaged_study_is_one_sentence(damage: str, search: Search) -> None:
    path = search.folder / "study.db"
    data = path.read_bytes()
    path.unlink()
    if damage == "text":
        path.write_text("no study\n" * 1000)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "zeros":
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif damage == "empty table":
        with sqlite3.connect(path) as other:
            other.execute("create table studies (x)")
        other.close()
    else:
        path.mkdir()
    with pytest.raises(GamlpError, match=r"study\.db: .*(damaged|cannot be read)"):
        search.run(3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recipe", [1]),
        ("recipe", {"model": {"hidden": "wide"}}),
        ("scores", []),
        ("scores", "high"),
        ("scores", [None]),
        ("scores", {"a": 1}),
    ],
)
def test_a_trial_that_no_search_wrote_is_refused(key: str, value: Any, search: Search) -> None:
    change(search, "update trial_user_attributes set value_json = ? where key = ?", json.dumps(value), key)
    with pytest.raises(GamlpError, match=r"study\.db: trial 0 is damaged .*choose another --study"):
        search.run(3)


def test_trials_without_their_numbers_are_refused(search: Search) -> None:
    change(search, "update trials set number = null")
    with pytest.raises(GamlpError, match="trials are not numbered"):
        search.run(3)


@pytest.mark.parametrize("text", ["{", "", "[1, 2"])
def test_json_that_is_none_is_refused(text: str, search: Search) -> None:
    change(search, "update trial_user_attributes set value_json = ?", text)
    with pytest.raises(GamlpError, match=r"study\.db: is damaged or no study"):
        search.run(3)


def test_a_trial_without_its_recipe_is_refused(search: Search) -> None:
    change(search, "delete from trial_user_attributes where key = 'recipe'")
    with pytest.raises(GamlpError, match="trial 0 is damaged"):
        search.run(3)


def test_what_a_study_keeps_has_names(search: Search) -> None:
    change(search, "update study_user_attributes set key = null")
    with pytest.raises(GamlpError, match="'None' is damaged"):
        search.run(2)


def test_what_was_confirmed_must_be_numbers(search: Search) -> None:
    change(search, "update study_user_attributes set value_json = '[\"x\"]' where key like 'confirmed-%'")
    with pytest.raises(GamlpError, match=r"'confirmed-.* is damaged"):
        search.run(2)


def test_code_that_a_study_names_is_never_run(search: Search, tmp_path: Path) -> None:
    """The recipe of a finished trial is trained again when the best are confirmed: it may not bring code along."""
    mark = tmp_path / "mark"
    hostile = {"model": {"name": "pydoc:pipepager", "options": {"text": "", "cmd": f"touch {mark}"}}}
    change(search, "update trial_user_attributes set value_json = ? where key = 'recipe'", json.dumps(hostile))
    change(search, "delete from study_user_attributes where key like 'confirmed-%'")
    with pytest.raises(GamlpError, match=r"study\.db: trial 0: 'model.name' is code.*say --trust pydoc:pipepager"):
        search.run(2)
    assert not mark.exists()


def test_a_full_disk_is_one_sentence(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    def full(*_: Any) -> None:
        raise OperationalError("insert", {}, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr(Search, "validate", full)
    with pytest.raises(GamlpError, match=r"study\.db: no space left on the device; free some space"):
        search.run(9)


@pytest.mark.parametrize("size", ["48k", "160k"])
def test_a_full_disk_is_one_sentence_and_the_search_goes_on_once_there_is_room(
    size: str, made: Search, tmp_path: Path
) -> None:
    """When the study is made, and when something is written beside it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        search = dataclasses.replace(made, folder=disk / "s")
        with pytest.raises(GamlpError, match="no space left on the device; free some space") as told:
            search.run(10)
        assert str(told.value).count("\n") == 0
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        assert {trial["state"] for trial in search.run(2).trials} == {"complete"}
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # SQLite has it open


def test_a_trial_that_is_broken_off_is_run_again_under_its_number(
    made: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C, by a full disk, or left by a process that died: the search ends as one that was not interrupted."""
    search = dataclasses.replace(made, folder=tmp_path / "s")
    usual = Search.validate
    ends: list[BaseException] = [KeyboardInterrupt(), DiskFull("no space left")]

    def broken(self: Search, *given: Any) -> None:
        if ends:
            raise ends.pop()
        usual(self, *given)

    monkeypatch.setattr(Search, "validate", broken)
    with pytest.raises(DiskFull):
        search.run(2)
    with pytest.raises(KeyboardInterrupt):
        search.run(2)
    change(search, "update trials set state = 'RUNNING' where number = 0")
    found, expected = search.run(2), made.run(2)
    for one in (*found.trials, *expected.trials):
        one.pop("seconds")
    assert found.trials == expected.trials and found.recipe == expected.recipe


def test_a_trial_of_a_living_process_is_left_to_it(made: Search, tmp_path: Path) -> None:
    search = dataclasses.replace(made, folder=tmp_path / "s")
    shutil.copytree(made.folder, search.folder)
    change(search, "update trials set state = 'RUNNING', datetime_complete = null where number = 1")
    with one_of_several(search.folder / "study.db"):
        states = {trial["trial"]: trial["state"] for trial in search.run(2).trials}
    assert states == {0: "complete", 1: "running", 2: "complete"}
