"""What needs no model: the same answer for every node, by how often training rows have each class."""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.training.label_counts import class_counts


def trivial_scores(counts: Array, rows: int, target: Array) -> dict[str, float]:
    """Scores that constant answers get on labels `target`, from `counts` of each class among `rows` training rows.

    One label a node: the most frequent class, with every class's share as its probability. Many: the most frequent
    labels, as many as have the best micro-F1 on training rows.
    """
    return trivial_scores_of(counts, rows, class_counts(target, len(counts)), len(target), target.ndim == 2)


def trivial_scores_of(counts: Array, rows: int, occurs: Array, scored: int, multi_label: bool) -> dict[str, float]:
    """The same of `scored` rows that were counted: `occurs` of them have each class."""
    if not scored:
        return {}
    if not multi_label:
        return _one_label(counts, occurs, scored)
    shares = counts / max(1, rows)
    order = np.argsort(-counts, kind="stable")
    right = np.cumsum(counts[order])
    chosen = order[: 1 + int((2 * right / np.maximum(np.arange(1, len(order) + 1) * rows + right[-1], 1)).argmax())]
    true = occurs[chosen]
    by_class = np.zeros(len(counts))
    by_class[chosen] = 2 * true / np.maximum(scored + true, 1)
    without = scored - occurs
    lost = -(occurs * np.log(np.maximum(shares, _LEAST)) + without * np.log(np.maximum(1 - shares, _LEAST))).mean()
    return {
        "score": float(2 * true.sum() / max(1, len(chosen) * scored + occurs.sum())),
        "loss": float(lost / scored),
        "macro_f1": float(by_class.mean()),
        "balanced_accuracy": 0.5,
        **_ranked(occurs, scored),
    }


_LEAST = float(np.finfo(np.float32).tiny)  # of a probability, as in ScoreCounts


def _one_label(counts: Array, occurs: Array, rows: int) -> dict[str, float]:
    shares = np.maximum(counts / max(1, counts.sum()), _LEAST)
    most = int(counts.argmax())
    seen = np.count_nonzero(occurs) + (occurs[most] == 0)
    return {
        "score": float(occurs[most] / rows),
        "loss": float(-(occurs * np.log(shares)).sum() / rows),
        "macro_f1": float(2 * occurs[most] / (rows + occurs[most]) / seen),
        "balanced_accuracy": float(occurs[most] > 0) / int(np.count_nonzero(occurs)),
        **_ranked(occurs, rows, None if len(counts) != 2 else 0 if counts[0] < counts[1] else 1),
    }


def _ranked(occurs: Array, rows: int, positive: int | None = None) -> dict[str, float]:
    """What one probability for all rows gets where rows are ranked by it, if some have a class and some have not."""
    varied = (occurs > 0) & (occurs < rows)
    if not varied.any():
        return {}
    shares = occurs[varied] if positive is None else occurs[positive]
    return {"roc_auc": 0.5, "average_precision": float(np.mean(shares) / rows)}
