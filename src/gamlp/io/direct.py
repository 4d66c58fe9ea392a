"""Large files past the page cache: O_DIRECT where the file system has it, ordinary writes and reads elsewhere.

Bytes that are written once and read much later gain nothing from the cache and pay for it: a copy, fresh pages, the
eviction of what is needed. benchmarks/machine.py times both ways of writing.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import TracebackType

import numpy as np

from gamlp.arrays import Array

PAGE = 4096
_FLAG = getattr(os, "O_DIRECT", 0)
_MOST = 8 << 20  # bytes a call


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | _FLAG, 0o644)
    except OSError:  # tmpfs and some network file systems refuse the flag
        return os.open(path, flags, 0o644)


def aligned(size: int) -> Array:
    """Zeroed bytes that begin on a page."""
    size = max(PAGE, -(-size // PAGE) * PAGE)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, np.uint8)


class DirectWriter:
    """Writes a file of `size` bytes from front to back out of one buffer that callers fill in place.

    `reserve(n)` gives the next n bytes to fill; leaving the block flushes, cuts to size and syncs.
    """

    def __init__(self, path: Path, size: int, capacity: int = 4 << 20) -> None:
        self._path = path
        self._size = size
        self._buffer = aligned(capacity + PAGE)
        self._filled = 0
        self._written = 0
        self._file = -1

    def __enter__(self) -> DirectWriter:
        self._file = _open(self._path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        # All blocks at once: twice as fast as growing the file write by write, and a full disk is known at once.
        if self._size and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._file, 0, self._size)
            except OSError:
                os.close(self._file)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                size = self._written + self._filled
                self._filled = -(-self._filled // PAGE) * PAGE
                self._flush()
                os.ftruncate(self._file, size)
                os.fsync(self._file)
        finally:
            os.close(self._file)

    def reserve(self, count: int) -> Array:
        """The next `count` bytes of the file, to be filled before the next call."""
        if self._filled + count > len(self._buffer):
            self._flush()
            if self._filled + count > len(self._buffer):
                larger = aligned(count + PAGE)
                larger[: self._filled] = self._buffer[: self._filled]
                self._buffer = larger
        view = self._buffer[self._filled : self._filled + count]
        self._filled += count
        return view

    def append(self, data: Array) -> None:
        """Bytes that are in memory already: where they begin on a page, whole pages are written without a copy."""
        straight = 0
        if self._filled == 0 and data.ctypes.data % PAGE == 0:
            straight = len(data) // PAGE * PAGE
            self._write(data[:straight])
        self.reserve(len(data) - straight)[:] = data[straight:]

    def _flush(self) -> None:
        whole = self._filled // PAGE * PAGE
        self._write(self._buffer[:whole])
        rest = self._filled - whole
        self._buffer[:rest] = self._buffer[whole : self._filled]
        self._filled = rest

    def _write(self, pages: Array) -> None:
        done = 0
        while done < len(pages):
            done += os.pwrite(self._file, pages[done : done + _MOST].data, self._written + done)
        self._written += done


class DirectReader:
    """Reads ranges of a file into a buffer; a view is good until the next read. Not for two threads.

    `buffer` is what it was given, `aligned`, or a larger one that a read needed.
    """

    def __init__(self, path: Path, buffer: Array | None = None) -> None:
        self._file = _open(path, os.O_RDONLY)
        self.buffer = aligned(PAGE) if buffer is None else buffer

    def read(self, begin: int, end: int) -> Array:
        """Bytes begin..end, fewer at the end of the file."""
        first = begin // PAGE * PAGE
        if end - first > len(self.buffer):
            self.buffer = aligned(end - first)
        wanted = min(len(self.buffer), -(-(end - first) // PAGE) * PAGE)
        got = 0
        while got < wanted:
            count = os.preadv(self._file, [self.buffer[got:wanted].data], first + got)
            got += count
            if count == 0 or count % PAGE:  # the end of the file
                break
        return self.buffer[begin - first : min(end - first, got)]

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> DirectReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
