"""A trained run or bundle → a table of predictions, by the engine that was asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from pathlib import Path

from gamlp.graph.graph import Graph
from gamlp.progress import Progress, silent
from gamlp.run.engine import Opened
from gamlp.run.open import open_trained
from gamlp.run.predictions import Written
from gamlp.run.resources import LOCAL, Resources


def predict(
    place: Path,
    out: str | Path,
    *,
    graph: Graph | None = None,
    rows: str = "all",
    each_class: bool = True,
    batch_size: int | None = None,
    keep_finished: bool = False,
    trust: str | None = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Written | None:
    """Predictions of a run's own graph, or of another one, for a run folder or a bare bundle.

    None: they were finished before, and `keep_finished` lets them stay.
    """

    def opening(beside: Path | None) -> AbstractContextManager[Opened]:
        usual = place if place.is_dir() else place.parent
        return open_trained(place, graph, beside or usual, trust=trust, resources=resources, progress=progress)

    with closing(resources.open_engine()) as engine:
        return engine.predict(
            opening, out, rows=rows, each_class=each_class, batch_size=batch_size, keep_finished=keep_finished,
            progress=progress,
        )  # fmt: skip
