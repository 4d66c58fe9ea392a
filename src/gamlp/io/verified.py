"""Files are compared with the checksum they were written with, before anything is computed from them.

A file is read once for it, through the page cache, where what computes finds it right after. What was found is
remembered for as long as this process lives and the file has the same size, time and inode: nothing on disk says
"verified", so damage that comes later is seen by the next process.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

import numpy as np

from gamlp.errors import GamlpError
from gamlp.io.parallel import parallel_map, usable_cores
from gamlp.io.place import Place

_PIECE = 256 << 10  # bytes read at a time: they stay in the cache until they are summed
_RANGE = 64 << 20  # bytes of a file that a thread sums
_SETTLED = 2 * 10**9  # nanoseconds: a file may change within a tick of its clock and keep its time
_POLYNOMIAL = 0xEDB88320

_known: dict[tuple[str, int, int, int, int], int] = {}
_lock = threading.Lock()


def verify(place: Place | Path, crc32: int, *, hint: str, copy: Path | None = None) -> None:
    """Refuse a file whose bytes are not those that were written; `copy` is where it was fetched to."""
    path = copy if copy is not None else Path(str(place))
    try:
        with _lock:  # all cores sum one file; the next waits
            found = _checksum_of(path)
    except FileNotFoundError as error:
        raise GamlpError("file is missing", file=place, hint=hint) from error
    except OSError as error:  # a bad sector, told here: in a map it would end the process
        raise GamlpError(f"cannot be read ({error.strerror})", file=place, hint=hint) from error
    if found != crc32:
        raise GamlpError("is damaged: its bytes are not those that were written", file=place, hint=hint)


def _checksum_of(path: Path) -> int:
    about = path.stat()
    key = (str(path.absolute()), about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    if key not in _known:
        found = cached_checksum(path)
        if time.time_ns() - about.st_mtime_ns < _SETTLED:
            return found
        _known[key] = found
    return _known[key]


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
    from gamlp.kernel import crc32  # when a file is first verified: it imports Arrow

    if begin >= end:
        return 0
    with path.open("rb", buffering=0) as file:
        if _in_page_cache(file.fileno(), begin, end):  # twice as fast as with a copy
            with mmap.mmap(file.fileno(), end - begin, prot=mmap.PROT_READ, offset=begin) as mapped:
                view = np.frombuffer(mapped, np.uint8)
                crc = crc32(view)
                del view  # a map that is looked at cannot be closed
                return crc
        crc, buffer = 0, memoryview(bytearray(min(_PIECE, end - begin)))
        file.seek(begin)
        while begin < end and (count := file.readinto(buffer[: end - begin])):
            crc, begin = crc32(buffer[:count], crc), begin + count
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
