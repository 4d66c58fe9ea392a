"""How long work tells of itself: a function that is called with the stage and how much of it is done."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called often and cheaply; who shows it decides how often to draw. `unit` names what is counted."""

    def __call__(self, stage: str, done: float, total: float | None = None, unit: str = "") -> None: ...


def silent(stage: str, done: float, total: float | None = None, unit: str = "") -> None:
    """Show nothing."""
