"""A folder behind a URL as one on this machine, for as long as it is read or written: its small files are copied.

What tasks elsewhere read and write has its place behind the URL, which `seen_by_all` tells. What is written here is
sent every few seconds, and at the end: a process that is killed loses what it had not sent, and goes on from there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gamlp.errors import GamlpError
from gamlp.io.held import temporary_folder
from gamlp.io.locks import sole_writer
from gamlp.io.place import Place

BETWEEN = 10.0  # seconds from one sending to the next
_ALSO_NOT = (".checkpoint",)  # tasks write them where they belong
_MIRRORS: dict[Path, Place] = {}

_Seen = dict[str, tuple[int, int, int]]


def seen_by_all(path: Path) -> Path | Place:
    """Where all machines find what belongs at a path: in a mirror its place behind the URL, else the path itself."""
    plain = Path(os.path.normpath(path))
    for folder, place in _MIRRORS.items():
        if plain.is_relative_to(folder):
            inside = plain.relative_to(folder).as_posix()
            return place if inside == "." else place / inside
    return path


@contextmanager
def folder_here(place: str | Path | Place, stay: Collection[str] = (), *, refused: str | None = None) -> Iterator[Path]:
    """A folder on this machine for one that may lie behind a URL; a folder here is itself.

    stay: names of folders, at any depth, that are not copied.
    refused: it is written too, and this is said to a second writer. (default: it is only read)
    """
    given = Place.of(place)
    if given.local is not None:
        yield given.local
        return
    with temporary_folder() as above:
        folder = above.resolve() / (given.name or "folder")
        folder.mkdir()
        if refused is None:
            _fetch(given, folder, stay)
            with _known_as(folder, given):
                yield folder
            return
        with sole_writer(given, refused=refused):
            _fetch(given, folder, stay)
            with _known_as(folder, given), _sent(folder, given, stay):
                yield folder


@contextmanager
def _known_as(folder: Path, place: Place) -> Iterator[None]:
    """What goes wrong is told of the place that a person knows."""
    _MIRRORS[folder] = place
    try:
        yield
    except GamlpError as error:
        if error.file is not None:
            error.file = str(seen_by_all(Path(error.file)))
            error.args = (error.sentence(),)
        raise
    finally:
        del _MIRRORS[folder]


def _fetch(place: Place, folder: Path, stay: Collection[str]) -> None:
    files = place.sizes()
    for name in place.names():
        if not _is_copied(name, stay):
            continue
        if name in files:
            (place / name).copy_to(folder / name)
        else:
            (folder / name).mkdir()
            _fetch(place / name, folder / name, stay)


def _is_copied(name: str, stay: Collection[str]) -> bool:
    return not (name.startswith(".") or name in stay or name.endswith(_ALSO_NOT))


@contextmanager
def _sent(folder: Path, place: Place, stay: Collection[str]) -> Iterator[None]:
    """Send what is new while the block runs, and at its end, also where it ends with an error."""
    seen, ended = _files(folder, stay), threading.Event()
    lock = threading.Lock()

    def send() -> None:
        with lock:
            now = _files(folder, stay)
            for name, about in now.items():
                if seen.get(name) != about:
                    with suppress(FileNotFoundError):  # it was replaced or removed just now: see the next time
                        (place / name).put_file(folder / name)
                        seen[name] = about
            for name in seen.keys() - now.keys():
                (place / name).remove()
                del seen[name]

    def send_now_and_then() -> None:
        while not ended.wait(BETWEEN):
            with suppress(GamlpError):  # the store may answer again the next time
                send()

    thread = threading.Thread(target=send_now_and_then, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        with suppress(GamlpError):  # what went wrong first is told
            send()
        raise
    finally:
        ended.set()
        thread.join()
    send()


def _files(folder: Path, stay: Collection[str]) -> _Seen:
    """Every file that is copied, by its name below the folder, with what tells one writing of it from another."""
    found: _Seen = {}
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_copied(name, stay)]
        for name in names:
            path = Path(above) / name
            with suppress(FileNotFoundError):
                about = path.stat()
                if _is_copied(name, stay):
                    found[path.relative_to(folder).as_posix()] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found
