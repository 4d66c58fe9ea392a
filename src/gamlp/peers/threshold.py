"""Scores of graphs beside the one that trained; of two classes also at the validation graph's best threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Labels
from gamlp.run import Decision
from gamlp.training import MOST_KEPT, Watch, best_threshold

Rows = TypeVar("Rows", bound=Sized)
Reporting = Callable[[Rows, Watch | None], dict[str, float]]


@dataclass
class GraphAnswers:
    """Probabilities `[b, 2]` and labels of rows, batch by batch."""

    probabilities: list[Array] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)

    def watch(self, rows: Array, probabilities: Array, labels: Array) -> None:
        self.probabilities.append(probabilities)
        self.labels.append(labels)

    @property
    def whole(self) -> tuple[Array, Array]:
        return np.concatenate(self.probabilities), np.concatenate(self.labels)


def graph_reports(
    report: Reporting[Rows], tests: Mapping[str, Rows], valid: Rows | None, labels: Labels
) -> dict[str, dict[str, float]]:
    """What `report(rows, watch)` tells of each graph's rows; of two classes also `threshold` and the accuracy at it."""
    two = not labels.multi_label and len(labels.classes) == 2
    if valid is None or not two or not 0 < len(valid) <= MOST_KEPT:
        return {name: report(rows, None) for name, rows in tests.items()}
    said = {name: GraphAnswers() for name in tests}
    found = {name: report(rows, said[name].watch) for name, rows in tests.items()}
    chooses = GraphAnswers()
    report(valid, chooses.watch)
    return {name: scores | at_threshold(chooses, said[name], labels) for name, scores in found.items()}


def at_threshold(valid: GraphAnswers, test: GraphAnswers, labels: Labels) -> dict[str, float]:
    """The threshold of the second class that is best on validation rows, and the accuracy of test rows there.

    How common a class is differs from graph to graph, and half is where the training graph has it.
    """
    probabilities, true = valid.whole
    decision = Decision(best_threshold(probabilities[:, 1], true == 1), labels.classes[1])
    assert decision.threshold is not None
    probabilities, true = test.whole
    right = decision.chosen(_TwoClasses(labels.classes), probabilities) == true
    return {"threshold": decision.threshold, "accuracy_at_threshold": float(right.mean())}


@dataclass(frozen=True)
class _TwoClasses:
    classes: tuple[str, ...]
    multi_label: bool = False
    positive: str | None = None
