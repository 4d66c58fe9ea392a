"""One writer at a time, on a file system and on an object store."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import fsspec
import pytest

import gamlp.io.locks
from gamlp.errors import GamlpError
from gamlp.io import Place, locked, sole_writer


@pytest.fixture(params=["folder", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield Place.of(tmp_path / "store")
        return
    yield Place.of(f"memory://{tmp_path.name}/store")
    system = fsspec.filesystem("memory")
    if system.exists(f"/{tmp_path.name}"):
        system.rm(f"/{tmp_path.name}", recursive=True)


def test_a_second_holder_is_refused_and_the_first_goes_on(place: Place) -> None:
    with sole_writer(place, refused="another run is writing this store"):
        refused = pytest.raises(GamlpError, match="another run is writing this store; wait for it to end")
        with refused, sole_writer(place, refused="another run is writing this store"):
            pytest.fail("two hold it")
        (place / "kept").put(b"")
    with sole_writer(place, refused="free again"):
        pass


def test_nothing_is_left_where_nothing_was_begun(place: Place) -> None:
    with pytest.raises(RuntimeError), sole_writer(place, refused="taken"):
        raise RuntimeError
    assert place.names() == [] and (place.local is None or not place.local.exists())


def written_before(place: Place, seconds: float) -> None:
    """As if the store had got it so long ago."""
    system, path = fsspec.core.url_to_fs(place.url)
    system.store[path].modified -= timedelta(seconds=seconds)


@pytest.mark.parametrize("apart", [3600.0, -3600.0], ids=["ahead", "behind"])
def test_clocks_may_be_an_hour_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float) -> None:
    """Of two drivers with such clocks the second is refused while the first lives, and goes on when it is dead."""
    place, clock = Place.of(f"memory://{tmp_path.name}"), time.time
    with sole_writer(place, refused="taken"):
        monkeypatch.setattr(gamlp.io.locks.time, "time", lambda: clock() + apart)
        with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
            pytest.fail("the first is alive")
    monkeypatch.undo()
    lease = place / ".lock-00000003"
    lease.put(json.dumps({"seen": time.time() + apart}).encode())
    with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
        pytest.fail("it was renewed just now")
    written_before(lease, 100)
    with sole_writer(place, refused="taken"):
        assert place.names() == [".lock-00000004"]  # and no trace of having looked at the clock
    place.remove()


def test_a_store_that_tells_no_time_is_judged_by_what_the_lease_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Place, "modified", lambda self: None)
    place = Place.of(f"memory://{tmp_path.name}")
    (place / ".lock-00000001").put(json.dumps({"seen": time.time() - 5}).encode())
    with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
        pytest.fail("it was renewed five seconds ago")
    (place / ".lock-00000001").put(json.dumps({"seen": time.time() - 100}).encode())
    with sole_writer(place, refused="taken"):
        assert place.names() == [".lock-00000002"]
    place.remove()


def test_a_holder_that_died_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.of(f"memory://{tmp_path.name}")
    dead = place / ".lock-0000000001.000000-dead"
    dead.put(b'{"seen": 1.0}')
    written_before(dead, 100)
    with sole_writer(place, refused="taken"):
        assert not dead.exists()
    monkeypatch.setattr(gamlp.io.locks, "STALE", 1e12)
    dead.put(b'{"seen": 1.0}')
    with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
        pytest.fail("the first is alive")
    place.remove()


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gamlp.io.locks, "RENEWED", 0.05)
    monkeypatch.setattr(gamlp.io.locks, "STALE", 2.0)  # forty renewals: a busy machine may miss many
    place = Place.of(f"memory://{tmp_path.name}")
    with sole_writer(place, refused="taken"):
        time.sleep(2.2)
        with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
            pytest.fail("it was renewed")
    place.remove()


def test_a_lock_that_is_a_link_is_refused_and_what_is_behind_it_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("content")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(GamlpError, match="cannot be locked"),
        sole_writer(Place.of(tmp_path / "store"), refused="taken"),
    ):
        pytest.fail("it was followed")
    (tmp_path / ".file.lock").write_text("notes")
    with locked(tmp_path / "file") as ours:
        assert ours
    assert (tmp_path / "precious").read_text() == "content" and (tmp_path / ".file.lock").read_text() == "notes"


def test_a_lock_of_a_file_is_waited_for_or_not(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "file"):
            order.append("second")

    with ThreadPoolExecutor(1) as threads, locked(tmp_path / "file") as ours:
        assert ours
        with locked(tmp_path / "file", wait=False) as again:
            assert not again
        waiting = threads.submit(second)
        time.sleep(0.2)
        order.append("first")
    waiting.result()
    assert order == ["first", "second"]


def come_at_once(place: Place, count: int = 6) -> int:
    """How many of so many writers held the place; never two at a time."""
    together, inside, held = threading.Barrier(count), threading.Lock(), []

    def write(number: int) -> None:
        together.wait()
        with suppress(GamlpError), sole_writer(place, refused="taken"):
            assert inside.acquire(blocking=False), "two hold it"
            held.append(number)
            time.sleep(0.3)
            inside.release()

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(write, range(count)))
    return len(held)


def test_of_those_who_come_at_once_one_goes_on(place: Place) -> None:
    assert come_at_once(place) == 1
    assert place.names() == []


def test_of_those_who_come_at_once_to_an_object_store_one_goes_on(
    s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(f"{s3_bucket}/store")
    assert place.names() == [] and (place / "new").put_new(b"first") and not (place / "new").put_new(b"second")
    assert (place / "new").read() == b"first"
    (place / "new").remove()
    (place / ".lock-00000007").put(b'{"seen": 1.0}')  # of one that died
    monkeypatch.setattr(gamlp.io.locks, "STALE", 3.0)
    time.sleep(4.1)  # the store counts whole seconds
    assert come_at_once(place) == 1
    assert place.names() == []


@pytest.mark.parametrize("heedless", [False, True])
def test_a_store_without_conditional_puts_has_one_writer_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heedless: bool
) -> None:
    """One that says so, and one that takes no notice of the condition."""

    def put_new(self: Place, data: bytes) -> bool:
        if not heedless:
            raise NotImplementedError
        self.put(data)
        return True

    monkeypatch.setattr(Place, "put_new", put_new)
    place = Place.of(f"memory://{tmp_path.name}")
    assert come_at_once(place) <= 1
    with sole_writer(place, refused="taken"):
        (name,) = place.names()
        assert name.startswith(".lock-00000001-")
        with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
            pytest.fail("two hold it")
    assert place.names() == []
