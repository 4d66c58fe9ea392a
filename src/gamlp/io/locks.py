"""One writer at a time: a lock on a file system, an object that is renewed on an object store."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.io.files import disk_full_as_error, refuse_url, remove_empty
from gamlp.io.held import NO_LOCKS, let_go, make_folder, remove_dead_work, take_lock
from gamlp.io.place import Place

LOCK = ".lock"
RENEWED = 15.0  # seconds between two renewals
STALE = 90.0  # seconds without one after which a writer is taken for dead


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """One process at a time beside `path`; gives whether it is ours. A process that dies lets go."""
    with disk_full_as_error(path):
        make_folder(path.parent)
    with _file_lock(path.with_name(f".{path.name}{LOCK}"), wait) as ours:
        yield ours


@contextmanager
def _file_lock(file: Path, wait: bool) -> Iterator[bool]:
    try:
        with disk_full_as_error(file):
            descriptor = take_lock(file, wait=wait)
    except FileNotFoundError:
        raise  # the folder is gone
    except OSError as error:
        if error.errno in NO_LOCKS:
            warnings.warn(f"{file.parent} has no locks: let nobody else write there meanwhile", stacklevel=2)
            yield True
            return
        raise GamlpError(f"cannot be locked ({error.strerror})", file=file) from error
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        let_go(descriptor, file)


@contextmanager
def one_of_several(path: Path) -> Iterator[bool]:
    """Be at `path` together with others; gives whether nobody else is there, so that what is unfinished is of the dead.

    To be entered while `locked(path)` is held.
    """
    file = path.with_name(f".{path.name}.users")
    alone = take_lock(file)
    if alone is not None:
        let_go(alone, file)
    descriptor = take_lock(file, wait=True, shared=True)
    assert descriptor is not None
    try:
        yield alone is not None
    finally:
        let_go(descriptor, file)


@contextmanager
def sole_writer(place: Place, *, refused: str) -> Iterator[None]:
    """Make the folder if need be and hold it; a second writer is refused.

    What dead writers left unfinished in it goes first; a folder that was made, and in which nothing came to lie, goes
    at the end.
    """
    if place.local is None:
        with _renewed_object(place, refused):
            yield
        return
    refuse_url(place.local)
    folder = place.local.absolute()
    new = [above for above in (folder, *folder.parents) if not above.exists()]
    with disk_full_as_error(place.local), ExitStack() as stack:
        stack.callback(remove_empty, new)
        if not _hold(folder, place.local, stack):
            raise GamlpError(refused, file=place.local, hint="wait for it to end")
        remove_dead_work(folder, "**/.*.partial*")
        yield


def _hold(folder: Path, shown: Path, stack: ExitStack) -> bool:
    while True:
        try:
            make_folder(folder)
            return stack.enter_context(_file_lock(folder / LOCK, wait=False))
        except FileNotFoundError:  # its last writer left nothing in it, and removed it just now
            continue
        except FileExistsError as error:
            raise GamlpError(
                "is a file where a folder is to be written", file=shown, hint="choose another --out"
            ) from error
        except (NotADirectoryError, PermissionError) as error:
            raise GamlpError(
                f"cannot write here ({error.strerror})", file=shown, hint="choose another --out"
            ) from error


@contextmanager
def _renewed_object(place: Place, refused: str) -> Iterator[None]:
    """An object store has no locks: who writes has an object there, and renews it.

    Its number follows the highest that a dead writer left, and it is put on the condition that there is none of that
    name: of those who come at once, one succeeds. Where the store has no such condition each object has a name of its
    own. Then all are listed: whoever sees another one of a living writer goes. Of two writers one must see the other's.
    """
    error = GamlpError(refused, file=place, hint=f"wait for it to end; a dead one is passed over after {STALE:g} s")
    dead = _dead_writers(place, error)
    own = place / f"{LOCK}-{1 + max((_number(name) for name in dead), default=0):08d}"
    try:
        if not own.put_new(_sign_of_life()):
            raise error
        if own.put_new(_sign_of_life()):  # twice: the store takes no notice of the condition
            own.remove()
            raise NotImplementedError
    except NotImplementedError:
        own = place / f"{own.name}-{uuid.uuid4().hex[:8]}"
        own.put(_sign_of_life())
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED):
            with suppress(GamlpError):  # the network may be back the next time
                own.put(_sign_of_life())

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        for name in _dead_writers(place, error, but=own.name):
            (place / name).remove()
        yield
    finally:
        ended.set()
        thread.join()
        own.remove()


def _dead_writers(place: Place, error: GamlpError, but: str = "") -> list[str]:
    """Names that dead writers left; `error` where there is a living one."""
    names = [name for name in place.names() if name.startswith(f"{LOCK}-") and name != but]
    now = _store_time(place) if names else None
    if any(_is_alive(place / name, now) for name in names):
        raise error
    return names


def _store_time(place: Place) -> float | None:
    """What the store's clock says: those of two machines may be apart. None where it does not tell."""
    probe = place / f"{LOCK}.clock-{uuid.uuid4().hex[:8]}"
    probe.put(b"")
    try:
        return probe.modified()
    finally:
        probe.remove()


def _number(name: str) -> int:
    found = re.match(r"\d+", name.removeprefix(f"{LOCK}-"))
    return int(found[0]) if found else 0


def _sign_of_life() -> bytes:
    return json.dumps({"seen": time.time()}).encode()


def _is_alive(place: Place, now: float | None) -> bool:
    """Whether it was renewed of late: by the store's clock, or by ours and the writer's where that tells no time."""
    try:
        renewed = place.modified()
        if now is not None and renewed is not None:
            return now - renewed < STALE
        return time.time() - float(json.loads(place.read())["seen"]) < STALE
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
