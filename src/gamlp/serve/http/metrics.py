"""Counts and times of a server in Prometheus' text format; their number does not grow with what is asked."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How many values are at most each of some bounds, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterable[str]:
        """The bounds' counts add up, as Prometheus wants them."""
        below = 0
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), self.counts):
            below += count
            yield _line(f"{name}_bucket", {**labels, "le": bound}, below)
        yield _line(f"{name}_sum", labels, self.sum)
        yield _line(f"{name}_count", labels, below)


class Metrics:
    """Written by the event loop and by the thread that answers, each its own numbers; read by the event loop.

    Routes are those that the server has, and `other`; statuses are those of HTTP.
    """

    def __init__(self) -> None:
        self.begun = time.time()
        self.requests: dict[tuple[str, int], int] = {}
        self.seconds: dict[str, Histogram] = {}
        self.batch_questions = Histogram(SIZES)
        self.batch_rows = Histogram(SIZES)
        self.batch_seconds = Histogram(SECONDS)
        self.rows = 0
        self.reloads = 0
        self.failures = 0

    def answered(self, route: str, status: int, seconds: float) -> None:
        key = route, status
        self.requests[key] = self.requests.get(key, 0) + 1
        if route not in self.seconds:
            self.seconds[route] = Histogram(SECONDS)
        self.seconds[route].add(seconds)

    def batch(self, questions: int, rows: int, seconds: float) -> None:
        """One forward pass."""
        self.batch_questions.add(questions)
        self.batch_rows.add(rows)
        self.batch_seconds.add(seconds)
        self.rows += rows

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it; `gauges`: (what it is, its value) by name, of what others know."""
        lines = list(_header("gamlp_requests_total", "counter", "Requests by route and status."))
        for (route, status), count in sorted(self.requests.items()):
            lines.append(_line("gamlp_requests_total", {"route": route, "status": str(status)}, count))
        lines += _header("gamlp_request_seconds", "histogram", "Seconds from a request's header to its answer.")
        for route, histogram in sorted(self.seconds.items()):
            lines += histogram.lines("gamlp_request_seconds", {"route": route})
        for name, histogram, about in (
            ("gamlp_batch_questions", self.batch_questions, "Requests that one forward pass answered."),
            ("gamlp_batch_rows", self.batch_rows, "Rows that one forward pass answered."),
            ("gamlp_batch_seconds", self.batch_seconds, "Seconds of one forward pass with its reading."),
        ):
            lines += [*_header(name, "histogram", about), *histogram.lines(name, {})]
        for name, about, total in (
            ("gamlp_rows_total", "Rows answered.", self.rows),
            ("gamlp_reloads_total", "Newer generations of the run that were taken up.", self.reloads),
            ("gamlp_failures_total", "Questions that ended in an unexpected error.", self.failures),
        ):
            lines += [*_header(name, "counter", about), _line(name, {}, total)]
        own = {
            "process_resident_memory_bytes": ("Memory of the process.", float(resident_bytes())),
            "process_open_fds": ("Open files.", float(open_files())),
            "process_start_time_seconds": ("When the server began.", self.begun),
        }
        for name, (about, value) in {**gauges, **own}.items():
            lines += [*_header(name, "gauge", about), _line(name, {}, value)]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Of this process; where the system does not tell, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def open_files() -> int:
    """0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        return 0


def _header(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
