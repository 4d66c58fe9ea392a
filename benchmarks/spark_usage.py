"""What an application uses, by role: CPU seconds and bytes of a process and all it started, and their memory."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROLES = ("driver", "driver's Java", "executors' Java", "Python workers")
_EVERY = 0.2  # seconds between two looks at memory


@dataclass(frozen=True)
class Usage:
    """Until now: CPU seconds by role, bytes through system calls, and the clock."""

    cpu: dict[str, float]
    read: int
    written: int
    clock: float

    def since(self, before: Usage) -> dict[str, Any]:
        cpu = {role: self.cpu[role] - before.cpu[role] for role in ROLES}
        found = {"cpu": sum(cpu.values()), "by role": cpu, "wall": self.clock - before.clock}
        return {**found, "called read": self.read - before.read, "called written": self.written - before.written}


def usage() -> Usage:
    """Of this process and those it started. Those that have ended are counted with the parent that waited for them."""
    cpu, read, written = dict.fromkeys(ROLES, 0.0), 0, 0
    for process, role in _family(psutil.Process()):
        try:
            times, io = process.cpu_times(), process.io_counters()
        except psutil.Error:
            continue
        cpu[role] += times.user + times.system
        if role != "driver":  # its children are Java, that is still there
            cpu[role] += times.children_user + times.children_system
        read, written = read + io.read_chars, written + io.write_chars
    return Usage(cpu, read, written, time.perf_counter())


def _family(root: psutil.Process) -> Iterator[tuple[psutil.Process, str]]:
    yield root, "driver"
    for process in root.children(recursive=True):
        try:
            parent, java = process.ppid(), process.name() == "java"
        except psutil.Error:
            continue
        if java:
            yield process, "driver's Java" if parent == root.pid else "executors' Java"
        else:
            yield process, "Python workers"


class Peaks:
    """Anonymous memory at its most while the block runs: of the driver's two processes, and of all executors."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.bytes = dict.fromkeys(ROLES, 0)
        self._root, self._ended = psutil.Process(process.pid), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_EVERY):
            now = dict.fromkeys(ROLES, 0)
            try:
                for process, role in _family(self._root):
                    now[role] += _anonymous(process.pid)
            except psutil.Error:
                continue
            self.bytes = {role: max(self.bytes[role], now[role]) for role in ROLES}


def _anonymous(pid: int) -> int:
    try:
        with Path(f"/proc/{pid}/status").open() as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0
