"""A store in this process that counts what is asked of it, and answers slowly or fails now and then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


@dataclass
class Watch:
    """Bytes and calls so far. One call in `fails` raises what a network raises; every one takes `seconds`."""

    fails: int = 0
    seconds: float = 0.0
    read: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def call(self, name: str) -> None:
        time.sleep(self.seconds)
        with self.lock:
            self.calls[name] += 1
            if self.fails and self.calls.total() % self.fails == 0:
                self.failed += 1
                raise ConnectionResetError(104, "Connection reset by peer")

    def add(self, data: bytes) -> bytes:
        with self.lock:
            self.read += len(data)
        return data


class WatchedStore(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's store in memory, under the eyes of `watch`."""

    watch: Watch
    cachable = False

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        self.watch.call("read")
        return self.watch.add(super().cat_file(path, start=start, end=end, **kwargs))

    def get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        self.watch.call("get")
        super().get_file(rpath, lpath, **kwargs)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.watch.call("put")
        super().pipe_file(path, value, mode=mode, **kwargs)

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        self.watch.call("put")
        super().put_file(lpath, rpath, **kwargs)

    def info(self, path: str, **kwargs: Any) -> Any:
        self.watch.call("info")
        return super().info(path, **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        self.watch.call("list")
        return super().ls(path, detail=detail, **kwargs)


@contextmanager
def watched(fails: int = 0, seconds: float = 0.0) -> Iterator[Watch]:
    """All of memory:// goes through it inside the block."""
    WatchedStore.watch = Watch(fails, seconds)
    fsspec.register_implementation("memory", WatchedStore, clobber=True)
    try:
        yield WatchedStore.watch
    finally:
        fsspec.register_implementation("memory", MemoryFileSystem, clobber=True)
