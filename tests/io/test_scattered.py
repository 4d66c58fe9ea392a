"""Rows of files that are read past their map: which are in memory, and what is said of a file that ends early."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.io import FileRows, map_array, read_scattered, save_array
from gamlp.io import scattered as module

Array = np.ndarray[Any, Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_array(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(5000, 300)).astype(np.float32))
    return tmp_path / "rows.npy"


def test_rows_that_were_just_written_are_in_memory(file: Path) -> None:
    values = map_array(file)
    values[::100].sum()
    rows = np.arange(0, 5000, 100)
    assert FileRows(values, rows, rows).in_memory


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the page cache cannot be told to forget a file")
def test_rows_that_the_page_cache_forgot_are_read_from_the_file(file: Path) -> None:
    expected = np.load(file)
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    values = map_array(file)
    rows = np.sort(np.random.default_rng(1).permutation(5000)[:400])
    part = FileRows(values, rows, np.arange(400))
    if part.in_memory:
        pytest.skip("this file system keeps files in memory")
    out = np.empty((400, 300), np.float32)
    read_scattered([part], out)
    assert np.array_equal(out, expected[rows])


def test_rows_come_whole_where_the_system_reads_less_than_was_asked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, values = np.load(file), map_array(file)
    whole = os.preadv
    monkeypatch.setattr(
        module.os, "preadv", lambda fd, views, at: whole(fd, [views[0][: max(1, len(views[0]) // 2)]], at)
    )
    rows = np.array([3, 4, 5, 9, 4000])
    out = np.empty((5, 300), np.float32)
    read_scattered([FileRows(values, rows, np.array([4, 3, 2, 1, 0]))], out)
    assert np.array_equal(out, expected[rows[::-1]])


def test_a_file_that_became_shorter_is_said(file: Path) -> None:
    values = map_array(file)
    os.truncate(file, 10_000)
    with pytest.raises(GamlpError, match="shorter than it was"):
        read_scattered([FileRows(values, np.array([4999]), np.array([0]))], np.empty((1, 300), np.float32))
