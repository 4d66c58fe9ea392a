"""A command and what it took: time, processor, memory by kind, disk traffic, the machine's memory meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gamlp.io import write_text

_PAUSE, _JOURNAL = 0.25, 5.0  # seconds between looks, and between notes


@dataclass
class Watched:
    """What one go of a command took. Bytes are those that came from or went to the disk."""

    seconds: float = 0.0
    processor: float = 0.0
    anonymous: int = 0  # most that the process held
    resident: int = 0
    read: int = 0
    written: int = 0
    major_faults: int = 0
    disk: int = 0  # most that the folder held on the disk
    least_available: int = 0  # memory of the machine
    group: int | None = None  # most memory of its control group, the page cache with it; None: there was no group
    code: int = 0
    killed: bool = False
    said: str = ""


def watch(
    words: Sequence[str],
    folder: Path,
    kill: float | None = None,
    out: Path | None = None,
    limit: int = 24 << 30,
    journal: Path | None = None,
) -> Watched:
    """Run it to its end, or kill it after so many seconds; what it prints goes to `out` when it has ended well.

    Where control groups can be made it is in one of its own, whose memory has a limit, the page cache with it.
    `journal` has what is known so far, written every few seconds: who watches may end before what is watched.
    """
    found = Watched(least_available=_available())
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as printed,
        _control_group(limit, found) as enter,
    ):
        begun = written = time.perf_counter()
        process = subprocess.Popen(list(words), stdout=printed, stderr=said, preexec_fn=enter)
        try:
            while not _ended(process, found):
                _look(process.pid, found)
                found.disk = max(found.disk, on_disk(folder))
                found.least_available = min(found.least_available, _available())
                found.seconds = time.perf_counter() - begun
                if journal is not None and begun + found.seconds - written > _JOURNAL:
                    written = begun + found.seconds
                    found.processor = _processor(process.pid)
                    write_text(journal, json.dumps(vars(found)))
                if kill is not None and not found.killed and found.seconds > kill:
                    found.killed = True
                    process.send_signal(signal.SIGKILL)
                time.sleep(_PAUSE)
        except BaseException:
            process.kill()
            process.wait()
            raise
        found.seconds = time.perf_counter() - begun
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
        printed.seek(0)
        if out is not None and found.code == 0:
            out.write_bytes(printed.read())
    found.said = lines[-1] if lines else ""
    return found


@contextmanager
def _control_group(limit: int, found: Watched) -> Iterator[Callable[[], None] | None]:
    """What a process calls to enter a group with a limit; None where no group can be made. Versions 1 and 2."""
    one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root, most, used = (one, "memory.limit_in_bytes", "memory.max_usage_in_bytes")
    if not one.exists():
        root, most, used = two, "memory.max", "memory.peak"
    group = root / f"gamlp-watched-{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
        (group / most).write_text(str(limit))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
        with suppress(OSError):
            found.group = int((group / used).read_text())
    finally:
        with suppress(OSError):
            group.rmdir()


def _ended(process: subprocess.Popen[bytes], found: Watched) -> bool:
    pid, code, used = os.wait4(process.pid, os.WNOHANG)
    if not pid:
        return False
    process.returncode = found.code = os.waitstatus_to_exitcode(code)
    found.processor, found.resident = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    found.major_faults = used.ru_majflt
    return True


def _look(pid: int, found: Watched) -> None:
    try:
        status, io = Path(f"/proc/{pid}/status").read_text(), Path(f"/proc/{pid}/io").read_text()
    except OSError:  # it has just ended
        return
    lines = dict(line.split(":", 1) for line in (status + io).splitlines() if ":" in line)
    if "RssAnon" in lines:
        found.anonymous = max(found.anonymous, int(lines["RssAnon"].split()[0]) * 1024)
    found.read, found.written = int(lines.get("read_bytes", found.read)), int(lines.get("write_bytes", found.written))


def _processor(pid: int) -> float:
    """Seconds so far."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def on_disk(folder: Path) -> int:
    """Bytes that the files of a folder take on the disk; what goes meanwhile, a folder too, is not counted."""
    total = 0
    for at, _, files in os.walk(folder):  # unlike rglob it passes over a folder that is gone when it is looked into
        for name in files:
            with suppress(OSError):
                total += (Path(at) / name).lstat().st_blocks * 512
    return total


def _available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
