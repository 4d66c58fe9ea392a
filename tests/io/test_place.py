"""Places: a folder here and one behind a URL answer alike, and files appear whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.io import Place, RemoteRows, RowShards, is_url, npy_buffer, npy_size, open_rows, put_rows, scratch_folder


@pytest.fixture(params=["folder", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield Place.of(tmp_path)
        return
    yield Place.of(f"memory://{tmp_path.name}")
    system = fsspec.filesystem("memory")
    if system.exists(f"/{tmp_path.name}"):
        system.rm(f"/{tmp_path.name}", recursive=True)


def test_what_is_put_is_read_back_whole_and_in_parts(place: Place) -> None:
    file = place / "deep" / "file"
    assert not file.exists() and file.size() is None
    file.put(b"0123456789")
    assert (file.size(), file.read(), file.read(3, 6), file.read(8)) == (10, b"0123456789", b"345", b"89")
    assert file.checksum() == zlib.crc32(b"0123456789")
    file.put(b"other")
    assert file.read() == b"other" and (place / "deep").names() == ["file"] == list((place / "deep").sizes())
    assert (place / "deep").sizes() == {"file": 5}


def test_a_file_that_fails_leaves_what_was_there(place: Place) -> None:
    file = place / "file"
    file.put(b"before")
    with pytest.raises(RuntimeError), file.writing() as stream:
        stream.write(b"half")
        raise RuntimeError
    assert file.read() == b"before" and place.names() == ["file"]
    with file.writing() as stream:
        stream.write(b"whole")
    assert file.read() == b"whole"


def test_removal_takes_folders_and_forgives_what_is_not_there(place: Place) -> None:
    (place / "folder" / "a").put(b"a")
    (place / "folder" / "b" / "c").put(b"c")
    (place / "folder").remove()
    assert not (place / "folder").exists() and (place / "folder").names() == []
    (place / "folder").remove()


def test_a_local_file_is_put_and_fetched(place: Place, tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"content")
    (place / "to").put_file(tmp_path / "from")
    assert (place / "to").read() == b"content"
    fetched = (place / "to").local_copy()
    assert fetched.read_bytes() == b"content"
    assert (fetched.parent == scratch_folder()) is (place.local is None)


@pytest.mark.parametrize(
    ("text", "url"),
    [("s3://bucket/x", True), ("memory://x", True), ("file:///tmp/x", False), ("/tmp/x", False), ("a:b", False)],
)
def test_urls_are_told_from_paths(text: str, url: bool) -> None:
    assert is_url(text) is url
    assert (Place.of(text).local is None) is url


def test_an_unknown_kind_of_url_is_one_sentence() -> None:
    with pytest.raises(GamlpError, match="nowhere://x: is no address"):
        Place.of("nowhere://x").exists()


def test_rows_are_read_as_numpy_reads_them(place: Place) -> None:
    values = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    put_rows(place / "rows.npy", values)
    rows = open_rows(place / "rows.npy")
    assert (place / "rows.npy").size() == npy_size(values.shape, values.dtype)
    for key in (slice(3, 9), slice(None), slice(290, 400), slice(0, 10, 3), 7, -1, np.array([5, 0, 299, 5])):
        assert np.array_equal(rows[key], values[key])
    assert rows[np.zeros(0, np.int64)].shape == (0, 5)
    assert np.array_equal(rows[10:20, 1:3], values[10:20, 1:3])
    assert np.array_equal(np.asarray(rows), values) and rows.shape == values.shape and rows.nbytes == values.nbytes


def test_shards_are_one_array(place: Place) -> None:
    values = np.arange(50, dtype=np.int64).reshape(25, 2)
    stops = [4, 4, 17, 25]
    for index, (begin, end) in enumerate(zip([0, *stops], stops)):
        put_rows(place / f"{index}.npy", values[begin:end])
    shards = RowShards([place / f"{index}.npy" for index in range(4)], stops, (2,), np.int64)
    assert len(shards) == 25 and shards.shape == (25, 2)
    for key in (slice(2, 20), slice(4, 17), slice(0, 0), np.array([24, 0, 4, 3, 3]), 16):
        assert np.array_equal(shards[key], values[key])
    put_rows(place / "2.npy", values[:3])
    with pytest.raises(GamlpError, match=r"2\.npy: holds int64 of shape \(3, 2\), not int64 of shape \(13, 2\)"):
        RowShards([place / f"{index}.npy" for index in range(4)], stops, (2,), np.int64)[5]


def test_a_file_that_was_cut_off_is_told(place: Place) -> None:
    put_rows(place / "rows.npy", np.arange(100))
    (place / "rows.npy").put((place / "rows.npy").read()[:-50])
    with pytest.raises(GamlpError, match=r"rows\.npy: (not a readable \.npy array|is shorter than it says)"):
        open_rows(place / "rows.npy")[0:100]
    with pytest.raises(GamlpError, match=r"missing\.npy: file is missing"):
        open_rows(place / "missing.npy")[0:1]


def test_what_is_no_array_is_told(tmp_path: Path) -> None:
    place = Place.of(f"memory://{tmp_path.name}") / "text.npy"
    place.put(b"no array at all")
    with pytest.raises(GamlpError, match=r"text\.npy: not a readable \.npy array"):
        len(RemoteRows(place))
    place.remove()


def test_rows_computed_in_place_are_a_file(tmp_path: Path) -> None:
    whole, rows = npy_buffer((3, 4), np.float32)
    rows[:] = np.arange(12).reshape(3, 4)
    Place.of(tmp_path / "rows.npy").put(whole)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), np.arange(12, dtype=np.float32).reshape(3, 4))
