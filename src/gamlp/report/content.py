"""What a report says, as plain numbers and texts: from a run folder, or from any method's probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.explanation import WeightsByDegree, weights_of_rows
from gamlp.graph import Graph, Homophily, edge_homophily, total_width
from gamlp.io import TakeTally, tally_here
from gamlp.propagation import HopStore, structural_schema, structural_words
from gamlp.recipe import Recipe
from gamlp.report.agreement import agreement_of
from gamlp.report.judgement import Judged, counts_of_rows, facts_of_run, training_counts
from gamlp.report.leaderboard import read_leaderboard
from gamlp.report.observed import Frame, Observed, Tally, degrees_of
from gamlp.report.parts import (
    Content,
    by_class_of,
    by_degree_of,
    clipped,
    confusion_of,
    curves_of,
    listed_nodes,
    weights_of,
)
from gamlp.report.unlabelled import LEVELS, unlabelled_of
from gamlp.report.words import Facts, Score, Words, score_name, words_of
from gamlp.training import (
    MOST_KEPT,
    Bundle,
    RunFolder,
    best_seed,
    blend_words,
    metric_words,
    reliability_of,
    rows_of,
    said_and_true,
    summary,
    trivial_scores,
)

_CHUNK = 10_000  # rows of probabilities counted at a time


@dataclass(frozen=True)
class SeedScores:
    """What one seed came to: `valid` and `test` hold score, loss and what else was measured."""

    seed: int
    valid: Mapping[str, float] = field(default_factory=dict)
    test: Mapping[str, float] = field(default_factory=dict)
    epoch: int = 0
    epochs: int = 0
    seconds: float | None = None
    stopped: str = ""


@dataclass(frozen=True)
class Timings:
    """Seconds of the parts of a run and bytes of memory; None for what was not measured."""

    preparation: float | None = None
    training: float | None = None
    evaluation: float | None = None
    peak_memory: float | None = None


def content_of_run(
    run: RunFolder,
    bundles: dict[int, Bundle],
    store: HopStore,
    observed: Observed,
    evaluation: Mapping[str, Any] | None,
    *,
    part: str = "test",
    weights: WeightsByDegree | None = None,
    own: bool = True,
    device: torch.device | None = None,
    take: TakeTally = tally_here,
) -> Content:
    """A trained run. `evaluation` are the scores of the rows that `observed` looked at, None where there are none.

    Without `own` they are rows of another graph than the run's. `take` has what all rows tell counted.
    """
    recipe, lines, kept = run.recipe(), run.metrics(), run.timings()
    seeds = []
    for seed, bundle in bundles.items():
        report = bundle.report
        scores = {} if evaluation is None else {int(name): value for name, value in evaluation["seeds"].items()}
        spent = [line.get("seconds") or 0.0 for line in lines if line["seed"] == seed]
        seeds.append(
            SeedScores(seed, bundle.valid, scores.get(seed, {}), report["epoch"], report["epochs"],
                       sum(spent) if spent else None, report["stopped"])
        )  # fmt: skip
    best = best_seed(bundles)
    graph = observed.graph
    nodes = observed.nodes()
    found = None
    if nodes:
        source = rows_of(store, bundles[best].recipe, nodes["row"])
        model = bundles[best].model().to(device or torch.device("cpu"))
        found = weights_of_rows(model, source, device=device)
    total = [one.seconds for one in seeds if one.seconds is not None]
    timings = Timings(
        kept.get("preparation"),
        sum(total) if total else None,
        kept.get("evaluation") if own else None,
        kept.get("peak_memory"),
    )
    notes = [] if graph is not None else ["The run's graph was not at hand: nodes are named by their row numbers."]
    if store.manifest.structural is not None:
        made = [structural_words(tuple(columns)) for columns in store.manifest.columns.values()]
        notes += [f"Features were made of edges: {words}." for words in made]
    if (blend := blend_words(bundles[best].report)) is not None:
        notes.append(f"The model is {blend}.")
    bundle, given = bundles[best], evaluation or {}
    judged = None
    if observed.frame is not None:
        judged = Judged(
            observed.frame, observed.tallies, best, observed.tallies[best].ranking.curves(), part,
            training_counts(bundle, store), (given.get("base") or {}).get("score"),
        )  # fmt: skip
    board = read_leaderboard(run.path) if own else None
    unlabelled = unlabelled_of(run.predictions_path, bundle, store, graph, take) if own else None
    agreement = agreement_of(graph, store, take) if own else None
    facts = facts_of_run(
        run, bundles, best, store, judged,
        weights=weights, unlabelled=unlabelled, board=board, agreement=agreement, device=device,
    )  # fmt: skip
    return _content(
        title=store.manifest.graph if graph is None else graph.name,
        graph=graph, classes=bundle.classes, multi_label=bundle.multi_label, part=part, seeds=seeds,
        best=best,
        recipe=recipe, frame=observed.frame, tallies=observed.tallies, weights=weights,
        nodes=listed_nodes(nodes, graph, observed.degrees, found),
        curves=curves_of(lines), timings=timings, notes=notes,
        parameters=sum(value.numel() for value in bundle.weights.values() if value.is_floating_point()) or None,
        words=words_of(facts), judged=judged, board=board, unlabelled=unlabelled, agreement=agreement,
        evaluation=given, metric_name=_metric_name(bundle),
    )  # fmt: skip


def content_of_probabilities(
    graph: Graph,
    probabilities: Mapping[int, Array],
    seeds: Sequence[SeedScores],
    recipe: Recipe,
    *,
    rows: Array | None = None,
    part: str = "test",
    lines: Iterable[Mapping[str, Any]] = (),
    timings: Timings | None = None,
    parameters: int | None = None,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> Content:
    """Any method: probabilities `[n, c]` of all nodes by seed, scores by seed, and the lines its loop wrote.

    `rows` are those that are looked at (default: labelled test rows). A seed without probabilities has its scores
    shown; nodes and the confusion matrix are those of the seed with the best validation score among the others.
    """
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None
    if rows is None:
        rows = np.zeros(0, np.int64) if split is None else split.test[labels.known_at(split.test)]
    degrees = degrees_of(graph)
    frame = Frame.of(labels.classes, labels.values[rows], rows, degrees) if len(rows) and probabilities else None
    valid = {one.seed: one.valid.get("score", 0.0) for one in seeds}
    best = max(probabilities or valid, key=lambda seed: valid.get(seed, 0.0))
    tallies: dict[int, Tally] = {}
    if frame is not None:
        for seed, of_seed in probabilities.items():
            tallies[seed] = Tally(frame, listed=seed == best)
            for begin in range(0, len(rows), _CHUNK):
                some = rows[begin : begin + _CHUNK]
                tallies[seed].add(some, np.asarray(of_seed[some]), labels.values[some])
    nodes = tallies[best].nodes() if tallies else {}
    train = np.zeros(0, np.int64) if split is None else split.train
    agreement = edge_homophily(graph, train) if len(train) else None
    judged, base = None, {}
    if frame is not None:
        counts = counts_of_rows(labels, train)
        base = {} if counts is None else trivial_scores(counts, int(labels.known_at(train).sum()), labels.values[rows])
        judged = Judged(frame, tallies, best, tallies[best].ranking.curves(), part, counts, base.get("score"))
    lines = list(lines)
    facts = Facts(
        len(labels.classes), labels.multi_label,
        stopped={one.seed: one.stopped for one in seeds if one.stopped.startswith("the loss")},
        lines=[line for line in lines if line["seed"] == best and line.get("member", 0) == 0],
        epoch=next((one.epoch for one in seeds if one.seed == best), 0),
        agreement=None if agreement is None else (agreement.agree, agreement.chance, agreement.edges),
        sampled=agreement is not None and agreement.sampled,
        **({"score": _told_score(seeds, part, len(rows), labels.multi_label)} if judged is None else judged.facts()),
    )  # fmt: skip
    return _content(
        title=title or graph.name, graph=graph, classes=labels.classes, multi_label=labels.multi_label, part=part,
        seeds=seeds, best=best, recipe=recipe, frame=frame, tallies=tallies, weights=None,
        nodes=listed_nodes(nodes, graph, degrees), curves=curves_of(lines), timings=timings or Timings(),
        notes=list(notes), parameters=parameters,
        words=words_of(facts), judged=judged, agreement=agreement,
        evaluation={**_reliability(frame, probabilities.get(best), rows, labels.values), "base": base},
    )  # fmt: skip


def _reliability(frame: Frame | None, probabilities: Array | None, rows: Array, labels: Array) -> Content:
    """As an evaluation tells it; nothing of more probabilities than are held at once."""
    if frame is None or probabilities is None or len(rows) * probabilities.shape[1] > MOST_KEPT:
        return {}
    positive = frame.ranked[0] if len(frame.ranked) == 1 else 1
    found = reliability_of(*said_and_true(np.asarray(probabilities[rows]), labels[rows], positive)).as_json()
    two = len(frame.classes) == 2 and not frame.multi_label
    return {"reliability": found, "positive": frame.classes[positive] if two else None}


def _metric_name(bundle: Bundle) -> str | None:
    """What validation went by, where it is neither the score nor the loss."""
    name = bundle.report.get("metric")
    return metric_words(name) if name and name != "log_loss" and "metric" in bundle.report["valid"] else None


def _told_score(seeds: Sequence[SeedScores], part: str, rows: int, multi_label: bool) -> Score | None:
    """Of a method that tells its scores and no probabilities."""
    values = [one.test["score"] for one in seeds if "score" in one.test]
    if not values:
        return None
    return Score(part, rows, score_name(multi_label), float(np.mean(values)), seeds=len(values))


def _content(
    *,
    title: str,
    graph: Graph | None,
    classes: tuple[str, ...],
    multi_label: bool,
    part: str,
    seeds: Sequence[SeedScores],
    best: int,
    recipe: Recipe,
    frame: Frame | None,
    tallies: dict[int, Tally],
    weights: WeightsByDegree | None,
    nodes: Content | None,
    curves: Content | None,
    timings: Timings,
    notes: list[str],
    parameters: int | None,
    words: Words,
    judged: Judged | None,
    agreement: Homophily | None,
    board: Content | None = None,
    unlabelled: Content | None = None,
    evaluation: Mapping[str, Any] | None = None,
    metric_name: str | None = None,
) -> Content:
    evaluation = evaluation or {}
    by_class, left_out = by_class_of(frame, tallies, best)
    content = {
        "title": title,
        "model": recipe.model.name,
        "about": recipe.about,
        "gamlp": version("gamlp"),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "graph": _graph(graph, recipe, classes),
        "many": multi_label,
        "score_name": score_name(multi_label),
        "metric_name": metric_name,
        "part": part,
        "rows": 0 if frame is None else frame.rows,
        "scores": {"valid": _spread([one.valid for one in seeds]), part: _spread([one.test for one in seeds])},
        "seeds": [{**vars(one), "valid": dict(one.valid), "test": dict(one.test)} for one in seeds],
        "best": best,
        "classes": [clipped(name) for name in classes],
        "curves": curves,
        "confusion": confusion_of(frame, tallies.get(best)),
        "by_class": by_class,
        "by_class_left_out": left_out,
        "by_degree": by_degree_of(frame, tallies),
        "weights": weights_of(weights),
        "nodes": nodes and {**nodes, "rows": 0 if frame is None else frame.rows, "mistakes": tallies[best].mistakes},
        "recipe": recipe.to_yaml(),
        "timings": vars(timings),
        "parameters": parameters,
        "notes": notes,
        "words": {"said": words.said, "doubts": words.doubts, "better": words.better},
        "leaderboard": board,
        "ranking": {} if judged is None else {number: curve.content() for number, curve in judged.curves.items()},
        "reliability": evaluation.get("reliability"),
        "positive": evaluation.get("positive"),
        "base": evaluation.get("base") or {},
        "unlabelled": unlabelled and {**unlabelled, "levels": LEVELS},
        "agreement": agreement and vars(agreement),
    }
    plain: Content = _plain(content)
    return plain


def _graph(graph: Graph | None, recipe: Recipe, classes: tuple[str, ...]) -> Content:
    facts: Content = {"classes": len(classes)}
    if graph is not None:
        halves = [relation.entries / (1 if relation.directed else 2) for relation in graph.relations.values()]
        facts |= {"nodes": graph.nodes.count, "edges": int(sum(halves))}
        facts |= {"features": 0 if graph.nodes.features is None else graph.nodes.features.width}
        if recipe.features.structural == "alone":
            facts |= {"features": total_width(structural_schema(graph, recipe.features))}
    return facts


def _spread(scores: list[Mapping[str, float]]) -> Content | None:
    """{metric: {mean, deviation}} of what every seed has; None where there is nothing."""
    found = summary(scores) if scores else {"mean": {}}
    return {name: {"mean": mean, "deviation": found["deviation"][name]} for name, mean in found["mean"].items()} or None


def _plain(value: Any) -> Any:
    """For JSON: five digits are enough for a page, and NaN is no number."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (float, np.floating)):
        return round(float(value), 5) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
