"""Some rows of a file elsewhere: few bytes are read, few requests made, and little is held."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.io import GAP, Place, RemoteRows, open_rows, put_rows
from gamlp.io.ranges import LONGEST, cut_ranges
from tests.watched_store import watched

ROWS, WIDTH = 60_000, 32  # of 128 bytes
APART = 2 * GAP // (4 * WIDTH)  # rows


def put(place: Place) -> np.ndarray:
    values = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    put_rows(place, values)
    return values


def two_percent() -> np.ndarray:
    """Clusters that lie apart, and holes of some rows in them."""
    starts = np.arange(0, ROWS - 240, APART)
    return np.concatenate([start + np.flatnonzero(np.arange(100) % 10) for start in starts])


def test_of_two_percent_of_rows_near_two_percent_are_read(tmp_path: Path) -> None:
    place = Place.of(f"memory://{tmp_path.name}") / "rows.npy"
    values, rows = put(place), two_percent()
    whole, wanted = values.nbytes, len(rows) * WIDTH * 4
    assert 0.015 * whole < wanted < 0.025 * whole
    with watched() as watch:
        found = open_rows(place)
        assert np.array_equal(found[rows], values[rows])
        assert found.pulled == watch.read  # what is told is what was read
        assert watch.read <= wanted * 10 / 9 + 1024  # the holes, and the header
        assert watch.calls["read"] == 1 + -(-(ROWS - 240) // APART)
    place.remove()


def test_an_object_store_sends_what_is_told(s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    place = Place.of(s3_bucket) / "rows.npy"
    values, rows, sent = put(place), two_percent(), []
    plain = s3fs.S3FileSystem._cat_file

    async def counted(self: Any, *args: Any, **kwargs: Any) -> bytes:
        sent.append(data := await plain(self, *args, **kwargs))
        return data

    monkeypatch.setattr(s3fs.S3FileSystem, "_cat_file", counted)
    s3fs.S3FileSystem.clear_instance_cache()  # those that are there already know the other
    found = open_rows(place)
    assert np.array_equal(found[rows], values[rows])
    assert found.pulled == sum(map(len, sent)) < 0.03 * values.nbytes


def test_rows_come_in_any_order_with_repeats(tmp_path: Path) -> None:
    place = Place.of(f"memory://{tmp_path.name}") / "rows.npy"
    values = put(place)
    rows = np.random.default_rng(0).integers(0, ROWS, 5000)
    assert np.array_equal(RemoteRows(place)[rows], values[rows])
    assert RemoteRows(place)[np.zeros(0, np.int64)].shape == (0, WIDTH)
    place.remove()


def test_little_is_held_at_a_time(tmp_path: Path) -> None:
    place = Place.of(f"memory://{tmp_path.name}") / "rows.npy"
    values, room = put(place), 1 << 20
    found = np.zeros_like(values)
    for part, some, places in RemoteRows(place).parts(np.arange(ROWS), room):
        assert some.nbytes <= room
        found[part] = some[places]
    assert np.array_equal(found, values)
    place.remove()


def test_a_file_that_was_cut_is_told_where_some_rows_are_read(tmp_path: Path) -> None:
    place = Place.of(f"memory://{tmp_path.name}") / "rows.npy"
    put(place)
    place.put(place.read()[:-4])
    with pytest.raises(GamlpError, match=r"rows\.npy: is shorter than it says"):
        RemoteRows(place)[np.array([3, ROWS - 1])]
    place.remove()


@pytest.mark.parametrize("row_bytes", [0, 4, 4096, GAP, 2 * LONGEST])
def test_no_gap_is_wide_and_no_range_is_long(row_bytes: int) -> None:
    rows = np.unique(np.random.default_rng(1).integers(0, 100_000, 3000))
    cuts = cut_ranges(rows, row_bytes)
    assert cuts[0] == 0 and cuts[-1] == len(rows)
    for begin, end in itertools.pairwise(cuts.tolist()):
        own = rows[begin:end]
        assert ((np.diff(own) - 1) * row_bytes <= GAP).all()
        assert len(own) == 1 or (own[-1] + 1 - own[0]) * row_bytes <= LONGEST
