"""The whole path with sensible defaults: tables or a graph → a trained run, its scores, and what it listens to."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.explanation import WeightsByDegree
from gamlp.io import Place, Ranges, State, TakeTally, row_ranges, seen_by_all
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.report import Observed, listening, write_report
from gamlp.run.evaluation import evaluate, evaluate_rows
from gamlp.run.prediction_table import ROW_SETS, Written, asked_among
from gamlp.run.resources import LOCAL, Resources
from gamlp.run.scoring import RowsOfPart
from gamlp.run.source import Source
from gamlp.run.trained import predict
from gamlp.run.training import Trained, train
from gamlp.training import best_seed, choose_device

_NODES = 1 << 20  # whose labels and roles are looked at at a time


@dataclass(frozen=True)
class Outcome:
    """`test` is None without labelled test rows, `predictions` where they were finished before.

    `words`: sentences that say whether to trust the result, the report's first paragraph.
    """

    trained: Trained
    test: dict[str, Any] | None
    weights: WeightsByDegree | None
    predictions: Written | None
    report: Path | Place
    words: list[str] = field(default_factory=list)


def run_path(
    source: Source,
    recipe: Recipe,
    out: Path,
    *,
    warm: str | Path | None = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> Outcome:
    """Train what is not trained yet, score test rows where there are some, and look at the weights over hops."""
    trained = train(source, recipe, out, resume=True, warm=warm, resources=resources, progress=progress)
    bundle = trained.bundles[best_seed(trained.bundles)]
    store = HopStore.open(trained.run.store_path())
    with closing(resources.open_engine()) as engine:
        rows = _rows_kept(store, trained.recipe, partial(engine.tally, trained.run.shared))
    written = predict(
        out, trained.run.predictions_path, own=source.graph if source.origin is None else None, rows=rows,
        keep_finished=True, trust=trained.run.trust, resources=resources, progress=progress,
    )  # fmt: skip
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, trained.run.shared)
        weights = listening(bundle, source.graph, store, choose_device(resources.device), take)
        test = _test(trained, source, store, weights, resources, take)
    return Outcome(trained, test, weights, written, seen_by_all(trained.run.report_path), trained.run.words())


def _rows_kept(store: HopStore, recipe: Recipe, take: TakeTally) -> str:
    """All nodes, or those whose hops the recipe keeps; of a store that was made before, the sets that it has whole."""
    if store.kept is None:
        return "all"
    if recipe.propagation.rows != "all":
        return recipe.propagation.rows
    names = tuple(name for name in ROW_SETS[1:] if store.has_split or name.endswith("labelled"))
    counts = np.zeros((2, len(names)), np.int64)
    for state in take(KeptWork(store, names), row_ranges(store.manifest.nodes, _NODES), "kept rows"):
        counts += state["counts"]
    return "+".join(name for name, asked, kept in zip(names, *counts.tolist()) if 0 < asked == kept)


@dataclass(frozen=True)
class KeptWork:
    """`counts[0]`: how many rows of some ranges are in each of the named sets; `counts[1]`: whose hops are kept too."""

    store: HopStore
    names: tuple[str, ...]

    def __call__(self, ranges: Ranges) -> State:
        counts, kept = np.zeros((2, len(self.names)), np.int64), self.store.kept
        assert kept is not None
        for begin, end in ranges:
            here = np.zeros(end - begin, bool)
            first, last = np.searchsorted(kept, [begin, end])
            here[np.asarray(kept[first:last]) - begin] = True
            for number, name in enumerate(self.names):
                wanted = asked_among(self.store, (name,), slice(begin, end))
                counts[:, number] += np.count_nonzero(wanted), np.count_nonzero(wanted & here)
        return {"counts": counts}


def _test(
    trained: Trained,
    source: Source,
    store: HopStore,
    weights: WeightsByDegree | None,
    resources: Resources,
    take: TakeTally,
) -> dict[str, Any] | None:
    """Scores of test rows, those of a run that was evaluated before as they are written there; and the report."""
    run = trained.run
    if RowsOfPart("test").count(store, take):
        found = run.evaluation()
        if found is not None and run.report_path.exists():
            return found
        return evaluate(run, own=source.graph, weights=weights, resources=resources)
    if not run.report_path.exists():
        observed, scores = Observed(source.graph), None
        if RowsOfPart("valid").count(store, take):
            scores = evaluate_rows(trained.bundles, store, RowsOfPart("valid"), resources, observed, take)
        write_report(
            run, trained.bundles, store, observed, scores,
            part="valid", weights=weights, device=choose_device(resources.device), take=take,
        )  # fmt: skip
    return None
