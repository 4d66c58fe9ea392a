"""A place: a folder or a file on a file system, or any fsspec URL. A file appears whole or not at all."""

from __future__ import annotations

import atexit
import errno
import inspect
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from gamlp.errors import GamlpError
from gamlp.io.checksums import ChecksumStream, checksum
from gamlp.io.files import atomic_file
from gamlp.io.patience import patiently, shortly

R = TypeVar("R")
_PIECE = 8 << 20
# Kinds of URL that are asked. fsspec knows many more, some of which run commands, log in elsewhere or wait for ever.
SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "webhdfs", "http", "https", "memory")
_PATIENCE = 30.0  # seconds in which a server must accept a connection, and between two pieces of an answer


@dataclass(frozen=True)
class Place:
    """A path or URL; `/` leads further down.

    >>> Place.of("s3://bucket/graphs") / "cora"
    Place(url='s3://bucket/graphs/cora')
    >>> Place.of("graphs").local
    PosixPath('graphs')
    """

    url: str

    @classmethod
    def of(cls, place: str | Path | Place) -> Place:
        if isinstance(place, Place):
            return place
        return cls(str(place).removeprefix("file://").rstrip("/") or "/")

    @property
    def local(self) -> Path | None:
        """The path on this file system, for what must be mapped; None for a URL of another kind."""
        return None if is_url(self.url) else Path(self.url)

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    def resolved(self) -> Place:
        """Good in every working folder."""
        return self if self.local is None else Place(str(self.local.resolve()))

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def exists(self) -> bool:
        if self.local is not None:
            return self.local.exists()
        try:  # fsspec's own says of a store that does not answer that nothing is there
            self._ask(lambda system, path: system.info(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self) -> int | None:
        """Bytes of a file; None where there is none."""
        try:
            found = self._ask(lambda system, path: system.info(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return int(found["size"]) if found["type"] == "file" else None

    def sizes(self) -> dict[str, int]:
        """Bytes of the files directly inside, by name, from one listing."""
        return {_name(found): int(found["size"]) for found in self._list() if found["type"] != "directory"}

    def names(self) -> list[str]:
        """Names of files and folders directly inside, sorted; none where there is no such folder."""
        return sorted({_name(found) for found in self._list()})

    def _list(self) -> list[dict[str, Any]]:
        try:
            itself, found = self._ask(lambda system, path: (path.rstrip("/"), system.ls(path, detail=True)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        # What is listed of a file, and of the mark that some stores keep of a folder, is itself.
        return [each for each in found if str(each["name"]).rstrip("/") != itself]

    def read(self, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes begin..end, or to the end of the file."""
        part = {} if begin == 0 and end is None else {"start": begin, "end": end}
        return self._ask(lambda system, path: bytes(system.cat_file(path, **part)))

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes begin..end of each; where the store's library can, all are asked for at once."""
        found: dict[tuple[int, int], bytes] = {}

        def ask(system: Any, path: str) -> None:
            lacking = [each for each in ranges if each not in found]
            starts, ends = [begin for begin, _ in lacking], [end for _, end in lacking]
            answers = system.cat_ranges([path] * len(lacking), starts, ends, on_error="return")
            found.update((each, bytes(data)) for each, data in zip(lacking, answers) if not _failed(data))
            if (error := next(filter(_failed, answers), None)) is not None:
                raise error

        self._ask(ask)
        return [found[each] for each in ranges]

    def checksum(self) -> int:
        """CRC-32, read piece by piece."""
        if self.local is not None:
            return checksum(self.local)
        crc = 0
        for begin in range(0, self.size() or 0, _PIECE):
            crc = zlib.crc32(self.read(begin, begin + _PIECE), crc)
        return crc

    @contextmanager
    def atomic_file(self, *, sync: bool = False) -> Iterator[Path]:
        """A path here to write to: what is there becomes the file when the block ends well, and vanishes otherwise."""
        if self.local is not None:
            with atomic_file(self.local, sync=sync) as new:
                yield new
            return
        with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
            yield (new := Path(folder) / self.name)
            self.put_file(new)

    @contextmanager
    def writing(self) -> Iterator[ChecksumStream]:
        """A binary stream that becomes the file when the block ends well; memory does not grow with it."""
        with self.atomic_file() as new, new.open("wb") as file:
            yield ChecksumStream(file)

    def put(self, data: bytes | memoryview, *, sync: bool = False) -> None:
        """Write a file; on an object store in one put."""
        if self.local is not None:
            with self.atomic_file(sync=sync) as new:
                new.write_bytes(data)
            return
        self._ask(lambda system, path: system.pipe_file(path, bytes(data)))

    def put_file(self, file: Path) -> None:
        """The same with what a local file holds."""
        if self.local is not None:
            with self.atomic_file() as new:
                shutil.copyfile(file, new)
            return
        self._ask(lambda system, path: system.put_file(str(file), path))

    def put_new(self, data: bytes) -> bool:
        """Write a file where there is none, and tell whether that was so: of several at once, one succeeds.

        NotImplementedError where the store offers no such put (that of S3 has the condition If-None-Match).
        """
        with self._system() as (system, path):
            if not _has_conditional_put(type(system)):
                raise NotImplementedError
            try:
                system.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno == errno.ENOSYS:
                    raise NotImplementedError from error
                if not self.exists():
                    raise
                return False
            return True

    def make(self) -> None:
        """A folder here; on an object store there is nothing to make."""
        if self.local is not None:
            self.local.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """A file, or a folder with all it holds; nothing where there is none."""
        if self.local is not None:
            if self.local.is_dir() and not self.local.is_symlink():
                shutil.rmtree(self.local, ignore_errors=True)  # a task that was given up may still write here
            else:
                self.local.unlink(missing_ok=True)
            return
        with suppress(FileNotFoundError):
            self._ask(lambda system, path: system.rm(path, recursive=True))

    def local_copy(self, version: str = "") -> Path:
        """A local path with the same content: itself, or a copy that lives as long as this process.

        What is copied once is not looked at again, unless another `version` is asked for.
        """
        if self.local is not None:
            return self.local
        copy = scratch_folder() / f"{zlib.crc32(self.url.encode()):08x}{version}-{self.name}"
        if not copy.exists():
            with atomic_file(copy) as new:
                self.copy_to(new)
        return copy

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """The same for the length of a block, copied anew each time."""
        if self.local is not None:
            yield self.local
            return
        with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
            self.copy_to(copy := Path(folder) / self.name)
            yield copy

    def copy_to(self, file: Path) -> None:
        """Write its bytes to a file here."""
        self._ask(lambda system, path: system.get_file(path, str(file)))

    def modified(self) -> float | None:
        """When a file was written, in seconds by the store's own clock; None where it does not tell."""
        try:
            return float(self._ask(lambda system, path: system.modified(path)).timestamp())
        except NotImplementedError:
            return None

    def _ask(self, call: Callable[[Any, str], R]) -> R:
        """What a file system answers; elsewhere a call that fails is made again a few times."""
        with self._system() as (system, path):
            if self.local is not None:
                return call(system, path)
            return patiently(lambda: call(system, path), self.url)

    @contextmanager
    def _system(self) -> Iterator[tuple[Any, str]]:
        """The file system and the path in it; of what goes wrong elsewhere, one sentence is told."""
        system, path = _file_system(self.url)
        system.invalidate_cache()  # others write here too
        try:
            yield system, path
        except (FileNotFoundError, NotADirectoryError, GamlpError, NotImplementedError, MemoryError):
            raise
        except Exception as error:  # libraries of stores have errors of their own kinds
            if self.local is not None:
                raise
            raise GamlpError(
                f"cannot be reached ({shortly(error)})", file=self.url, hint="see the address and its access"
            ) from error


def _failed(answer: Any) -> bool:
    return isinstance(answer, BaseException)


def is_url(text: str) -> bool:
    """Whether a place is addressed by a URL of another kind than file://."""
    head, mark, _ = text.partition("://")
    return bool(mark) and head not in ("", "file") and head.replace("+", "").isalnum()


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec  # when a place is first used: it takes a tenth of a second

    if not is_url(url):
        return fsspec.filesystem("file"), str(Path(url).absolute())
    kind = url.partition("://")[0]
    if kind not in SCHEMES or "::" in url:  # a chain of file systems may name any of them
        raise GamlpError("is no address of a store of files", file=url, hint=f"choose from {', '.join(SCHEMES[:-1])}")
    try:
        return fsspec.core.url_to_fs(url, **_options(kind))  # type: ignore[no-any-return]
    except ImportError as error:
        raise GamlpError(
            f"'{kind}' needs a library that is not installed ({error})", file=url, hint="install it on every machine"
        ) from error
    except ValueError as error:
        raise GamlpError(f"is no address of a store of files ({error})", file=url) from error


def _options(kind: str) -> dict[str, Any]:
    """Libraries of the other kinds have limits of their own; that of HTTP waits five minutes for every file."""
    if kind not in ("http", "https"):
        return {}
    from aiohttp import ClientTimeout  # what fsspec's HTTP itself needs

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_PATIENCE)}}


def _has_conditional_put(system: Any) -> bool:
    """Whether the file system has a put of its own that takes a condition; fsspec's looks first, and others may too."""
    put = getattr(system, "_pipe_file", system.pipe_file)
    return put.__module__ not in ("fsspec.spec", "fsspec.asyn") and "mode" in inspect.signature(put).parameters


def _name(found: dict[str, Any]) -> str:
    return str(found["name"]).rstrip("/").rsplit("/", 1)[-1]


@lru_cache(maxsize=1)
def _scratch(process: int) -> Path:
    # Spark ends its Python workers without farewell; the folders it names to them go with their executor.
    local = Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0])
    folder = Path(tempfile.mkdtemp(prefix="gamlp-", dir=local if local.is_absolute() and local.is_dir() else None))

    def remove() -> None:
        if os.getpid() == process:  # a fork of it has a folder of its own
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def scratch_folder() -> Path:
    """A folder for copies of remote files, one for each process, gone when it ends."""
    return _scratch(os.getpid())
