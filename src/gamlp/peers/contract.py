"""What every method answers: `run(task, recipe, seed, place) → Report`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gamlp.arrays import Array
from gamlp.graph.graph import Graph
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run.resources import LOCAL, Resources
from gamlp.training.loop import Observe


@dataclass(frozen=True)
class Task:
    """A graph with its split. Where other graphs validate and test (other countries), they stand beside it."""

    graph: Graph
    valid: Graph | None = None
    tests: dict[str, Graph] = field(default_factory=dict)


@dataclass(frozen=True)
class Seconds:
    """Of a run's three parts. Hops that were found in the cache count as long as they once took to make."""

    preparation: float
    training: float
    inference: float


@dataclass(frozen=True)
class Report:
    """What one run of one method tells. `test` is read once, after everything was chosen.

    `tests` are the scores of each graph of `Task.tests`, and `test` is then their mean. `peak_memory` is resident
    memory at its most above what the process held before. `chances[n, c]` are probabilities of all nodes of the
    graph, where the place asks for them.
    """

    method: str
    seed: int
    valid: dict[str, float]
    test: dict[str, float]
    seconds: Seconds
    peak_memory: int
    parameters: int
    epoch: int = 0
    epochs: int = 0
    stopped: str = ""
    tests: dict[str, dict[str, float]] = field(default_factory=dict)
    chances: Array | None = field(default=None, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Without the probabilities."""
        content = asdict(self)
        del content["chances"]
        return content


@dataclass(frozen=True)
class Place:
    """Where hops are kept between runs, and what the machine gives.

    `depths` says how deep a shared store is made at once: feature settings (their digest) → hops.
    """

    hops: Path
    resources: Resources = LOCAL
    chances: bool = False
    depths: dict[str, int] = field(default_factory=dict)
    observe: Observe | None = None
    progress: Progress = silent


Run = Callable[[Task, Recipe, int, Place], Report]


@dataclass(frozen=True)
class Method:
    """One peer. `name` is the recipe's `model.name`; `paper` says where it comes from."""

    name: str
    title: str
    family: str  # hops, labels, message passing, sampled, types: message passing by type and relation
    paper: str
    run: Run
