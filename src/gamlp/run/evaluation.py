"""Scores of a trained run: of its own test rows, or of another graph's labelled rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import WeightsByDegree
from gamlp.graph import ROLES, Graph, Labels
from gamlp.io import TakeTally, row_ranges, seen_by_all
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.report import Observed, RowSurvey, write_report
from gamlp.run.resources import LOCAL, Resources
from gamlp.run.scoring import GivenRows, RowsOfPart, ScoredRows, SeenRows, count_scores, seen_rows
from gamlp.run.seen_ids import has_ids, read_seen, seen_of, write_seen
from gamlp.run.trained import graph_of, hops_beside
from gamlp.training import (
    Bundle,
    RunFolder,
    SentBundles,
    check_store,
    choose_device,
    matched,
    plan_of,
    summary,
    trivial_scores_of,
    with_classes,
    without_folds,
    writing_run,
)

_ROWS = 1 << 20  # labels, roles and ids looked at at a time


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
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, run.shared)
        if graph is None:
            return _evaluate_own(run, own, weights, resources, take, progress)
        return _evaluate_other(run, graph, other_nodes, resources, take, progress)


def _evaluate_own(
    run: RunFolder,
    own: Graph | None,
    weights: WeightsByDegree | None,
    resources: Resources,
    take: TakeTally,
    progress: Progress,
) -> dict[str, Any]:
    bundles = run.bundles()
    store, begun = HopStore.open(run.store_path()), time.monotonic()
    found, why = (own, "") if own is not None else _graph_if_found(run, store, progress)
    observed = Observed(found)
    report = evaluate_run(run, resources=resources, observed=observed, take=take)
    run.note_timings(evaluation=time.monotonic() - begun)
    device = choose_device(resources.device)
    page = write_report(run, bundles, store, observed, report, weights=weights, device=device, take=take)
    return {
        **report,
        "many": next(iter(bundles.values())).multi_label,
        "report": str(seen_by_all(page.path)),
        "words": page.words,
        **({"notes": [f"neighbours were not looked at: {why}"]} if why else {}),
    }


def _evaluate_other(
    run: RunFolder, graph: Graph, other_nodes: bool, resources: Resources, take: TakeTally, progress: Progress
) -> dict[str, Any]:
    bundles = run.bundles()
    bundle = next(iter(bundles.values()))
    graph, notes = matched(with_classes(graph, bundle.classes), bundle)
    part = _scored_part(graph)
    seen: SeenRows | None = None
    if not other_nodes:
        seen, said = _without_seen(run, graph, part, take, progress)
        notes += said
    unheard = part == "labelled" and labels_used(bundle.recipe) and graph.nodes.split is not None
    if unheard:
        notes = [*notes, *_without_heard(graph, seen)]
    device = choose_device(resources.device)
    with hops_beside(bundle, graph, run.path, resources, progress) as store:
        observed = Observed(graph)
        report = evaluate_rows(bundles, store, RowsOfPart(part, seen, unheard=unheard), resources, observed, take)
        page = write_report(
            run, bundles, store, observed, report, part=part, elsewhere=graph.name, device=device, take=take
        )
    about = {"graph": graph.name, "part": part, **report, "many": bundle.multi_label}
    about |= {"report": str(seen_by_all(page.path)), "words": page.words}
    return about | ({"notes": notes} if notes else {})


def _scored_part(graph: Graph) -> str:
    """Test rows where some have labels, else all labelled rows."""
    counts = {part: sum(len(rows) for rows in _parts_of(graph, part)) for part in ("labelled", "test")}
    if not counts["labelled"]:
        raise GamlpError(f"graph '{graph.name}' has no labels to compare with", hint="gamlp predict needs none")
    return "test" if counts["test"] else "labelled"


def _parts_of(graph: Graph, part: str) -> Iterator[Array]:
    """Labelled rows of a part of the split, or all, some at a time."""
    labels, split = graph.nodes.labels, graph.nodes.split
    if labels is None or (split is None and part != "labelled"):
        return
    for begin, end in row_ranges(graph.nodes.count, _ROWS):
        chosen = Labels(labels.values[begin:end], labels.classes).known()
        if split is not None and part != "labelled":
            chosen = chosen & (split.roles[begin:end] == ROLES.index(part))
        yield begin + np.flatnonzero(chosen)


def _without_seen(
    run: RunFolder, graph: Graph, part: str, take: TakeTally, progress: Progress
) -> tuple[SeenRows | None, list[str]]:
    """What leaves out rows that trained the model or chose it, and what is to be said of them."""
    if not _note_seen(run, take, progress):
        return None, ["the run does not know which nodes trained it: some of those scored may be among them"]
    seen = seen_rows(run.seen_path, graph)
    total = count = 0
    for rows in _parts_of(graph, part):
        total, count = total + len(rows), count + int(np.count_nonzero(seen.mask(rows)))
    if count == total:
        raise GamlpError(
            f"all {count:,} {part} rows of graph '{graph.name}' trained the model or chose it, by their ids",
            hint="give rows that it has not seen, or --other-nodes where equal ids are other nodes",
        )
    if count:
        said = f"{count:,} of {total:,} {part} rows trained the model or chose it, by their ids, and are left out"
        return seen, [said]
    if not has_ids(graph):
        return None, [f"nodes of graph '{graph.name}' have no ids: it is not known whether some trained the model"]
    return None, []


def _without_heard(graph: Graph, seen: SeenRows | None) -> list[str]:
    """What is said of training rows of the graph: the model listens to their labels, so they are not scored by them."""
    assert graph.nodes.split is not None
    heard = left = 0
    for rows in _parts_of(graph, "labelled"):
        train = np.asarray(graph.nodes.split.roles[rows]) == ROLES.index("train")
        heard += int(np.count_nonzero(train))
        left += int(np.count_nonzero(~train if seen is None else ~train & ~seen.mask(rows)))
    if not left:
        raise GamlpError(
            f"the model listens to the labels of all rows of graph '{graph.name}' that could be scored",
            hint="give some of its labelled rows the split 'test'",
        )
    if not heard:
        return []
    return [f"{heard:,} training rows of graph '{graph.name}', whose labels the model listens to, are left out"]


def _note_seen(run: RunFolder, take: TakeTally, progress: Progress) -> bool:
    """Whether the run noted them; one on a store, or of an older gamlp, notes them now if its graph is there."""
    if read_seen(run.seen_path) is not None:
        return True
    if run.about().valid_graph is not None:
        return False
    store = HopStore.open(run.store_path())
    found, _ = _graph_if_found(run, store, progress)
    if found is None:
        return False
    write_seen(run.seen_path, seen_of(store, found, ("train", "valid"), take))
    return True


def _graph_if_found(run: RunFolder, store: HopStore, progress: Progress) -> tuple[Graph | None, str]:
    """The run's graph; or None, and why: the report then names nodes by their rows."""
    try:
        return graph_of(run, store, progress), ""
    except GamlpError as error:
        return None, str(error)


def evaluate_run(
    run: RunFolder,
    *,
    resources: Resources = LOCAL,
    observed: Observed | None = None,
    take: TakeTally | None = None,
) -> dict[str, Any]:
    """Test rows of the run's own graph, read once, for every seed; written into the run."""
    bundles = run.bundles()
    store = HopStore.open(run.store_path())
    first = next(iter(bundles.values()))
    check_store(store, without_folds(plan_of(first.recipe)))
    report = evaluate_rows(bundles, store, RowsOfPart("test"), resources, observed, take)
    if not report["rows"]:
        raise GamlpError(
            "the graph has no labelled test rows", file=store.folder, hint="evaluate on another: --graph GRAPH"
        )
    report["metric"] = first.report.get("metric", "")
    report["valid"] = summary([bundle.valid for bundle in bundles.values()]) if first.valid else {}
    if first.valid and first.report.get("base"):
        report["valid"]["base"] = first.report["base"]
    run.note_evaluation(report)
    return report


def evaluate_rows(
    bundles: dict[int, Bundle],
    store: HopStore,
    rows: ScoredRows | Array,
    resources: Resources = LOCAL,
    observed: Observed | None = None,
    take: TakeTally | None = None,
) -> dict[str, Any]:
    """Scores of rows for every seed, with their mean and deviation and what a constant answer gets.

    Of the best seed by validation also precision, recall and F1 of every class, and its reliability. `observed` is
    told what a report shows; `take` has the rows counted, by itself the engine of `resources`.
    """
    chosen = GivenRows(np.sort(rows)) if isinstance(rows, np.ndarray) else rows
    sent = SentBundles(bundles, choose_device(resources.device))
    with ExitStack() as stack:
        if take is None:
            engine = stack.enter_context(closing(resources.open_engine()))
            take = partial(engine.tally, store.place)
        found = count_scores(bundles, sent, store, chosen, take, observed)
    scores, tallies = {seed: one.report() for seed, one in found.tallies.scores.items()}, found.tallies
    first = next(iter(bundles.values()))
    return {
        "rows": found.survey.rows, **summary(list(scores.values())), "base": _trivial(first, found.survey),
        "seeds": scores, "best": tallies.best, **tallies.closer.as_json(),
    }  # fmt: skip


def _trivial(bundle: Bundle, survey: RowSurvey) -> dict[str, float]:
    """By how often training rows have each class; of an older bundle, which does not say, these rows themselves."""
    counts, rows = bundle.report.get("class_counts"), bundle.report.get("train_rows")
    if counts is None or rows is None or len(counts) != len(bundle.classes):
        counts, rows = survey.sizes, survey.rows
    return trivial_scores_of(np.asarray(counts, np.int64), rows, survey.sizes, survey.rows, bundle.multi_label)
