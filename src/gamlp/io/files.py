"""Files and folders that appear whole or not at all; .npy files that have their space on disk."""

from __future__ import annotations

import ctypes
import errno
import glob
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.io.held import remove_dead_work, work_folder

_CHUNK = 8 << 20
_SCHEME = re.compile(r"[a-z][a-z0-9+]+:")  # of a URL that was taken for a path
_WAIT = "wait for it to end, or choose another --out"


@contextmanager
def atomic_file(path: Path, *, sync: bool = False, sole: bool = False) -> Iterator[Path]:
    """A path to write to: what is there becomes `path` when the block ends well, and vanishes when it does not.

    It has the same name, in a hidden folder beside `path` that every attempt has for itself: two tasks never write into
    each other's file, and what a library writes under names of its own lies there too. `sync`: on the disk, before it
    is renamed. `sole`: a second writer is refused. What a kill left goes with the next attempt.
    """
    refuse_url(path)
    refused = GamlpError("another process is writing this file", file=path, hint=_WAIT) if sole else None
    with disk_full_as_error(path), ExitStack() as stack:
        with _refusal_as_error(path.parent):
            own = stack.enter_context(work_folder(_partial(path), refused=refused))
        yield own / path.name
        if sync:
            with (own / path.name).open("rb") as file:
                os.fsync(file.fileno())
        (own / path.name).replace(path)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """The same of a folder, to be filled; one that exists and is not empty is refused, unless it is to be replaced.

    A second writer is refused. Whatever lies beside the folder that is given goes at the end.
    """
    refuse_url(path)
    at = Path(os.path.realpath(path))  # a link to an empty folder stays a link, and '.' has a name
    remove_partial(at)  # of one that was killed after it had put its folder in place, too
    refuse_taken(path, replace=replace)
    new = [parent for parent in at.parents if not parent.exists()]
    refused = GamlpError("another process is writing this folder", file=path, hint=_WAIT)
    try:
        with disk_full_as_error(path), ExitStack() as stack:
            with _refusal_as_error(path.parent):
                own = stack.enter_context(work_folder(_partial(at), refused=refused))
            refuse_taken(path, replace=replace)  # the one before may have ended just now
            (own / "new").mkdir()
            yield own / "new"
            _put_folder(own / "new", at, path, replace)
    finally:
        remove_empty(new)


def refuse_url(path: Path) -> None:
    """Refuse a path that was a URL, where a file system is written to.

    >>> refuse_url(Path("s3://bucket/run"))
    Traceback (most recent call last):
    gamlp.errors.GamlpError: s3://bucket/run: is a URL, and this is written to a file system alone; give a path.
    """
    if path.parts and _SCHEME.fullmatch(path.parts[0]):
        told = "//".join([path.parts[0], "/".join(path.parts[1:])])
        raise GamlpError("is a URL, and this is written to a file system alone", file=told, hint="give a path")


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _put_folder(new: Path, at: Path, path: Path, replace: bool) -> None:
    """Give the folder its name. What has come to be there meanwhile is somebody's, and stays."""
    try:
        new.rename(at)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        if not replace or not at.is_dir():
            raise GamlpError(
                "has appeared while this was written, and stays as it is", file=path, hint="choose another --out"
            ) from error
        if not _exchange(new, at):  # a kill between the two loses the old one
            at.rename(new.with_name("old"))
            new.rename(at)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places at once, where the system can (Linux)."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def remove_partial(path: Path) -> None:
    """What dead processes have left of attempts to write `path`."""
    remove_dead_work(path.parent, f"{glob.escape(_partial(path).name)}*")


def refuse_taken(path: Path, *, replace: bool = False) -> None:
    """Refuse a folder that is to be made where there is a file, or a folder with something in it."""
    if path.exists() and not path.is_dir():
        raise GamlpError("is a file where a folder is to be written", file=path, hint="choose another --out")
    if path.exists() and not replace and any(path.iterdir()):
        raise GamlpError("already exists", file=path, hint="choose another --out or remove it first")


def remove_empty(folders: list[Path]) -> None:
    """Folders that were made on the way to another, innermost first, as far as nothing came to lie in them."""
    with suppress(OSError):
        for folder in folders:
            if folder.exists():
                folder.rmdir()


class DiskFull(GamlpError):
    """No space is left: whatever else is tried would fail too."""


@contextmanager
def disk_full_as_error(place: Path) -> Iterator[None]:
    """Turn 'no space left on device' into one sentence; of several blocks the outermost names its place."""
    try:
        yield
    except (OSError, DiskFull) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(
            "no space left on the device", file=place, hint="free some space or write to another disk"
        ) from error


@contextmanager
def _refusal_as_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise GamlpError(f"cannot write here ({error.strerror})", file=folder) from error


def share_file(source: Path, target: Path) -> None:
    """A second name for a file that nobody writes to again; a copy where there can be none."""
    with suppress(OSError):  # another disk, a file system without links, a file of another user
        os.link(source, target)
        return
    with atomic_file(target) as new:
        shutil.copyfile(source, new)


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that a reader sees all of it or nothing."""
    write_text(path, json.dumps(content, indent=1))


def write_text(path: Path, text: str) -> None:
    """Write text so that a reader sees all of it or nothing; it is on the disk when this returns."""
    with atomic_file(path, sync=True) as new:
        new.write_text(text, encoding="utf-8", newline="")


def npy_header(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> bytes:
    """What a .npy file begins with; the rows follow, one after the other."""
    text = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(text, fields)
    return text.getvalue()


def create_array(path: Path, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> np.ndarray[Any, Any]:
    """A new .npy file, mapped for writing, with its blocks reserved.

    Writing through a map into a file without reserved blocks ends in SIGBUS when the disk is full; reserving first
    turns that into an OSError.
    """
    dtype = np.dtype(dtype)
    header = npy_header(shape, dtype)
    offset = len(header)
    with path.open("wb") as file:
        file.write(header)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if size:
            file.flush()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, offset + size)
            else:  # macOS has none
                os.ftruncate(file.fileno(), offset + size)
    if size == 0:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r+", offset=offset, shape=shape)


class GrowingArray:
    """A .npy file of rows that are appended; their number is written when it is known."""

    def __init__(self, path: Path, width: int, dtype: np.typing.DTypeLike) -> None:
        self.path = path
        self.width = width
        self.rows = 0
        self._dtype = np.dtype(dtype)
        self._start = len(npy_header((0, width), self._dtype))  # numpy leaves room for any number of rows
        self._file = path.open("wb")
        self._file.seek(self._start)

    def append(self, values: np.ndarray[Any, Any]) -> None:
        """Rows `[n, width]` of the type of the file."""
        if values.dtype != self._dtype or values.shape[1:] != (self.width,):
            raise ValueError(f"{values.dtype} {values.shape} for rows of {self.width} {self._dtype}")
        self.rows += len(values)
        if values.size:
            self._file.write(np.ascontiguousarray(values).data.cast("B"))

    def finish(self, kept: np.ndarray[Any, Any] | None = None) -> None:
        """Write the number of rows; `kept`: of which rows those that are marked stay, in order."""
        self._file.close()
        if kept is not None and not kept.all():
            self._drop(kept)
        header = npy_header((self.rows, self.width), self._dtype)
        assert len(header) == self._start
        with self.path.open("r+b") as file:
            file.write(header)

    def close(self) -> None:
        self._file.close()

    def _drop(self, kept: np.ndarray[Any, Any]) -> None:
        """Move rows that stay to the front, some at a time."""
        row = self.width * self._dtype.itemsize
        at_once = max(1, _CHUNK // max(1, row))
        done = 0
        with self.path.open("r+b") as file:
            for begin in range(0, self.rows, at_once):
                file.seek(self._start + begin * row)
                count = min(at_once, self.rows - begin)
                values = np.frombuffer(file.read(count * row), self._dtype).reshape(count, self.width)
                values = values[kept[begin : begin + count]]
                file.seek(self._start + done * row)
                file.write(values.tobytes())
                done += len(values)
            file.truncate(self._start + done * row)
        self.rows = done


def save_array(path: Path, values: np.ndarray[Any, Any]) -> None:
    """Write a .npy file. np.save tells a full disk as '9 requested and 4 written', without its errno."""
    values = np.ascontiguousarray(values)
    with path.open("wb") as file:
        file.write(npy_header(values.shape, values.dtype))
        if values.size:
            file.write(values.data.cast("B"))


def more_files() -> bool:
    """Let this process open as many files as the system allows; whether that is more than before."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, OSError, ValueError):
        return False
    return soft != hard


def map_array(path: Path) -> np.ndarray[Any, Any]:
    """Map a .npy file for reading; a damaged one is refused with a sentence. Never unpickles."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise ValueError("it is an archive of several")
        if values.dtype.names is not None or not values.flags.c_contiguous:
            raise ValueError("its rows do not lie one after the other as plain numbers")
        return values
    except FileNotFoundError as error:
        raise GamlpError("file is missing", file=path, hint="the folder is incomplete; build it again") from error
    except Exception as error:  # numpy raises nearly anything at a damaged header
        if getattr(error, "errno", None) == errno.EMFILE:  # a map holds its file open, and a large store has thousands
            if more_files():
                return map_array(path)
            raise GamlpError("too many files are open", file=path, hint="allow more of them: ulimit -n") from error
        message = " ".join(str(error).split())[:200]
        message = "it holds objects, not numbers" if "pickle" in message else message
        raise GamlpError(f"not a readable .npy array ({message})", file=path, hint="make it again") from error
