"""Files and folders appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.io import atomic_file, atomic_folder, files, remove_partial, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with atomic_file(path) as new:
        new.write_text("new")
        assert not path.exists() and new.name == path.name
    assert path.read_text() == "new" and names(path.parent) == ["file.txt"]
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as new:
        new.write_text("half")
        (new.parent / "of a library").write_text("its own")
        raise KeyboardInterrupt
    assert path.read_text() == "new" and names(path.parent) == ["file.txt"]


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    texts = [str(number) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda text: [write_text(tmp_path / "file", text) for _ in range(20)], texts))
    assert (tmp_path / "file").read_text() in texts and names(tmp_path) == ["file"]


def test_what_a_kill_leaves_is_found(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom gamlp.io import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as new:\n    new.write_text('half')\n    os.kill(os.getpid(), 9)"
    )
    (tmp_path / "file").write_text("before")
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_text() == "before" and names(tmp_path) == [".file.partial", "file"]
    with atomic_file(tmp_path / "file") as alive, atomic_file(tmp_path / "file") as second:
        assert not alive.exists(), "half of it is still there"
        remove_partial(tmp_path / "file")
        assert alive.parent.exists() and second.parent.exists(), "the living have lost theirs"
        alive.write_text("first")
        second.write_text("second")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "first"


def test_a_second_writer_of_a_file_may_be_refused(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "file", sole=True) as new:
        refused = pytest.raises(GamlpError, match="file: another process is writing this file; wait for it to end")
        with refused, atomic_file(tmp_path / "file", sole=True):
            pytest.fail("two write it")
        new.write_text("first")
    assert (tmp_path / "file").read_text() == "first"


def test_where_nothing_can_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GamlpError, match=r"file: cannot write here \((Not a directory|File exists)\)"):
        write_text(tmp_path / "file" / "inside", "text")
    with pytest.raises(GamlpError, match="cannot write here"), atomic_folder(tmp_path / "file" / "inside"):
        pytest.fail("there is a file")


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="file: no space left on the device"), atomic_file(tmp_path / "file"):
        raise OSError(28, os.strerror(28))
    assert names(tmp_path) == []


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with pytest.raises(RuntimeError), atomic_folder(out) as new:
        (new / "a").write_text("half")
        raise RuntimeError
    assert names(tmp_path) == []
    with atomic_folder(out) as new:
        (new / "a").write_text("a")
        assert not out.exists()
    assert names(out) == ["a"] and names(out.parent) == ["out"]
    with pytest.raises(GamlpError, match="out: already exists"), atomic_folder(out):
        pytest.fail("it is not empty")
    with pytest.raises(RuntimeError), atomic_folder(out, replace=True) as new:
        raise RuntimeError
    assert names(out) == ["a"]
    with atomic_folder(out, replace=True) as new:
        (new / "b").write_text("b")
    assert names(out) == ["b"] and names(out.parent) == ["out"]


def test_of_two_that_write_one_folder_the_second_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with atomic_folder(out) as first:
        (first / "a").write_text("first")
        refused = pytest.raises(GamlpError, match="out: another process is writing this folder; wait for it to end")
        with refused, atomic_folder(out):
            pytest.fail("two write it")
        assert names(first) == ["a"]
    assert names(out) == ["a"] and names(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_has_appeared_meanwhile_stays(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(GamlpError, match="out: has appeared while this was written"), atomic_folder(out) as new:
        (new / "a").write_text("ours")
        if kind == "folder":
            out.mkdir()
            (out / "precious").write_text("theirs")
        else:
            out.write_text("theirs")
    assert names(tmp_path) == ["out"]
    assert (out / "precious" if kind == "folder" else out).read_text() == "theirs"


def test_an_empty_folder_a_link_to_one_and_the_working_folder_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "behind", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "behind")
    monkeypatch.chdir(tmp_path / "here")
    for out in (tmp_path / "empty", tmp_path / "link", Path()):
        with atomic_folder(out) as new:
            (new / "a").write_text("a")
    assert (tmp_path / "link").is_symlink() and names(tmp_path) == ["behind", "empty", "here", "link"]
    assert all((tmp_path / name / "a").exists() for name in ("empty", "behind", "here"))


def test_a_kill_while_a_folder_is_written_is_made_good_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom gamlp.io import atomic_folder\n"
        "with atomic_folder(Path(sys.argv[1])) as new:\n    (new / 'half').mkdir()\n    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False)
    assert names(tmp_path) == [".out.partial"]
    with atomic_folder(tmp_path / "out") as new:
        assert names(new) == []
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == []


@pytest.mark.parametrize("width", [1, 3])
def test_an_array_grows_and_loses_rows(tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHUNK", 64)  # rows are moved a few at a time
    values = np.random.default_rng(0).random((1000, width), np.float32)
    kept = np.random.default_rng(1).random(1000) < 0.5
    for name, mask in (("all", None), ("some", kept), ("none", np.zeros(1000, bool))):
        array = files.GrowingArray(tmp_path / f"{name}.npy", width, np.float32)
        for begin in range(0, 1000, 70):
            array.append(values[begin : begin + 70])
        array.append(values[:0])
        array.finish(mask)
        expected = values if mask is None else values[mask]
        assert array.rows == len(expected)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), expected)
    with pytest.raises(ValueError, match="float64"):
        files.GrowingArray(tmp_path / "x.npy", width, np.float32).append(values.astype(np.float64))
