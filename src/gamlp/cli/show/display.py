"""Progress bars on a terminal, JSON Lines for machines, nothing otherwise; tables."""

from __future__ import annotations

import json
import sys
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


@contextmanager
def progress(as_json: bool = False) -> Iterator[ProgressFunction]:
    """Show stages as they advance: bars with rate and time left on a terminal, JSON Lines on stderr with --json."""
    if as_json:
        yield _JsonLines()
    elif stderr.is_terminal:
        with _bars() as bars:
            yield bars
    else:
        yield silent


class _JsonLines:
    """At most five lines a second, and the last of each stage."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        now = time.monotonic()
        if now - self._last >= 0.2 or done == total:
            self._last = now
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


def _print_lines(where: Console, text: str) -> None:
    where.print("\n".join(printable(line) for line in text.split("\n")), soft_wrap=True, markup=False)


def _text(cell: str) -> Text:
    """A cell that is neither markup nor, if it comes from a table of a user's, anything a terminal obeys."""
    return Text(printable(cell))
