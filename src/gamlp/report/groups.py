"""Counts as the charts show them: the confusion matrix, scores by class and by degree, weights by degree."""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.explain import WeightsByDegree
from gamlp.report.tally import Frame, Tally

Array = np.ndarray[Any, Any]
Content = dict[str, Any]
MOST_CLASS_BARS = 300


def confusion_of(frame: Frame | None, tally: Tally | None) -> Content | None:
    if frame is None or frame.many or tally is None:
        return None
    return {"classes": list(frame.named), "others": frame.others, "counts": tally.confusion.tolist()}


def by_class_of(frame: Frame | None, tallies: dict[int, Tally]) -> tuple[list[Content], int]:
    """The largest classes that occur or were chosen, and how many more there are."""
    if frame is None or not tallies:
        return [], 0
    scores = np.stack([tally.class_scores() for tally in tallies.values()])
    first = next(iter(tallies.values()))
    rows = first.right + first.missed
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
        {"told": one.told, "rows": one.rows, "features": one.features, "labels": one.labels} for one in weights.ranges
    ]
    return {"ranges": ranges, "first_label_hop": weights.first_label_hop, "sampled": weights.sampled}
