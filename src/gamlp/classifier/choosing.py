"""A classifier without a recipe: several models are tried, and the best by validation rows stays."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest, fingerprint
from gamlp.progress import Progress
from gamlp.propagation import HopStore
from gamlp.run import Resources, Source, train
from gamlp.training import Bundle, best_seed
from gamlp.tune import AskedChoice, Leaderboard, choose


@dataclass(frozen=True)
class ChosenRun:
    """The winner's bundles by seed, the hops that they read, and what was compared."""

    bundles: dict[int, Bundle]
    best: int
    store: HopStore
    leaderboard: Leaderboard | None
    notes: list[str]


def asked_of(recipe: Any, preset: str | None, time_limit: float | str | None, metric: str | None) -> AskedChoice | None:
    """How to choose; None where a recipe names the model."""
    if recipe is None:
        return AskedChoice.of(preset, time_limit, metric)
    for name, value in (("preset", preset), ("time_limit", time_limit)):
        if value is not None:
            what = f"'{name}' is for a choice among models, and the recipe names one"
            raise GamlpError(what, hint=f"leave out {name}, or the recipe")
    return None


def chosen_run(
    graph: Graph, asked: AskedChoice, place: Path, seed: int, resources: Resources, progress: Progress
) -> ChosenRun:
    """Choose, in a folder of this graph and this question: another fit in the same place goes on or begins anew."""
    source = Source(graph.name, None, graph)
    folder = place / f"chosen-{digest([fingerprint.everything(graph), asdict(asked), seed])}"
    choice = choose(
        source, folder, preset=asked.preset, time_limit=asked.time_limit, metric=asked.metric, seed=seed,
        resources=resources, progress=progress,
    )  # fmt: skip
    trained = train(source, choice.recipe, folder, resume=True, resources=resources, progress=progress)
    best = best_seed(trained.bundles)
    store = HopStore.open(trained.run.store_path())
    return ChosenRun(trained.bundles, best, store, choice.leaderboard, [*choice.notes, *trained.notes])


def leaderboard_frame(board: Leaderboard) -> Any:
    """A row for every model; pandas is an extra."""
    rows = [{**row, "chosen": row["name"] == board.chosen} for row in board.records()]
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
