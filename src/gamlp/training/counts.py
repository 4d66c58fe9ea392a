"""What scores of chosen labels are made of: rightly chosen, wrongly chosen and missed, by class, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io import State


def score_of(right: float, wrong: float, rows: float, multi_label: bool) -> float:
    """Accuracy; with many labels a node micro-F1, of `wrong` ones that were chosen falsely or missed."""
    if not multi_label:
        return float(right / max(1, rows))
    return float(2 * right / (2 * right + wrong)) if right + wrong else 1.0


class ScoreCounts:
    """What every score is made of, batch by batch. By class: rightly chosen, wrongly chosen, missed."""

    def __init__(self, multi_label: bool, classes: int = 1) -> None:
        self.multi_label = multi_label
        self.right = self.wrong = self.missed = np.zeros(classes, np.int64)
        self.rows, self._lost = 0, 0.0

    def add(self, probabilities: Array, target: Array) -> tuple[Array, Array]:
        """Of probabilities `[b, c]` and labels `[b]` or `[b, c]`; gives each row's right labels and its errors."""
        if self.multi_label:
            true, chosen = target > 0.5, probabilities > 0.5
            right, wrong, missed = true & chosen, chosen & ~true, true & ~chosen
            by_class = [part.sum(0) for part in (right, wrong, missed)]
            own = np.where(true, probabilities, 1 - probabilities)
            of_rows = right.sum(1), (wrong | missed).sum(1)
        else:
            best = probabilities.argmax(1)
            good, bad = best == target, best != target
            chosen_by = (target[good], best[bad], target[bad])
            by_class = [np.bincount(classes, minlength=probabilities.shape[1]) for classes in chosen_by]
            own = probabilities[np.arange(len(target)), target][:, None]
            of_rows = good.astype(np.int64), bad.astype(np.int64)
        self.right, self.wrong, self.missed = map(np.add, (self.right, self.wrong, self.missed), by_class)
        self._lost -= float(np.log(np.maximum(own, np.finfo(np.float32).tiny)).mean(1).sum(dtype=np.float64))
        self.rows += len(target)
        return of_rows

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        return {
            **{name: getattr(self, name) for name in ("right", "wrong", "missed")},
            "rows": np.array(self.rows),
            "lost": np.array(self._lost),
        }

    def merge(self, state: State) -> None:
        """Add what was counted of other rows."""
        self.right, self.wrong, self.missed = (
            getattr(self, name) + state[name] for name in ("right", "wrong", "missed")
        )
        self.rows += int(state["rows"])
        self._lost += float(state["lost"])

    @property
    def score(self) -> float:
        """Accuracy, or micro-F1 where a node has many labels."""
        return score_of(int(self.right.sum()), int((self.wrong + self.missed).sum()), self.rows, self.multi_label)

    @property
    def loss(self) -> float:
        return self._lost / max(1, self.rows)

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes; of one label a node, of those that occur or were chosen."""
        found = self.by_class() if self.multi_label else self.by_class()[2 * self.right + self.wrong + self.missed > 0]
        return float(found.mean()) if len(found) else 0.0

    @property
    def balanced_accuracy(self) -> float:
        """Mean share of a class's rows that were found; of many labels a node, with that of the others. NaN: none."""
        true = self.right + self.missed
        if not self.multi_label:
            return float((self.right[true > 0] / true[true > 0]).mean()) if self.rows else math.nan
        varied = (true > 0) & (true < self.rows)
        found = self.right[varied] / true[varied] + 1 - self.wrong[varied] / (self.rows - true[varied])
        return float(found.mean() / 2) if varied.any() else math.nan

    def by_class(self) -> Array:
        """F1 of every class, 0 of one that neither occurs nor was chosen."""
        found: Array = 2 * self.right / np.maximum(2 * self.right + self.wrong + self.missed, 1)
        return found

    def class_table(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Precision, recall, F1 and rows of every class; 0 where there is nothing to divide by."""
        precision = self.right / np.maximum(self.right + self.wrong, 1)
        recall = self.right / np.maximum(self.right + self.missed, 1)
        columns = (precision, recall, self.by_class(), self.right + self.missed)
        return [
            {"class": name, "precision": part[0], "recall": part[1], "f1": part[2], "rows": part[3]}
            for name, part in zip(classes, zip(*(column.tolist() for column in columns)))
        ]
