"""CRC-32 of files: while they are written, past the page cache, or through it by all cores."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from gamlp.io.direct import DirectReader
from gamlp.io.parallel import parallel_map, usable_cores

_CHUNK = 8 << 20  # bytes summed at a time while writing, and read past the cache
_PIECE = 256 << 10  # bytes read through the cache at a time: they stay in that of the processor until they are summed
_RANGE = 64 << 20  # bytes of a file that a thread sums
_POLYNOMIAL = 0xEDB88320


def _crc32(data: Any, crc: int = 0) -> int:
    from gamlp.kernel import crc32  # when something is first summed: it imports Arrow

    return crc32(data, crc)


class ChecksumStream:
    """A stream that counts the bytes that are written to it, and keeps their CRC-32."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.bytes, self.crc = stream, 0, 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for begin in range(0, len(view), _CHUNK):
            piece = view[begin : begin + _CHUNK]
            self.stream.write(piece)
            self.crc = _crc32(piece, self.crc)
        self.bytes += len(view)
        return len(view)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        """The stream is closed by who opened it."""

    def size_and_checksum(self) -> list[int]:
        return [self.bytes, self.crc]


def checksum(path: Path, *, fresh: bool = False) -> int:
    """CRC-32 of a file; a large one is read past the page cache, unless it is `fresh` and so is there already."""
    if fresh or path.stat().st_size < _CHUNK:
        # Reading past the cache would first wait for the disk to take what was just written.
        return cached_checksum(path)
    crc, position = 0, 0
    with DirectReader(path) as reader:
        while len(data := reader.read(position, position + _CHUNK)):
            crc, position = _crc32(data.data, crc), position + len(data)
    return crc


def cached_checksum(path: Path) -> int:
    """CRC-32 of a file through the page cache, by all cores."""
    size = path.stat().st_size
    if size <= _RANGE:
        return _range_checksum(path, 0, size)

    def summed(begin: int) -> tuple[int, int]:
        return begin, _range_checksum(path, begin, min(begin + _RANGE, size))

    parts = parallel_map(usable_cores(), summed, range(0, size, _RANGE))
    crc = 0
    for begin, part in sorted(parts):
        crc = combined(crc, part, min(_RANGE, size - begin))
    return crc


def _range_checksum(path: Path, begin: int, end: int) -> int:
    if begin >= end:
        return 0
    with path.open("rb", buffering=0) as file:
        if _in_page_cache(file.fileno(), begin, end):  # twice as fast as with a copy
            with mmap.mmap(file.fileno(), end - begin, prot=mmap.PROT_READ, offset=begin) as mapped:
                view = np.frombuffer(mapped, np.uint8)
                crc = _crc32(view)
                del view  # a map that is looked at cannot be closed
                return crc
        crc, buffer = 0, memoryview(bytearray(min(_PIECE, end - begin)))
        file.seek(begin)
        while begin < end and (count := file.readinto(buffer[: end - begin])):
            crc, begin = _crc32(buffer[:count], crc), begin + count
    return crc


def _in_page_cache(file: int, begin: int, end: int) -> bool:
    """Whether the range is in memory, judged by samples. What is not is read: a bad sector ends a map with a signal."""
    if not hasattr(os, "RWF_NOWAIT") or begin % mmap.ALLOCATIONGRANULARITY:
        return False
    byte = bytearray(1)
    try:
        return all(os.preadv(file, [byte], at, os.RWF_NOWAIT) for at in (*range(begin, end, _PIECE), end - 1))
    except OSError:  # it would have to wait for the disk, or the file system does not say
        return False


def combined(first: int, second: int, length: int) -> int:
    """CRC-32 of two pieces one after the other, from that of each; the second has `length` bytes.

    A CRC is linear: the first one is moved on by `length` bytes, that is multiplied by x^(8·length) modulo the
    polynomial.

    >>> import zlib
    >>> combined(zlib.crc32(b"graph"), zlib.crc32(b" attention"), 10) == zlib.crc32(b"graph attention")
    True
    """
    power, square = 0x80000000, 0x00800000  # 1 and x^8; the highest bit is x^0
    while length:
        if length & 1:
            power = _times(square, power)
        square, length = _times(square, square), length >> 1
    return _times(power, first) ^ second


def _times(one: int, other: int) -> int:
    """The product of two polynomials modulo that of CRC-32."""
    product, bit = 0, 0x80000000
    while bit:
        if one & bit:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
        bit >>= 1
    return product
