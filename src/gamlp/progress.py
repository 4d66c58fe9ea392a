"""How long work tells of itself: a function that is called with the stage and how much of it is done."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called often and cheaply; who shows it decides how often to draw.

    `unit` names what is counted; `note` is shown beside it: a loss, a score.
    """

    def __call__(self, stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None: ...


def silent(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
    """Show nothing."""


def overall(progress: Progress, all_entries: float, counted: str = "entries") -> Progress:
    """Also tells how much of all hops is done, so that the time left of the whole can be estimated."""
    stages: dict[str, float] = {}

    def report(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        progress(stage, done, total, unit, note)
        if unit == counted and "hop " in stage:
            stages[stage] = done
            progress("all hops", sum(stages.values()), all_entries, unit)

    return report
