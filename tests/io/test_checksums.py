"""CRC-32 of files, however they are read: zlib's."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.io import checksum, checksums

CONTENT = bytes(range(256)) * 40


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_of_pieces_make_that_of_the_whole(first: bytes, second: bytes) -> None:
    assert checksums.combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_a_large_file_is_summed_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    for size in (1, 1000, len(CONTENT) - 1, len(CONTENT)):
        monkeypatch.setattr(checksums, "_RANGE", size if size > 1 else 64)
        assert checksums.cached_checksum(tmp_path / "file") == zlib.crc32(CONTENT)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 10_240])
@pytest.mark.parametrize("fresh", [False, True])
def test_past_the_cache_and_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fresh: bool) -> None:
    monkeypatch.setattr(checksums, "_CHUNK", 4096)  # what is as long goes past the cache
    (tmp_path / "file").write_bytes(CONTENT[:size])
    assert checksum(tmp_path / "file", fresh=fresh) == zlib.crc32(CONTENT[:size])


def test_a_stream_sums_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "_CHUNK", 1000)
    with (tmp_path / "file").open("wb") as file:
        stream = checksums.ChecksumStream(file)
        for part in (CONTENT, b"", CONTENT[:7]):
            stream.write(part)
    assert stream.size_and_checksum() == [len(CONTENT) + 7, zlib.crc32(CONTENT + CONTENT[:7])]
    assert (tmp_path / "file").read_bytes() == CONTENT + CONTENT[:7]
