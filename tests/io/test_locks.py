"""One writer at a time, on a file system and on an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import gamlp.io.locks
from gamlp.errors import GamlpError
from gamlp.io import Place, sole_writer


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
    with sole_writer(place, refused="another run is writing this store", results=("kept",)):
        refused = pytest.raises(GamlpError, match="another run is writing this store; wait for it to end")
        with refused, sole_writer(place, refused="another run is writing this store", results=("kept",)):
            pytest.fail("two hold it")
        (place / "kept").put(b"")
    with sole_writer(place, refused="free again"):
        pass


def test_nothing_is_left_where_nothing_was_begun(place: Place) -> None:
    with pytest.raises(RuntimeError), sole_writer(place, refused="taken", results=("kept",)):
        raise RuntimeError
    assert place.names() == [] and (place.local is None or not place.local.exists())


def test_a_holder_that_died_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.of(f"memory://{tmp_path.name}")
    dead = place / ".lock-0000000001.000000-dead"
    dead.put(b'{"seen": 1.0}')
    with sole_writer(place, refused="taken"):
        assert not dead.exists()
    monkeypatch.setattr(gamlp.io.locks, "STALE", 1e12)
    dead.put(b'{"seen": 1.0}')
    with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
        pytest.fail("the first is alive")
    place.remove()


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(gamlp.io.locks, "RENEWED", 0.05)
    monkeypatch.setattr(gamlp.io.locks, "STALE", 2.0)  # forty renewals: a busy machine may miss many
    place = Place.of(f"memory://{tmp_path.name}")
    with sole_writer(place, refused="taken"):
        time.sleep(2.2)
        with pytest.raises(GamlpError, match="taken"), sole_writer(place, refused="taken"):
            pytest.fail("it was renewed")
    place.remove()
