"""A folder behind a URL as one here: what is small is copied both ways, what tasks write has its place there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.io import (
    Place,
    Untrusted,
    atomic_file,
    atomic_folder,
    folder_here,
    mirror,
    patience,
    seen_by_all,
    sole_writer,
)
from tests.watched_store import watched


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place.of(f"memory://{tmp_path.name}/run")
    (found / "recipe.yaml").put(b"old")
    (found / "gone").put(b"here")
    (found / "seeds/0.safetensors").put(b"weights")
    (found / "seeds/0.checkpoint").put(b"state")
    (found / "hops/features/0.npy").put(b"large")
    yield found
    found.remove()


def files(place: Place, above: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in place.names():
        if (place / name).size() is None:
            found |= files(place / name, f"{above}{name}/")
        else:
            found[above + name] = (place / name).read()
    return found


def test_a_folder_here_is_itself(tmp_path: Path) -> None:
    with folder_here(tmp_path / "run", refused="two") as folder:
        assert folder == tmp_path / "run" and seen_by_all(folder / "hops") == tmp_path / "run" / "hops"


def test_what_is_small_is_here_and_what_was_written_is_there_afterwards(place: Place) -> None:
    with folder_here(place.url, ["hops"], refused="two") as folder:
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert names == ["gone", "recipe.yaml", "seeds/0.safetensors"] and folder.name == "run"
        assert seen_by_all(folder / "seeds" / "0.checkpoint") == place / "seeds/0.checkpoint"
        assert seen_by_all(folder / "stages/1" / "../../hops") == place / "hops" and seen_by_all(folder) == place
        (folder / "recipe.yaml").write_text("new")
        (folder / "gone").unlink()
        (folder / "hops").mkdir()
        (folder / "hops" / "mine").write_text("stays here")
        with atomic_file(folder / "seeds" / "1.safetensors") as new:
            new.write_text("more")
    assert files(place) == {
        "recipe.yaml": b"new", "seeds/0.safetensors": b"weights", "seeds/1.safetensors": b"more",
        "seeds/0.checkpoint": b"state", "hops/features/0.npy": b"large",
    }  # fmt: skip
    assert not folder.exists() and seen_by_all(folder) == folder


def test_what_is_read_alone_is_not_sent(place: Place) -> None:
    before = files(place)
    with folder_here(place, ["hops"]) as folder:
        (folder / "recipe.yaml").write_text("mine")
    assert files(place) == before


def test_what_is_written_is_sent_meanwhile_so_that_a_kill_loses_little(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "BETWEEN", 0.01)
    with folder_here(place, ["hops"], refused="two") as folder:
        (folder / "metrics.jsonl").write_text("{}")
        until = time.monotonic() + 30
        while not (place / "metrics.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert (place / "metrics.jsonl").read() == b"{}"


def test_a_second_writer_is_refused_and_an_error_keeps_what_there_is(place: Place) -> None:
    with (
        pytest.raises(Untrusted, match=r"run/recipe\.yaml: who says so; if") as told,  # of its own kind
        folder_here(place, ["hops"], refused="two") as folder,
    ):
        with pytest.raises(GamlpError, match="two write"), sole_writer(place, refused="two write"):
            pass
        (folder / "half").write_text("done")
        raise Untrusted("a name", "who says so", folder / "recipe.yaml")
    assert told.value.file == f"{place.url}/recipe.yaml" and str(folder) not in str(told.value)
    assert (place / "half").read() == b"done" and not [name for name in place.names() if name.startswith(".")]


def test_calls_that_fail_are_made_again_or_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a lock's own calls the first that fails is told: whether it was answered is not known."""
    monkeypatch.setattr(patience, "WAITS", (0.0, 0.0, 0.0))
    done = 0
    with watched(fails=11) as watch:
        for number in range(30):
            try:
                with folder_here(place, ["hops"], refused="two") as folder:
                    (folder / "recipe.yaml").write_text(f"{number}")
                done += 1
                assert (place / "recipe.yaml").read() == f"{number}".encode()
            except GamlpError as error:
                assert "cannot be reached (" in str(error) and "Connection reset by peer" in str(error)
    assert watch.failed > 10 and done > 10


def test_what_is_there_already_is_told_apart_from_a_store_that_does_not_answer(place: Place) -> None:
    """Also where the call that would look fails."""
    with watched(fails=2):
        assert not (place / "recipe.yaml").put_new(b"mine")
    assert (place / "recipe.yaml").read() == b"old"


@pytest.mark.parametrize("write", [atomic_file, atomic_folder, lambda path: sole_writer(Place(str(path)), refused="")])
def test_a_url_that_was_taken_for_a_path_is_refused(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called `s3:` would come to lie here."""
    monkeypatch.chdir(tmp_path)
    told = "s3://bucket/run: is a URL, and this is written to a file system alone"
    with pytest.raises(GamlpError, match=told), write(Path("s3://bucket/run")):
        pass
    assert list(tmp_path.iterdir()) == []
