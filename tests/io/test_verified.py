"""A file is compared with its checksum before it is used: once in a process, and again when it has changed."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.io import verified, verify

CONTENT = bytes(range(256)) * 40


def written(folder: Path, seconds_ago: int = 60) -> Path:
    path = folder / "file"
    path.write_bytes(CONTENT)
    aged(path, seconds_ago)
    return path


def aged(path: Path, seconds: int) -> None:
    now = path.stat().st_mtime_ns
    os.utime(path, ns=(now, now - seconds * 10**9))


def test_a_changed_file_is_refused_with_its_name_and_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path)
    verify(path, zlib.crc32(CONTENT), hint="make it again")
    changed = bytearray(CONTENT)
    changed[777] ^= 8
    path.write_bytes(changed)
    with pytest.raises(GamlpError) as raised:
        verify(path, zlib.crc32(CONTENT), hint="make it again")
    assert str(raised.value) == f"{path}: is damaged: its bytes are not those that were written; make it again."


def test_a_file_is_read_once_while_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = written(tmp_path), []
    original = verified.cached_checksum
    monkeypatch.setattr(verified, "cached_checksum", lambda path: read.append(path) or original(path))
    for _ in range(3):
        verify(path, zlib.crc32(CONTENT), hint="")
    assert len(read) == 1
    with pytest.raises(GamlpError):  # what is remembered is what was found, not that it was right
        verify(path, 1, hint="")
    assert len(read) == 1
    aged(path, 90)
    verify(path, zlib.crc32(CONTENT), hint="")
    assert len(read) == 2


def test_a_file_of_this_moment_is_read_each_time(tmp_path: Path) -> None:
    """Within a tick of the clock a file may change and keep its time: nothing is remembered of it."""
    path = written(tmp_path, 0)
    time = path.stat().st_mtime_ns
    verify(path, zlib.crc32(CONTENT), hint="")
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(time, time))
    with pytest.raises(GamlpError, match="is damaged"):
        verify(path, zlib.crc32(CONTENT), hint="")


def test_an_empty_file_has_a_checksum(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    verify(tmp_path / "empty", 0, hint="")
    with pytest.raises(GamlpError, match="is damaged"):
        verify(tmp_path / "empty", 1, hint="")
