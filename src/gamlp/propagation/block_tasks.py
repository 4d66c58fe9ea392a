"""Who does the tasks of a run over blocks: Spark's executors, or whoever else takes a number and gives an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gamlp.progress import Progress


class Tasks(Protocol):
    """Runs `work(number)` for every number, somewhere; see `gamlp.cluster.run_tasks`."""

    def __call__(
        self,
        work: Callable[[int], dict[str, Any]],
        numbers: Sequence[int],
        stage: str,
        progress: Progress,
        together: int = 1,
    ) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Workers:
    """Who does the tasks, and how many at once."""

    tasks: Tasks
    slots: int
