"""Progress bars on a terminal, lines elsewhere, JSON Lines for machines; tables."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gamlp.errors import printable
from gamlp.progress import Progress as ProgressFunction
from gamlp.progress import silent

console = Console(highlight=False)
stderr = Console(stderr=True, highlight=False)


_FIRST, _EVERY = 1.0, 10.0  # seconds until the first line where there is no terminal, and between others
_QUIET = "GAMLP_PROGRESS"  # `off`: no lines but those that --json asks for
_telling: list[_Lines] = []  # of the verb that runs


@contextmanager
def telling(as_json: bool = False) -> Iterator[None]:
    """While a verb runs, a line within two seconds and every ten where stderr is no terminal, whatever it does.

    From before the verb's own first step: what it imports may take longer than all it does.
    """
    if stderr.is_terminal and not as_json:
        yield
        return
    lines = _JsonLines() if as_json else _Lines()
    _telling.append(lines)
    teller = threading.Thread(target=lines.tell, daemon=True)
    if os.environ.get(_QUIET) != "off":
        teller.start()
    try:
        yield
    finally:
        _telling.remove(lines)
        lines.ended.set()
        if teller.is_alive():
            teller.join()


@contextmanager
def progress(as_json: bool = False) -> Iterator[ProgressFunction]:
    """Show stages as they advance: bars with rate and time left on a terminal, else lines; JSON Lines with --json."""
    if as_json:
        yield _telling[-1] if _telling else _JsonLines()
    elif stderr.is_terminal:
        with _bars() as bars:
            yield bars
    else:
        yield _telling[-1] if _telling else silent


class _Lines:
    """Knows how far the work is, and tells it now and then."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._begun = time.monotonic()
        self._now: tuple[str, float, float | None, str, str] = ("starting", 0, None, "", "")

    def __call__(self, stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        self._now = stage, done, total, unit, note

    def tell(self) -> None:
        """A line, and again, until the work has ended."""
        wait = _FIRST
        while not self.ended.wait(wait):
            try:
                self._print()
            except (OSError, ValueError):  # nobody reads any more
                return
            wait = _EVERY

    def _print(self) -> None:
        stage, done, total, unit, note = self._now
        far = f", {done:,.0f} of {total:,.0f} {unit}" if total else f", {done:,.0f} {unit}" if done else ""
        seconds = time.monotonic() - self._begun
        _print_lines(stderr, f"gamlp: {seconds:.0f} s: {stage}{far.rstrip()}{f' ({note})' if note else ''}")


class _JsonLines(_Lines):
    """At most five lines a second, and the last of each stage."""

    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0

    def __call__(self, stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        super().__call__(stage, done, total, unit, note)
        if time.monotonic() - self._last >= 0.2 or done == total:
            self._print()

    def _print(self) -> None:
        self._last = time.monotonic()
        stage, done, total, unit, note = self._now
        line = {"stage": stage, "done": done, "total": total, "unit": unit}
        print_json(line | ({"note": note} if note else {}), file=sys.stderr)


@contextmanager
def _bars() -> Iterator[ProgressFunction]:
    columns = [
        TextColumn("{task.description:<16}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}"),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=stderr, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, rate="", note="")
            speed = bars.tasks[tasks[stage]].speed
            rate = f"{_short(speed)} {unit}/s" if speed and unit else ""
            note = printable(note)
            bars.update(tasks[stage], completed=done, total=total, rate=rate, note=note)

        yield show


def _short(count: float) -> str:
    for unit in ("", "k", "M"):
        if count < 1000:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}G"


def print_json(content: Any, file: Any = None) -> None:
    """One JSON value on one line."""
    print(json.dumps(content), file=file or sys.stdout, flush=True)


def table(*columns: str, rows: list[tuple[Any, ...]], title: str | None = None) -> None:
    """Print a small table; numbers to the right."""
    shown = Table(title=title, box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        # Folded, not cut off: names of relations often differ at their ends alone.
        shown.add_column(_text(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(_text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    console.print(shown)


def say(text: str) -> None:
    """Lines as they are, however long."""
    _print_lines(console, text)


def warn(text: str) -> None:
    """A line on stderr."""
    _print_lines(stderr, f"gamlp: warning: {text}.")


def inform(text: str) -> None:
    """A line on stderr that warns of nothing."""
    _print_lines(stderr, f"gamlp: {text}.")


def stop_telling() -> None:
    """What was waited for is done, and the verb stays: no more lines on how far it is."""
    for lines in _telling:
        lines.ended.set()


def _print_lines(where: Console, text: str) -> None:
    where.print("\n".join(printable(line) for line in text.split("\n")), soft_wrap=True, markup=False)


def _text(cell: str) -> Text:
    """A cell that is neither markup nor, if it comes from a table of a user's, anything a terminal obeys."""
    return Text(printable(cell))
