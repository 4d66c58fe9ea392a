"""What a living process holds, and what becomes of it when the process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.io import Place, held, locked, sole_writer, temporary_folder, work_folder
from gamlp.io.held import ALIVE, let_go, take_lock

_DIES = """
import os, sys
from pathlib import Path
from gamlp.io import work_folder
with work_folder(Path(sys.argv[1]), keep=True) as own:
    (own / "hops").mkdir()
    (own / "hops" / "half").write_text("half")
    print(own.name, flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dying(base: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _DIES, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == f"{base.name}\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_work_of_a_living_process_is_left_alone_and_that_of_a_dead_one_gone_on_with(tmp_path: Path) -> None:
    base = tmp_path / ".work"
    first = dying(base)
    with work_folder(base, keep=True) as own:
        assert own.name == ".work-2" and names(own) == [ALIVE]
    with pytest.raises(GamlpError, match="taken"), work_folder(base, refused=GamlpError("taken")):
        pytest.fail("it is alive")
    assert (base / "hops" / "half").exists() and names(tmp_path) == [".work"]
    kill(first)
    with pytest.raises(KeyboardInterrupt), work_folder(base, keep=True) as own:
        assert own == base and (own / "hops" / "half").exists()
        raise KeyboardInterrupt
    with work_folder(base, keep=True) as own:  # what an interruption left
        assert (own / "hops" / "half").exists()
    assert names(tmp_path) == []


def test_work_that_a_kill_left_half_removed_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / ".work"

    def stop(*_: object, **__: object) -> None:
        raise SystemExit

    with pytest.raises(SystemExit), monkeypatch.context() as patched, work_folder(base, keep=True) as own:
        (own / "hops").mkdir()
        patched.setattr(held.shutil, "rmtree", stop)
    assert len(names(base)) == 1 and not (base / "hops").exists()
    with work_folder(base, keep=True) as own:
        assert names(own) == [ALIVE]
    assert names(tmp_path) == []


def test_what_is_not_ours_is_in_the_way_and_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes").write_text("content")
    (tmp_path / ".link").symlink_to(tmp_path / "precious")
    (tmp_path / ".folder").mkdir()
    (tmp_path / ".folder" / "notes").write_text("content")
    (tmp_path / ".file").write_text("content")
    for name in (".link", ".folder", ".file"):
        before = names(tmp_path)
        in_the_way = pytest.raises(GamlpError, match=rf"{name}: is in the way; remove it")
        with in_the_way, work_folder(tmp_path / name, refused=GamlpError("taken")):
            pytest.fail("it was taken")
        with work_folder(tmp_path / name) as own:
            assert own.name == f"{name}-2"
        assert names(tmp_path) == before
    assert (tmp_path / "precious" / "notes").exists() and (tmp_path / ".folder" / "notes").exists()


def test_many_at_once_never_share_a_folder(tmp_path: Path) -> None:
    """Making, holding and removing the same names, as fast as it goes."""
    held_now: set[Path] = set()
    guard = threading.Lock()

    def use(_: int) -> None:
        with work_folder(tmp_path / "deep" / ".work") as own:
            with guard:
                assert own not in held_now, "two hold it"
                held_now.add(own)
            (own / "mine").write_text("")
            assert names(own) == [ALIVE, "mine"]
            with guard:
                held_now.remove(own)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(use, range(120)))
    assert names(tmp_path / "deep") == []


def test_temporary_folders_of_dead_processes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held.tempfile, "gettempdir", lambda: str(tmp_path))
    first = dying(tmp_path / ".gamlp-work-123")
    with temporary_folder() as own:
        assert own.stat().st_mode & 0o777 == 0o700 and len(names(tmp_path)) == 2
    assert names(tmp_path) == [".gamlp-work-123"]
    kill(first)
    with temporary_folder():
        assert len(names(tmp_path)) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "fifo", "folder"])
def test_a_lock_is_a_plain_file_or_refused(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "precious").write_text("content")
    lock = store / ".lock"
    if kind == "link":
        lock.symlink_to(tmp_path / "precious")
    elif kind == "dangling link":
        lock.symlink_to(tmp_path / "new")
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    with pytest.raises(GamlpError, match=r"\.lock: cannot be locked"), sole_writer(Place.of(store), refused="taken"):
        pytest.fail("it was taken")
    assert (tmp_path / "precious").read_text() == "content" and names(tmp_path) == ["precious", "store"]
    assert os.path.lexists(lock)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_lock_in_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(GamlpError, match="cannot be locked"), locked(tmp_path / "file"):
        pytest.fail("it was taken")
    with pytest.raises(GamlpError, match="cannot"), sole_writer(Place.of(tmp_path), refused="taken"):
        pytest.fail("it was taken")


def test_a_lock_whose_file_was_removed_while_one_waited_is_taken_anew(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    first = take_lock(file)
    assert first is not None and take_lock(file) is None
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(take_lock, file, wait=True)
        let_go(first, file)
        second = waiting.result(30)
    assert second is not None and take_lock(file) is None, "the second holds a file without a name"
    let_go(second, file)
    assert names(tmp_path) == []


def test_where_there_are_no_locks_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(held.errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(held.fcntl, "flock", refuse)
    with work_folder(tmp_path / ".work") as own, work_folder(tmp_path / ".work") as other:
        assert own != other
    with pytest.warns(UserWarning, match="has no locks"), sole_writer(Place.of(tmp_path / "store"), refused="taken"):
        pass
