"""A store behind gs:// whose files lie in a folder: it answers slowly, and every fiftieth call fails as networks do.

A module of its own, which fsspec finds by an entry point in every process, the driver's and the tasks'; see
`test_faulty_storage.py`. FAULTY_ROOT is the folder; every failure adds a byte to the file FAULTY_ROOT.failed.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

SLOW, FAILS = 0.003, 50


class FaultyStore(LocalFileSystem):  # type: ignore[misc]
    """A file appears whole, as on an object store."""

    protocol = ("gs",)

    @classmethod
    def _strip_protocol(cls, path: Any, **_: Any) -> str:
        text = str(path)
        return f"{os.environ['FAULTY_ROOT']}/{text.removeprefix('gs://')}".rstrip("/") if "gs://" in text else text

    def _call(self) -> None:
        time.sleep(SLOW)
        with Path(f"{os.environ['FAULTY_ROOT']}.calls").open("ab", buffering=0) as calls:
            calls.write(b".")  # where it ends up is this call's number, among those of all processes
            number = calls.tell()
        if number % FAILS == 0:
            with Path(f"{os.environ['FAULTY_ROOT']}.failed").open("ab") as file:
                file.write(b".")
            raise ConnectionResetError(104, "Connection reset by peer")

    def info(self, path: str, **named: Any) -> Any:
        self._call()
        return super().info(path, **named)

    def ls(self, path: str, detail: bool = False, **named: Any) -> Any:
        self._call()
        return super().ls(path, detail=detail, **named)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **named: Any) -> Any:
        self._call()
        with Path(self._strip_protocol(path)).open("rb") as file:
            file.seek(start or 0)
            return file.read() if end is None else file.read(end - (start or 0))

    def get_file(self, rpath: str, lpath: str, *rest: Any, **named: Any) -> None:
        self._call()
        Path(lpath).write_bytes(Path(self._strip_protocol(rpath)).read_bytes())

    def put_file(self, lpath: str, rpath: str, *rest: Any, **named: Any) -> None:
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **named: Any) -> None:
        self._call()
        target = Path(self._strip_protocol(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(f"{os.environ['FAULTY_ROOT']}.{uuid.uuid4().hex}")
        beside.write_bytes(value)
        try:
            if mode == "create":
                os.link(beside, target)  # FileExistsError where there is one
            else:
                beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    def rm(self, path: str, recursive: bool = False, **named: Any) -> None:
        self._call()
        super().rm(path, recursive=recursive, **named)

    def modified(self, path: str) -> Any:
        self._call()
        return super().modified(path)
