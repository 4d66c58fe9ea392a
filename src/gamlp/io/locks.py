"""One writer at a time: a lock on a file system, a lease that is renewed on an object store."""

from __future__ import annotations

import fcntl
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from gamlp.errors import GamlpError
from gamlp.io.files import disk_full_as_error
from gamlp.io.place import Place

LOCK = ".lock"
RENEWED = 15.0  # seconds between two signs of life
STALE = 90.0  # seconds without one after which a writer is taken for dead


@contextmanager
def sole_writer(place: Place, *, refused: str, kept: tuple[str, ...] = ()) -> Iterator[None]:
    """Make the folder if need be and hold it; a second holder is refused.

    Where none of the names in `kept` is there at the end, nothing was begun, and a folder that was made is removed.
    """
    if place.local is None:
        with _signs_of_life(place, refused):
            yield
        return
    folder = place.local
    made = not folder.exists()
    try:
        with disk_full_as_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise GamlpError(f"cannot be a store ({error.strerror})", file=folder, hint="choose another --out") from error
    with (folder / LOCK).open("w") as lock, disk_full_as_error(folder):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GamlpError(refused, file=folder, hint="wait for it to end") from error
        try:
            yield
        finally:
            if not any((folder / name).exists() for name in kept):
                (folder / LOCK).unlink(missing_ok=True)
                if made and not any(folder.iterdir()):
                    folder.rmdir()


@contextmanager
def _signs_of_life(place: Place, refused: str) -> Iterator[None]:
    """An object store has no locks. Each writer puts a sign of its own and then lists all: the first one stays.

    Two that come at once both see both signs, and the one whose name sorts first goes on.
    """
    own = place / f"{LOCK}-{time.time():017.6f}-{uuid.uuid4().hex[:8]}"
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED):
            own.put(json.dumps({"seen": time.time()}).encode())

    own.put(json.dumps({"seen": time.time()}).encode())
    thread = threading.Thread(target=renew, daemon=True)
    try:
        for name in place.names():
            if name.startswith(f"{LOCK}-") and name < own.name:
                if _alive(place / name):
                    raise GamlpError(
                        refused, file=place, hint=f"wait for it to end; a dead one is passed over after {STALE:g} s"
                    )
                (place / name).remove()
        thread.start()
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()
        own.remove()


def _alive(sign: Place) -> bool:
    try:
        return time.time() - float(json.loads(sign.read())["seen"]) < STALE
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
