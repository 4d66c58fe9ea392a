"""Files are compared with the checksum they were written with, before anything is computed from them.

A file is read once for it, through the page cache, where what computes finds it right after. What was found is
remembered for as long as this process lives and the file has the same size, time and inode: nothing on disk says
"verified", so damage that comes later is seen by the next process.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.io.checksums import cached_checksum
from gamlp.io.place import Place

_SETTLED = 2 * 10**9  # nanoseconds: a file may change within a tick of its clock and keep its time

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
