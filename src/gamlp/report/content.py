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
from gamlp.explanation import WeightsByDegree, grouped_hops, weights_of_rows
from gamlp.graph import Graph, total_width
from gamlp.models import HopWeights
from gamlp.propagation import HopStore, structural_schema, structural_words
from gamlp.recipe import Recipe
from gamlp.report.observed import Frame, Observed, Tally, degrees_of
from gamlp.training import Bundle, RunFolder, best_seed, rows_of, summary

Content = dict[str, Any]

MOST_POINTS = 400  # of one line
MOST_ON_PAGE = 12_000  # of all seeds together
MOST_CLASS_BARS = 300
MOST_LETTERS = 80  # of an id or a class: a page is no place for a whole document
MOST_HOPS = 16  # columns of weights; far hops are added together
_CHUNK = 10_000  # rows of probabilities counted at a time
_LINES = ("loss", "valid_loss", "valid_score")


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


def curves_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """{epoch, loss, valid_loss, valid_score} by seed; of long trainings every `step`-th epoch, and the last."""
    by_seed: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        if "loss" in line:  # a model that is solved has none
            by_seed.setdefault(int(line["seed"]), []).append(line)
    if not by_seed:
        return None
    longest = max(len(some) for some in by_seed.values())
    most = max(2, min(MOST_POINTS, MOST_ON_PAGE // len(by_seed)))
    step = -(-longest // most)
    found = []
    for seed, some in sorted(by_seed.items()):
        kept = [line for index, line in enumerate(some) if index % step == 0 or index == len(some) - 1]
        names = [name for name in _LINES if any(line.get(name) is not None for line in kept)]
        columns = {name: [line.get(name) for line in kept] for name in names}
        found.append({"seed": seed, "epoch": [int(line["epoch"]) for line in kept], **columns})
    return {"step": step, "seeds": found}


def confusion_of(frame: Frame | None, tally: Tally | None) -> Content | None:
    if frame is None or frame.multi_label or tally is None:
        return None
    return {"classes": list(frame.named), "others": frame.others, "counts": tally.confusion.tolist()}


def by_class_of(frame: Frame | None, tallies: dict[int, Tally]) -> tuple[list[Content], int]:
    """The largest classes that occur or were chosen, and how many more there are."""
    if frame is None or not tallies:
        return [], 0
    scores = np.stack([tally.class_scores() for tally in tallies.values()])
    first = next(iter(tallies.values()))
    rows = first.counts.right + first.counts.missed
    order = [int(one) for one in np.argsort(-rows, kind="stable") if not np.isnan(scores[:, one]).all()]
    bars = [{"class": one, "rows": int(rows[one]), **_range(scores[:, one])} for one in order[:MOST_CLASS_BARS]]
    return bars, max(0, len(order) - MOST_CLASS_BARS)


def by_degree_of(frame: Frame | None, tallies: dict[int, Tally]) -> list[Content]:
    if frame is None or not tallies:
        return []
    scores = np.stack([tally.degree_scores() for tally in tallies.values()])
    counts = next(iter(tallies.values())).degree_rows
    return [
        {"low": int(low), "high": int(high), "rows": int(count), **_range(scores[:, index])}
        for index, (low, high, count) in enumerate(zip(frame.lows, frame.highs, counts))
    ]


def _range(values: Array) -> Content:
    """Mean over seeds, with the least and the greatest where there are several."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"mean": None}
    ends = {"least": float(known.min()), "greatest": float(known.max())} if len(values) > 1 else {}
    return {"mean": float(known.mean()), **ends}


def weights_of(weights: WeightsByDegree | None) -> Content | None:
    if weights is None:
        return None
    ranges = [
        {"told": one.text, "rows": one.rows, "features": one.features, "labels": one.labels} for one in weights.ranges
    ]
    return {"ranges": ranges, "first_label_hop": weights.first_label_hop, "sampled": weights.sampled}


def clipped(text: str) -> str:
    """At most MOST_LETTERS of a text.

    >>> len(clipped("a" * 100)), clipped("short")
    (80, 'short')
    """
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def listed_nodes(
    nodes: dict[str, Array],
    graph: Graph | None,
    degrees: Array | None,
    own: HopWeights | None = None,
) -> dict[str, Any] | None:
    """A tally's nodes with their names and their `own` weights over hops, which are told in thousandths."""
    if not nodes:
        return None
    rows = nodes["row"]
    # Text always: JavaScript would round an integer beyond 2^53.
    ids = [str(row) for row in rows] if graph is None else [str(one) for one in graph.nodes.ids.take(rows).to_pylist()]
    found: dict[str, Any] = {"id": [clipped(one) for one in ids]}
    if degrees is not None:
        found["degree"] = degrees[rows].tolist()
    for name, values in nodes.items():
        if name in ("chance", "own"):
            found[name] = np.round(values.astype(float), 4).tolist()
        elif name in ("extra", "missed"):
            found[name] = [[one for one in row if one >= 0] for row in values.tolist()]
        elif name != "row":
            found[name] = values.tolist()
    own = own or HopWeights(None)
    for name, weights, first in (("features", own.features, 0), ("labels", own.labels, own.first_label_hop)):
        if weights is not None:
            found[name], found[f"{name}_hops"] = _grouped(weights.numpy(), first)
    return found


def _grouped(weights: Array, first: int) -> tuple[list[list[int]], list[str]]:
    columns = [grouped_hops(tuple(row), first, MOST_HOPS) for row in weights.astype(float).tolist()]
    return [[round(1000 * weight) for _, weight in row] for row in columns], [name for name, _ in columns[0]]


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
) -> Content:
    """A trained run. `evaluation` are the scores of the rows that `observed` looked at, None where there are none.

    Without `own` they are rows of another graph than the run's.
    """
    recipe, lines, kept = run.recipe(), run.metrics(), run.timings()
    seeds = []
    for seed, bundle in bundles.items():
        report = bundle.report
        scores = {} if evaluation is None else {int(name): value for name, value in evaluation["seeds"].items()}
        spent = [line.get("seconds") or 0.0 for line in lines if line["seed"] == seed]
        seeds.append(
            SeedScores(seed, report["valid"], scores.get(seed, {}), report["epoch"], report["epochs"],
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
    return _content(
        title=store.manifest.graph if graph is None else graph.name,
        graph=graph, classes=bundles[best].classes, multi_label=bundles[best].multi_label, part=part, seeds=seeds,
        best=best,
        recipe=recipe, frame=observed.frame, tallies=observed.tallies, weights=weights,
        nodes=listed_nodes(nodes, graph, observed.degrees, found),
        curves=curves_of(lines), timings=timings, notes=notes,
        parameters=sum(value.numel() for value in bundles[best].weights.values()),
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
        rows = np.zeros(0, np.int64) if split is None else split.test[labels.known()[split.test]]
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
    return _content(
        title=title or graph.name, graph=graph, classes=labels.classes, multi_label=labels.multi_label, part=part,
        seeds=seeds, best=best, recipe=recipe, frame=frame, tallies=tallies, weights=None,
        nodes=listed_nodes(nodes, graph, degrees), curves=curves_of(lines), timings=timings or Timings(),
        notes=list(notes), parameters=parameters,
    )  # fmt: skip


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
) -> Content:
    by_class, left_out = by_class_of(frame, tallies)
    content = {
        "title": title,
        "model": recipe.model.name,
        "about": recipe.about,
        "gamlp": version("gamlp"),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "graph": _graph(graph, recipe, classes),
        "many": multi_label,
        "score_name": "micro-F1" if multi_label else "accuracy",
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
        "notes": notes + [f"Seed {one.seed}: {one.stopped}." for one in seeds if one.stopped.startswith("the loss")],
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
