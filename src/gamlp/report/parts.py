"""Parts of a page from counts and lines: curves of epochs, confusions, bars, weights over hops, nodes with names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.explanation import SIGNALS, WeightsByDegree, grouped_hops
from gamlp.graph import DegreesByRow, Graph, TargetIds
from gamlp.models import HopWeights
from gamlp.report.observed import Frame, Tally

Content = dict[str, Any]

MOST_POINTS = 400  # of one line
MOST_ON_PAGE = 12_000  # of all seeds together
MOST_CLASS_BARS = 300
MOST_LETTERS = 80  # of an id or a class: a page is no place for a whole document
MOST_HOPS = 16  # columns of weights; far hops are added together
_LINES = ("loss", "valid_loss", "valid_score", "valid_metric")


def curves_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Numbers of epochs by seed, and by member of a blend, those of _LINES.

    Of long trainings every `step`-th epoch, and the last.
    """
    by_model: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for line in lines:
        if "loss" in line:  # a model that is solved has none
            by_model.setdefault((int(line["seed"]), int(line.get("member", -1))), []).append(line)
    if not by_model:
        return None
    longest = max(len(some) for some in by_model.values())
    most = max(2, min(MOST_POINTS, MOST_ON_PAGE // len(by_model)))
    step = -(-longest // most)
    found = []
    for (seed, member), some in sorted(by_model.items()):
        kept = [line for index, line in enumerate(some) if index % step == 0 or index == len(some) - 1]
        names = [name for name in _LINES if any(line.get(name) is not None for line in kept)]
        columns = {name: [line.get(name) for line in kept] for name in names}
        named = {"seed": seed} if member < 0 else {"seed": seed, "member": member}
        found.append({**named, "epoch": [int(line["epoch"]) for line in kept], **columns})
    return {"step": step, "seeds": found}


def confusion_of(frame: Frame | None, tally: Tally | None) -> Content | None:
    if frame is None or frame.multi_label or tally is None:
        return None
    return {"classes": list(frame.named), "others": frame.others, "counts": tally.confusion.tolist()}


def by_class_of(frame: Frame | None, tallies: dict[int, Tally], best: int) -> tuple[list[Content], int]:
    """The largest classes that occur or were chosen, and how many more there are.

    `mean` is the score over seeds; precision, recall and F1 are those of the best seed.
    """
    if frame is None or not tallies:
        return [], 0
    scores = np.stack([tally.class_scores() for tally in tallies.values()])
    first = next(iter(tallies.values()))
    rows = first.counts.right + first.counts.missed
    order = [int(one) for one in np.argsort(-rows, kind="stable") if not np.isnan(scores[:, one]).all()]
    counts = tallies[best].counts
    right, chosen = counts.right, counts.right + counts.wrong
    parts = {"precision": (right, chosen), "recall": (right, rows), "f1": (2 * right, chosen + rows)}
    bars = [
        {"class": one, "rows": int(rows[one]), **_range(scores[:, one])}
        | {name: float(part[one] / whole[one]) if whole[one] else None for name, (part, whole) in parts.items()}
        for one in order[:MOST_CLASS_BARS]
    ]
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
    flat = {signal: said for signal in SIGNALS if (said := weights.flat(signal)) is not None}
    return {"ranges": ranges, "first_label_hop": weights.first_label_hop, "sampled": weights.sampled, "flat": flat}


def clipped(text: str) -> str:
    """At most MOST_LETTERS of a text.

    >>> len(clipped("a" * 100)), clipped("short")
    (80, 'short')
    """
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def listed_nodes(
    nodes: dict[str, Array],
    graph: Graph | None,
    degrees: DegreesByRow | None,
    own: HopWeights | None = None,
) -> dict[str, Any] | None:
    """A tally's nodes with their names and their `own` weights over hops, which are told in thousandths."""
    if not nodes:
        return None
    rows = nodes["row"]
    # Text always: JavaScript would round an integer beyond 2^53.
    ids = [str(row) for row in rows] if graph is None else [str(one) for one in TargetIds(graph).take(rows).to_pylist()]
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
