"""Scores of a trained run: of its own test rows, or of another graph's labelled rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import WeightsByDegree
from gamlp.graph import Graph
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.report import Observed, write_report
from gamlp.run.resources import LOCAL, Resources
from gamlp.run.seen_ids import among, has_ids, read_seen, rows_with_role, seen_hashes
from gamlp.run.trained import graph_of, hops_beside
from gamlp.training import (
    MOST_KEPT,
    Batches,
    Bundle,
    RunFolder,
    ScoreCounts,
    Watch,
    best_seed,
    check_store,
    choose_device,
    class_counts,
    full_report,
    matched,
    plan_of,
    reliability_of,
    rows_of,
    said_and_true,
    summary,
    trivial_scores,
    with_classes,
    without_folds,
    writing_run,
)

Watching = Callable[[dict[int, Bundle], HopStore, Array], dict[int, Watch]]  # who looks on, seed by seed


def evaluate(
    run: RunFolder,
    graph: Graph | None = None,
    *,
    other_nodes: bool = False,
    own: Graph | None = None,
    weights: WeightsByDegree | None = None,
    resources: Resources = LOCAL,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Scores of the run's own test rows, or of another graph's labelled rows: its test rows where it has some.

    Rows of another graph that trained the model or chose it, known by their ids, are left out; with `other_nodes` none
    is, since equal ids are other nodes there. Writes the report. `own` is the run's graph and `weights` are its weights
    over hops, where they are known already.
    """
    with writing_run(run.path):
        return _evaluate(run, graph, other_nodes, own, weights, resources, progress)


def _evaluate(
    run: RunFolder,
    graph: Graph | None,
    other_nodes: bool,
    own: Graph | None,
    weights: WeightsByDegree | None,
    resources: Resources,
    progress: Progress,
) -> dict[str, Any]:
    bundles, device = run.bundles(), choose_device(resources.device)
    if graph is None:
        store, begun = HopStore.open(run.store_path()), time.monotonic()
        found, why = (own, "") if own is not None else _graph_if_found(run, store, progress)
        observed = Observed(found)
        report = evaluate_run(run, resources=resources, watching=observed.watch)
        run.note_timings(evaluation=time.monotonic() - begun)
        page = write_report(run, bundles, store, observed, report, weights=weights, device=device)
        return {
            **report,
            "many": next(iter(bundles.values())).multi_label,
            "report": str(page.path),
            "words": page.words,
            **({"notes": [f"neighbours were not looked at: {why}"]} if why else {}),
        }
    bundle = next(iter(bundles.values()))
    graph, notes = matched(with_classes(graph, bundle.classes), bundle)
    labels, split = graph.nodes.labels, graph.nodes.split
    known = np.zeros(0, bool) if labels is None else labels.known()
    if not known.any():
        raise GamlpError(f"graph '{graph.name}' has no labels to compare with", hint="gamlp predict needs none")
    test = split is not None and known[split.test].any()
    rows = split.test[known[split.test]] if split is not None and test else np.flatnonzero(known)
    part = "test" if test else "labelled"
    if not other_nodes:
        rows, said = _without_seen(run, graph, rows, part, progress)
        notes += said
    with hops_beside(bundle, graph, run.path, resources, progress) as store:
        observed = Observed(graph)
        report = evaluate_rows(bundles, store, rows, resources, observed.watch)
        page = write_report(run, bundles, store, observed, report, part=part, elsewhere=graph.name, device=device)
    about = {"graph": graph.name, "part": part, **report, "many": bundle.multi_label, "report": str(page.path)}
    about["words"] = page.words
    return about | ({"notes": notes} if notes else {})


def _without_seen(run: RunFolder, graph: Graph, rows: Array, part: str, progress: Progress) -> tuple[Array, list[str]]:
    """Rows that neither trained the model nor chose it, and what is to be said of the others."""
    seen = _seen_hashes(run, progress)
    if seen is None:
        return rows, ["the run does not know which nodes trained it: some of those scored may be among them"]
    known = among(seen, seen_hashes(graph, rows))
    count = int(np.count_nonzero(known))
    if count == len(rows):
        raise GamlpError(
            f"all {count:,} {part} rows of graph '{graph.name}' trained the model or chose it, by their ids",
            hint="give rows that it has not seen, or --other-nodes where equal ids are other nodes",
        )
    if count:
        said = f"{count:,} of {len(rows):,} {part} rows trained the model or chose it, by their ids, and are left out"
        return rows[~known], [said]
    if not has_ids(graph):
        return rows, [f"nodes of graph '{graph.name}' have no ids: it is not known whether some trained the model"]
    return rows, []


def _seen_hashes(run: RunFolder, progress: Progress) -> Array | None:
    """As the run noted them; of a run on a store, or of an older gamlp, from its graph if that is still there."""
    noted = read_seen(run.seen_path)
    if noted is not None or run.about().valid_graph is not None:
        return noted
    store = HopStore.open(run.store_path())
    found, _ = _graph_if_found(run, store, progress)
    if found is None:
        return None
    return np.unique(seen_hashes(found, rows_with_role(store.labels, store.split, "train", "valid")))


def _graph_if_found(run: RunFolder, store: HopStore, progress: Progress) -> tuple[Graph | None, str]:
    """The run's graph; or None, and why: the report then names nodes by their rows."""
    try:
        return graph_of(run, store, progress), ""
    except GamlpError as error:
        return None, str(error)


def evaluate_run(run: RunFolder, *, resources: Resources = LOCAL, watching: Watching | None = None) -> dict[str, Any]:
    """Test rows of the run's own graph, read once, for every seed; written into the run."""
    bundles = run.bundles()
    store = HopStore.open(run.store_path())
    first = next(iter(bundles.values()))
    check_store(store, without_folds(plan_of(first.recipe)))
    split, labels = store.split, store.labels
    assert split is not None and labels is not None
    rows = split.test[labels.known()[split.test]]
    if not len(rows):
        raise GamlpError(
            "the graph has no labelled test rows", file=store.folder, hint="evaluate on another: --graph GRAPH"
        )
    report = evaluate_rows(bundles, store, rows, resources, watching)
    report["metric"] = first.report.get("metric", "")
    report["valid"] = summary([bundle.valid for bundle in bundles.values()]) if first.valid else {}
    if first.valid and first.report.get("base"):
        report["valid"]["base"] = first.report["base"]
    run.note_evaluation(report)
    return report


def evaluate_rows(
    bundles: dict[int, Bundle],
    store: HopStore,
    rows: Array,
    resources: Resources = LOCAL,
    watching: Watching | None = None,
) -> dict[str, Any]:
    """Scores of rows for every seed, with their mean and deviation and what a constant answer gets.

    Of the best seed by validation also precision, recall and F1 of every class, and its reliability.
    """
    device = choose_device(resources.device)
    watches = {} if watching is None else watching(bundles, store, rows)
    first = next(iter(bundles.values()))
    best = best_seed(bundles) if len(bundles) > 1 else next(iter(bundles))
    closer = _Closer(bundles[best], len(rows))
    seeds = {}
    for seed, bundle in bundles.items():
        read = rows_of(store, bundle.recipe, rows)
        batches = Batches(read, bundle.recipe.training.batch_size, device, memory=0)
        looking = [one for one in (watches.get(seed), closer.add if seed == best else None) if one is not None]
        seeds[seed] = full_report(bundle.model().to(device), batches, _all_of(looking), bundle.positive_number)
    assert store.labels is not None
    base = _trivial(first, store.labels.values[rows])
    return {
        "rows": len(rows), **summary(list(seeds.values())), "base": base, "seeds": seeds, "best": best,
        **closer.as_json(),
    }  # fmt: skip


def _trivial(bundle: Bundle, target: Array) -> dict[str, float]:
    """By how often training rows have each class; of an older bundle, which does not say, these rows themselves."""
    counts, rows = bundle.report.get("class_counts"), bundle.report.get("train_rows")
    if counts is None or rows is None or len(counts) != len(bundle.classes):
        return trivial_scores(class_counts(target, len(bundle.classes)), len(target), target)
    return trivial_scores(np.asarray(counts, np.int64), rows, target)


def _all_of(watches: list[Watch]) -> Watch:
    def watch(rows: Array, probabilities: Array, target: Array) -> None:
        for one in watches:
            one(rows, probabilities, target)

    return watch


class _Closer:
    """Of one seed: every class, and whether probabilities mean what they say."""

    def __init__(self, bundle: Bundle, rows: int) -> None:
        self.bundle, self.counts = bundle, ScoreCounts(bundle.multi_label, len(bundle.classes))
        self.positive = 1 if bundle.positive_number is None else bundle.positive_number
        # Reliability ranks probabilities, so it must hold them.
        self.keeps = rows * (len(bundle.classes) if bundle.multi_label else 1) <= MOST_KEPT
        self.kept: list[tuple[Array, Array]] = []

    def add(self, rows: Array, probabilities: Array, target: Array) -> None:
        self.counts.add(probabilities, target)
        if self.keeps:
            self.kept.append(said_and_true(probabilities, target, self.positive))

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"classes": self.counts.class_table(self.bundle.classes)}
        if self.bundle.positive is not None:
            found["positive"] = self.bundle.positive
        if self.kept:
            said, true = (np.concatenate(part) for part in zip(*self.kept))
            found["reliability"] = reliability_of(said, true).as_json()
        return found
