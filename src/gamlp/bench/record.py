"""Finished runs and points, a line each in a file a table, beside the pages: what is there is not run again."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gamlp.errors import GamlpError
from gamlp.io import disk_full_as_error, locked

FOLDER = "runs"  # beside the pages
POINTS = "points"  # inside it, of special tables
Line = dict[str, Any]
_SCORES = ("score", "macro_f1", "roc_auc", "accuracy_at_threshold")  # what pages can show of a run
_DIGITS = 6  # of a number; pages show at most four


class RunKey(NamedTuple):
    """All that decides a result: the recipe on its dataset, what else makes a run stale, and the seed; by digests."""

    recipe: str
    made: str
    seed: int


@dataclass(frozen=True)
class RunOrigin:
    """Runs that were measured on one machine by one version, from the first day to the last."""

    machine: str
    gamlp: str
    first: str
    last: str
    runs: int

    def __str__(self) -> str:
        days = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.runs:,} on {self.machine}, gamlp {self.gamlp}, {days}"


def origins_of(lines: Iterable[Line]) -> tuple[RunOrigin, ...]:
    """Of lines of the record: one for each machine and version, most runs first."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        found.setdefault((line.get("machine", ""), line.get("gamlp", "")), []).append(line.get("date", ""))
    made = (RunOrigin(*key, min(dates), max(dates), len(dates)) for key, dates in found.items() if all(key))
    return tuple(sorted(made, key=lambda one: (-one.runs, one.machine, one.gamlp)))


def machine_name() -> str:
    """`AMD EPYC, 2 cores, Linux`; the architecture where the system does not tell its processor's model."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(found, platform.machine())}, {os.cpu_count()} cores, {platform.system()}"


def as_line(told: dict[str, Any], report: dict[str, Any], processor: float | None = None) -> Line:
    """A run: what is `told` of its place, key and machine, of its report what pages can show, and processor seconds."""
    tests = {name: _scores(found) for name, found in report.get("tests", {}).items()}
    return {
        **told,
        "seconds": {name: _short(value) for name, value in report["seconds"].items()},
        **({} if processor is None else {"processor": _short(processor)}),
        "memory": report["peak_memory"],
        "valid": _scores(report["valid"]),
        "test": _scores(report["test"]),
        **({"tests": tests} if tests else {}),
        **({"epochs": [report["epoch"], report["epochs"]]} if report.get("epochs") else {}),
    }


def as_report(line: Line) -> dict[str, Any]:
    """What `Report.as_json()` gave, as far as the line has it."""
    epoch, epochs = line.get("epochs", (0, 0))
    return {
        **{name: line[name] for name in ("seed", "valid", "test", "seconds")},
        "tests": line.get("tests", {}),
        "peak_memory": line["memory"],
        "epoch": epoch,
        "epochs": epochs,
    }


def cost_of(line: Line) -> float:
    """Seconds that the run would take on an idle machine.

    Other work beside it makes it long by the clock, several threads by the processor: the less of both. Lines of
    before processor seconds were recorded have the clock's alone.
    """
    clock: float = sum(line["seconds"].values())
    processor: float = line.get("processor", clock)
    return min(clock, processor)


def _scores(found: dict[str, Any]) -> dict[str, float]:
    given = {name: found.get(name) for name in _SCORES}
    return {name: _short(value) for name, value in given.items() if value is not None and math.isfinite(value)}


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


@dataclass
class _File:
    """A table's lines as far as they were read."""

    lines: dict[RunKey, Line] = field(default_factory=dict)
    read: int = 0  # bytes
    torn: bool = False


class Record:
    """`<folder>/<table>.jsonl`, JSON Lines. Processes share it: lines appear whole, and a torn last one is passed over.

    What others append is seen after `refresh`. Tables with the same run share it: a run is found in any file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, _File] = {}
        self._seeds: dict[tuple[str, str], dict[int, Line]] = {}  # of all files, by recipe and what else was the same
        self.refresh()

    def path(self, table: str) -> Path:
        """A table's file."""
        return self.folder / f"{table}.jsonl"

    def line(self, key: RunKey) -> Line | None:
        """Of a run; None where no table has it."""
        return self._seeds.get((key.recipe, key.made), {}).get(key.seed)

    def lines(self, table: str | None = None) -> Iterator[Line]:
        """Of a table, or of all."""
        for name, file in self._files.items():
            if table in (None, name):
                yield from file.lines.values()

    def seeds(self, recipe: str, made: str) -> set[int]:
        """That were run."""
        return set(self._seeds.get((recipe, made), ()))

    def reports(self, recipe: str, made: str) -> list[dict[str, Any]]:
        """Of all seeds, ascending."""
        return [as_report(line) for _, line in sorted(self._seeds.get((recipe, made), {}).items())]

    def origins(self, keys: Iterable[tuple[str, str]]) -> tuple[RunOrigin, ...]:
        """Where and when runs of these recipes were measured."""
        return origins_of(line for key in set(keys) for line in self._seeds.get(key, {}).values())

    @property
    def torn(self) -> list[Path]:
        """Files that ended within a line when they were read."""
        return [self.path(name) for name, file in self._files.items() if file.torn]

    def add(self, table: str, lines: Iterable[Line]) -> None:
        """Append those that the table's file has not."""
        if not (given := list(lines)):
            return
        path = self.path(table)
        with locked(path), disk_full_as_error(path), path.open("ab") as target:
            self._read(table)
            file = self._files[table]
            new = {key_of(line): line for line in given if key_of(line) not in file.lines}
            target.truncate(file.read)  # half a line, of a process that ended within it
            texts = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in new.values())
            target.write(b"".join(text.encode() + b"\n" for text in texts))
            target.flush()
            os.fsync(target.fileno())
        self._read(table)

    def refresh(self) -> None:
        """Read what was appended since."""
        for path in sorted(self.folder.glob("*.jsonl")):
            self._read(path.stem)

    def _read(self, table: str) -> None:
        """Whole lines from where the last look ended."""
        path, file = self.path(table), self._files.setdefault(table, _File())
        size = path.stat().st_size if path.exists() else 0
        if size < file.read:  # another file than before
            self._files, self._seeds = {}, {}
            self.refresh()
            return
        if size == file.read:
            file.torn = False
            return
        with path.open("rb") as source:
            source.seek(file.read)
            content = source.read()
        whole = content[: content.rfind(b"\n") + 1]
        for text in whole.splitlines():
            line = _parsed(text, path)
            file.lines[key_of(line)] = line
            self._seeds.setdefault((line["recipe"], line["made"]), {})[line["seed"]] = line
        file.read += len(whole)
        file.torn = len(whole) < len(content)


def key_of(line: Line) -> RunKey:
    """Of the run that a line is."""
    return RunKey(line["recipe"], line["made"], line["seed"])


def _parsed(text: bytes, path: Path) -> Line:
    try:
        line: Line = json.loads(text)
        key_of(line), as_report(line), line["method"], line["dataset"]
    except (ValueError, KeyError, TypeError) as error:
        start = text[:40].decode(errors="replace")
        hint = "remove the line, or name another folder by --record"
        raise GamlpError(f"has a line that is no run: {start!r}", file=path, hint=hint) from error
    return line


class PointRecord:
    """`<folder>/points/<kind>.jsonl`: points of a special table, a line each by the digest of all that decides it.

    A torn last line, of a process that died, is passed over and goes with the next that is added.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.path = folder / POINTS / f"{kind}.jsonl"
        self.lines: dict[str, Line] = {}
        self._read()

    def add(self, line: Line) -> Line:
        """Append it, its numbers as short as those of runs; gives what the file has of it now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path), disk_full_as_error(self.path), self.path.open("ab") as target:
            target.truncate(self._read())
            if line["key"] not in self.lines:
                text = json.dumps(_shortened(line), ensure_ascii=False, separators=(",", ":"))
                target.write(text.encode() + b"\n")
                target.flush()
                os.fsync(target.fileno())
        self._read()
        return self.lines[line["key"]]

    def seconds(self, names: Iterable[str]) -> tuple[float, int]:
        """What points of these names will take by those of the same name, else by all, and of how many none tells."""
        took: dict[str, list[float]] = {}
        for line in self.lines.values():
            if line.get("seconds") is not None:
                took.setdefault(line["name"], []).append(line["seconds"])
        known, wanted = [one for some in took.values() for one in some], list(names)
        if not known:
            return 0.0, len(wanted)
        return sum(statistics.fmean(took.get(name, known)) for name in wanted), 0

    def _read(self) -> int:
        """All whole lines; gives where they end."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        self.lines = {}
        for text in whole.splitlines():
            try:
                line: Line = json.loads(text)
                self.lines[line["key"]] = line
                line["name"], line["found"]
            except (ValueError, KeyError, TypeError) as error:
                start = text[:40].decode(errors="replace")
                hint = "remove the line, or name another folder by --record"
                raise GamlpError(f"has a line that is no point: {start!r}", file=self.path, hint=hint) from error
        return len(whole)


def _shortened(content: Any) -> Any:
    """The same with every number that is no whole one in six digits."""
    if isinstance(content, float):
        return _short(content) if math.isfinite(content) else content
    if isinstance(content, dict):
        return {name: _shortened(value) for name, value in content.items()}
    return [_shortened(one) for one in content] if isinstance(content, list | tuple) else content
