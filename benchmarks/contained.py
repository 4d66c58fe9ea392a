"""One contestant in a process of its own, within a limit of memory and time: what it took, or where it died.

The limit is on anonymous memory, which nobody but the process itself can give back; pages of mapped files are the
system's to drop. It is held by looking at the process a hundred times a second and ending it when it holds more: a
limit on addresses (RLIMIT_AS) would also count what allocators reserve and never touch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gamlp.io import usable_cores

_PAUSE = 0.01  # seconds between looks
DONE, OVER, LATE, FAILED = "done", "over the limit of memory", "not finished in time", "failed"


def run_contained(
    command: Sequence[str], memory: int, seconds: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run `command`; every line of JSON that it prints is a step (`{"step": …}`), the last one what it found.

    Returns status, seconds, processor seconds, the peaks of resident and of anonymous memory, and what was said.
    """
    threads = str(usable_cores())
    given = {**os.environ, "OMP_NUM_THREADS": threads, "POLARS_MAX_THREADS": threads, **(environment or {})}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.perf_counter()
        process = subprocess.Popen(list(command), stdout=out, stderr=err, env=given)
        try:
            status, resident, anonymous, used = _watch(process, memory, begun + seconds)
        except BaseException:
            process.kill()
            process.wait()
            raise
        took = time.perf_counter() - begun
        out.seek(0)
        err.seek(0)
        lines, said = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    steps = [one for line in lines.splitlines() if (one := _read(line)) is not None]
    found = {
        "status": status,
        "seconds": round(took, 2),
        "processor": round(used.ru_utime + used.ru_stime, 2),
        "resident": resident,
        "anonymous": anonymous,
        "limit": memory,
    }
    if steps and "step" in steps[-1]:
        found["last"] = steps[-1]
    if status == FAILED:
        found["error"] = (said.strip().splitlines() or [f"it ended with code {process.returncode}"])[-1][:200]
        if "allocate" in found["error"].lower() or "memory" in found["error"].lower():
            found["status"] = OVER  # it was told so itself
    return found


def _watch(process: subprocess.Popen[bytes], memory: int, until: float) -> tuple[str, int, int, Any]:
    """(status, most resident and most anonymous memory, what the system counted) of a process that ends, or is ended.

    The resident peak is read here and not from what the system counted: that begins with what the parent held.
    """
    resident, peak, status, ended = 0, 0, "", False
    while True:
        pid, code, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(code)
            return status or (DONE if process.returncode == 0 else FAILED), resident, peak, used
        status_of = _memory(process.pid)
        resident, peak = max(resident, status_of[0]), max(peak, status_of[1])
        if not ended and (peak > memory or time.perf_counter() > until):
            status, ended = (OVER if peak > memory else LATE), True
            process.send_signal(signal.SIGKILL)
        time.sleep(_PAUSE)


def _memory(pid: int) -> tuple[int, int]:
    """(resident, anonymous) bytes of a process now."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0

    def total(*names: str) -> int:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))

    return total("VmRSS"), total("RssAnon", "RssShmem")


def _read(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def tell(**what: Any) -> None:
    """A step of a contestant, which stays known if it dies in the next."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
