"""A place: a folder or a file on a file system, or any fsspec URL. A file appears whole or not at all."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.io.files import disk_full_as_error

_PIECE = 8 << 20


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
        text = str(place)
        text = text.removeprefix("file://") if text.startswith("file://") else text
        return cls(text.rstrip("/") or "/")

    @property
    def local(self) -> Path | None:
        """The path on this file system; None for a URL of another kind."""
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
        with self._remote() as (system, path):
            return bool(system.exists(path))

    def size(self) -> int | None:
        """Bytes of a file; None where there is none."""
        try:
            if self.local is not None:
                return self.local.stat().st_size if self.local.is_file() else None
            with self._remote() as (system, path):
                found = system.info(path)
                return int(found["size"]) if found["type"] == "file" else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes begin..end, or to the end of the file."""
        if self.local is not None:
            with self.local.open("rb") as file:
                file.seek(begin)
                return file.read(-1 if end is None else end - begin)
        with self._remote() as (system, path):
            if begin == 0 and end is None:
                return bytes(system.cat_file(path))
            return bytes(system.cat_file(path, start=begin, end=end))

    def put(self, data: bytes | memoryview) -> None:
        """Write a file: beside and renamed on a file system, in one put on an object store."""
        if self.local is not None:
            with self._beside(self.local) as beside, beside.open("wb") as file:
                file.write(data)
            return
        with self._remote() as (system, path):
            system.pipe_file(path, bytes(data))

    def put_file(self, file: Path) -> None:
        """The same with what a local file holds."""
        if self.local is not None:
            with self._beside(self.local) as beside:
                shutil.copyfile(file, beside)
            return
        with self._remote() as (system, path):
            system.put_file(str(file), path)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A binary stream that becomes the file when the block ends well; memory does not grow with it."""
        if self.local is not None:
            with self._beside(self.local) as beside, beside.open("wb") as file:
                yield file
            return
        with tempfile.NamedTemporaryFile(dir=scratch_folder()) as file:
            yield file
            file.flush()
            with self._remote() as (system, path):
                system.put_file(file.name, path)

    def names(self) -> list[str]:
        """Names of files and folders directly inside, sorted; none where there is no such folder."""
        try:
            if self.local is not None:
                return sorted(path.name for path in self.local.iterdir())
            with self._remote() as (system, path):
                found = system.ls(path, detail=False)
                return sorted({str(each).rstrip("/").rsplit("/", 1)[-1] for each in found} - {self.name})
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self) -> dict[str, int]:
        """Bytes of the files directly inside, by name, from one listing."""
        try:
            if self.local is not None:
                with os.scandir(self.local) as found:
                    return {entry.name: entry.stat().st_size for entry in found if entry.is_file()}
            with self._remote() as (system, path):
                listed = system.ls(path, detail=True)
                return {
                    str(each["name"]).rsplit("/", 1)[-1]: int(each["size"]) for each in listed if each["type"] == "file"
                }
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def make(self) -> None:
        """A folder here; on an object store there is nothing to make."""
        if self.local is not None:
            self.local.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """A file, or a folder with all it holds; nothing where there is none."""
        if self.local is not None:
            if self.local.is_dir() and not self.local.is_symlink():
                shutil.rmtree(self.local, ignore_errors=True)
            else:
                self.local.unlink(missing_ok=True)
            return
        with self._remote() as (system, path), suppress(FileNotFoundError):
            system.rm(path, recursive=True)

    def checksum(self) -> int:
        """CRC-32, read piece by piece."""
        crc = 0
        if self.local is not None:
            with self.local.open("rb") as file:
                while data := file.read(_PIECE):
                    crc = zlib.crc32(data, crc)
            return crc
        for begin in range(0, self.size() or 0, _PIECE):
            crc = zlib.crc32(self.read(begin, begin + _PIECE), crc)
        return crc

    def local_copy(self) -> Path:
        """A local path with the same content: itself, or a copy that lives as long as this process."""
        if self.local is not None:
            return self.local
        copy = scratch_folder() / f"{zlib.crc32(self.url.encode()):08x}-{self.name}"
        if not copy.exists():
            beside = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}")
            with self._remote() as (system, path):
                system.get_file(path, str(beside))
            beside.replace(copy)
        return copy

    @contextmanager
    def _beside(self, path: Path) -> Iterator[Path]:
        # A name of its own for every attempt: a task that is run twice at once must not write into the other's file.
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
        with disk_full_as_error(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                yield beside
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)

    @contextmanager
    def _remote(self) -> Iterator[tuple[Any, str]]:
        system, path = _file_system(self.url)
        system.invalidate_cache()  # others write here too
        try:
            yield system, path
        except (FileNotFoundError, NotADirectoryError, GamlpError):
            raise
        except (OSError, ValueError) as error:
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise GamlpError(
                f"cannot be reached ({said})", file=self.url, hint="see the address and its access"
            ) from error


def is_url(text: str) -> bool:
    """Whether a place is addressed by a URL of another kind than file://."""
    head, mark, _ = text.partition("://")
    return bool(mark) and head not in ("", "file") and head.replace("+", "").isalnum()


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


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as error:
        kind = url.partition("://")[0]
        raise GamlpError(
            f"'{kind}' needs a library that is not installed ({error})", file=url, hint="install it on every machine"
        ) from error
    except ValueError as error:
        raise GamlpError(f"is no address of a store of files ({error})", file=url) from error
