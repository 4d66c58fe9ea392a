"""What a fit and an evaluation tell: scores of the fit, and counts of labels beside predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import class_values
from gamlp.spark.answers import AnswerColumns
from gamlp.training import Bundle


@dataclass(frozen=True)
class FitSummary:
    """How training went: scores of validation and test rows, epochs that were trained and the one that was kept."""

    seed: int
    epochs: int
    best_epoch: int
    valid: Mapping[str, float]
    test: Mapping[str, float]

    @classmethod
    def of(cls, bundle: Bundle, scores: Mapping[str, Mapping[str, float]]) -> FitSummary:
        told = bundle.report
        return cls(
            int(told.get("seed", 0)), int(told.get("epochs", 0)), int(told.get("epoch", 0)),
            dict(scores.get("valid", {})), dict(scores.get("test", {})),
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class EvaluationSummary:
    """Scores of rows with a label, named as Spark's own summaries name them.

    `counts[i, j]`: rows of label i that got label j, in the order of `labels`; its last row are labels that the model
    does not know. `predictions` is the frame that was scored.
    """

    predictions: Any
    labels: Sequence[Any]
    counts: Array

    def __repr__(self) -> str:
        scores = f"accuracy={self.accuracy:.4f}, weightedFMeasure={self.weightedFMeasure():.4f}"
        return f"EvaluationSummary(rows={self.rows}, {scores}, labels={len(self.labels)})"

    @classmethod
    def of(cls, predictions: Any, rows: Any, answers: AnswerColumns) -> EvaluationSummary:
        """By one count of pairs on the executors; `rows` are those of `predictions` that are scored."""
        from pyspark.sql import functions

        bundle, params = answers.bundle, answers.params
        if bundle.multi_label:
            raise GamlpError(
                "evaluate is for one label a node, and here a node may have many",
                hint="give transform's columns to Spark's MultilabelClassificationEvaluator",
            )
        label, said = params.getLabelCol(), params.getPredictedLabelCol()
        if label not in rows.columns:
            raise GamlpError(f"no column '{label}'", hint="evaluate compares predictions with it")
        quoted = functions.col("`" + label.replace("`", "``") + "`").cast(answers.label_type)
        pairs = rows.select(quoted.alias("label"), functions.col(f"`{said}`").alias("said")).dropna()
        labels = class_values(bundle.classes, bundle.class_type)
        number = {_spelled(value): at for at, value in enumerate(labels)}
        counts = np.zeros((len(labels) + 1, len(labels)), np.int64)
        for row in pairs.groupBy("label", "said").count().collect():
            counts[number.get(_spelled(row["label"]), len(labels)), number[_spelled(row["said"])]] += row["count"]
        if not counts.sum():
            raise GamlpError("no row has a label to compare with", hint=f"labels are in column '{label}'")
        return cls(predictions, labels, counts)

    @property
    def rows(self) -> int:
        """How many were scored."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / self.rows)

    @property
    def recallByLabel(self) -> list[float]:
        return _shares(self._right, self._true)

    @property
    def precisionByLabel(self) -> list[float]:
        return _shares(self._right, self.counts.sum(0))

    def fMeasureByLabel(self, beta: float = 1.0) -> list[float]:
        """The weighted harmonic mean of precision and recall."""
        pairs = zip(self.precisionByLabel, self.recallByLabel, strict=True)
        return [(1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0 for p, r in pairs]

    @property
    def weightedRecall(self) -> float:
        return self._weighted(self.recallByLabel)

    @property
    def weightedPrecision(self) -> float:
        return self._weighted(self.precisionByLabel)

    def weightedFMeasure(self, beta: float = 1.0) -> float:
        """By how many rows each label has."""
        return self._weighted(self.fMeasureByLabel(beta))

    @property
    def _right(self) -> Array:
        return np.diagonal(self.counts)

    @property
    def _true(self) -> Array:
        found: Array = self.counts[:-1].sum(1)
        return found

    def _weighted(self, values: Sequence[float]) -> float:
        return float(np.dot(values, self._true) / self.rows)


def _spelled(value: Any) -> str:
    """A label as it is compared: 3.0 is 3."""
    return str(int(value)) if isinstance(value, int | float) and float(value).is_integer() else str(value)


def _shares(parts: Array, wholes: Array) -> list[float]:
    return [float(part / whole) if whole else 0.0 for part, whole in zip(parts, wholes, strict=True)]
