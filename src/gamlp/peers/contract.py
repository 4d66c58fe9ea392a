"""What every peer is asked and what it answers: `run(task, recipe, seed, workspace) → Report`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources
from gamlp.training import Observe


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
    """What one run of one peer tells. `test` is read once, after everything was chosen.

    `tests` are the scores of each graph of `Task.tests`, and `test` is then their mean. `peak_memory` is resident
    memory at its most above what the process held before. `probabilities[n, c]` are those of all nodes of the graph,
    where the workspace asks for them. `valid_mean` is `valid` averaged over `training.window` epochs.
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
    probabilities: Array | None = field(default=None, repr=False, compare=False)
    valid_mean: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Without the probabilities."""
        content = asdict(self)
        del content["probabilities"]
        return content


@dataclass(frozen=True)
class Workspace:
    """Where hops are kept between runs, what the machine gives, and what a run is asked beside scores.

    `depths` says how deep a shared store is made at once: feature settings (their digest) → hops. `kept` are the rows
    of features that it has; None: all. Without `score_test` a run looks at no test row, and its report has no `test`:
    what searches ask for.
    """

    hops: Path
    resources: Resources = LOCAL
    probabilities: bool = False
    depths: dict[str, int] = field(default_factory=dict)
    observe: Observe | None = None
    progress: Progress = silent
    kept: Array | None = field(default=None, repr=False, compare=False)
    score_test: bool = True


Run = Callable[[Task, Recipe, int, Workspace], Report]


@dataclass(frozen=True)
class Peer:
    """One method. `name` is the recipe's `model.name`; `paper` says where it comes from.

    `leaves_bundle`: what it trains is a model on hops, which `gamlp run` saves and which predicts other graphs.
    `run_with_reuse`: how it trains again on its own predictions (`training.reuse`); None: it reads no hops of labels.
    """

    name: str
    title: str
    family: (
        str  # hops, solved (hops, no epochs), labels, message passing, sampled, types: messages by type and relation
    )
    paper: str
    run: Run
    leaves_bundle: bool = False
    run_with_reuse: Run | None = None


def labelled(graph: Graph, *parts: str) -> Array:
    """Labelled rows of the split's parts, or of the whole graph."""
    labels, split = graph.nodes.labels, graph.nodes.split
    if labels is None or (parts and split is None):
        raise GamlpError(f"graph '{graph.name}' has no labels or no split", hint="a method needs both")
    known = labels.known()
    if not parts:
        return np.flatnonzero(known)
    assert split is not None
    rows = split.rows(*parts)
    return rows[known[rows]]


def options_of(recipe: Recipe, defaults: dict[str, Any]) -> dict[str, Any]:
    """The recipe's `model.options` over these defaults; a name or a kind of value that they do not have is refused."""
    given, name = recipe.model.options, recipe.model.name
    for key, value in given.items():
        if key not in defaults:
            raise GamlpError(f"'{name}' has no option '{key}'", hint=f"it takes {', '.join(defaults)}")
        node_type = (int, float) if isinstance(defaults[key], float) else type(defaults[key])
        if not isinstance(value, node_type) or (isinstance(value, (int, float)) and value < 0):
            raise GamlpError(f"'model.options.{key}' of '{name}' is {value!r}", hint=f"such as {defaults[key]!r}")
    return defaults | given
