"""Finished runs as lines of a file that is committed beside the pages: what is in it is not run again, anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.io import disk_full_as_error, locked

NAME = "runs.jsonl"
Line = dict[str, Any]
# Of a report that has none of these: its run had no epochs, one graph, no window.
_DEFAULTS: dict[str, Any] = {"epoch": 0, "epochs": 0, "stopped": "", "tests": {}, "valid_mean": {}}


def as_line(key: str, content: dict[str, Any], **told: Any) -> Line:
    """A run as the record has it: its key, what is `told` of its place, and its report without what is default."""
    report = {name: value for name, value in content["report"].items() if value != _DEFAULTS.get(name, ...)}
    told |= {name: content[name] for name in ("date", "versions", "threads") if name in content}
    return {"key": key, **told, "report": report}


class Record:
    """JSON Lines, a finished run each, by everything that decides its result. Processes share it: lines appear whole.

    What others append meanwhile is read at the next look.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[str, Line] = {}
        self._read = 0  # bytes

    def __contains__(self, key: object) -> bool:
        self._look()
        return key in self._lines

    def report(self, key: str) -> dict[str, Any] | None:
        """Of a run, as `Report.as_json()` gave it; None where it is not here."""
        self._look()
        line = self._lines.get(key)
        return None if line is None else {**_DEFAULTS, **line["report"]}

    def add(self, lines: Iterable[Line]) -> None:
        """Append those that are not here yet."""
        if not (given := list(lines)):
            return
        with locked(self.path), disk_full_as_error(self.path), self.path.open("ab") as file:
            self._look()
            new = {line["key"]: line for line in given if line["key"] not in self._lines}
            file.truncate(self._read)  # half a line, of a process that ended within it
            file.write(b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in new.values()))
            file.flush()
            os.fsync(file.fileno())
        self._look()

    def _look(self) -> None:
        """Read whole lines from where the last look ended."""
        if not self.path.exists() or (size := self.path.stat().st_size) == self._read:
            return
        if size < self._read:  # another file than before
            self._lines, self._read = {}, 0
        with self.path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            found = _parsed(line, self.path)
            self._lines[found["key"]] = found
        self._read += len(whole)


def _parsed(line: bytes, path: Path) -> Line:
    try:
        found: Line = json.loads(line)
        found["key"], found["report"]["seconds"]
    except (ValueError, KeyError, TypeError) as error:
        start = line[:40].decode(errors="replace")
        hint = "remove the line, or name another file by --record"
        raise GamlpError(f"has a line that is no run: {start!r}", file=path, hint=hint) from error
    return found
