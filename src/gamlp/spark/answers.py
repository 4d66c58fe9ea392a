"""Predictions in the columns that Spark ML's evaluators read: numbers, vectors, and the label's name beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import class_values
from gamlp.spark.params import GAMLPParams
from gamlp.training import Bundle

_LEAST = 1e-30  # a probability that is rounded to nothing has a logarithm all the same


@dataclass(frozen=True)
class AnswerColumns:
    """What a transform adds to nodes.

    `numbers`: what each class is as a prediction. Labels that are integers are their own value, so that evaluators
    compare them with the label; others count from zero in the order of classes.
    """

    bundle: Bundle
    label_type: str
    params: GAMLPParams

    @property
    def names(self) -> list[str]:
        """Of the columns, in their order."""
        own = self.params
        return [
            own.getPredictionCol(), own.getProbabilityCol(), own.getRawPredictionCol(), own.getPredictedLabelCol(),
        ]  # fmt: skip

    @property
    def numbers(self) -> list[float]:
        if self.bundle.class_type == "string":
            return [float(number) for number in range(len(self.bundle.classes))]
        return [float(value) for value in class_values(self.bundle.classes, self.bundle.class_type)]

    @property
    def thresholds(self) -> list[float] | None:
        """One for each class, checked against the classes that the model knows."""
        if not self.params.isDefined(self.params.thresholds):
            return None
        found, count = self.params.getThresholds(), len(self.bundle.classes)
        if len(found) != count:
            raise GamlpError(f"there are {len(found)} thresholds for {count} classes", hint="give one for each class")
        if any(not 0 <= one < float("inf") for one in found) or found.count(0.0) > 1:
            raise GamlpError("thresholds are numbers above zero", hint="at most one of them may be 0")
        return found

    def check_free(self, columns: list[str]) -> None:
        """Refuse nodes that have one of the columns already, and names that are used twice."""
        for name in self.names:
            if name in columns:
                raise GamlpError(f"nodes have a column '{name}' already", hint="drop it, or choose another name")
            if self.names.count(name) > 1:
                raise GamlpError(f"two columns of answers are called '{name}'", hint="give them names of their own")

    def added(self, rows: Any, found: Any, key: str) -> Any:
        """`rows` with the answers of `found`, a frame of ids and probabilities; null where there is none."""
        from pyspark.sql import functions

        found = found.select(
            functions.col("id").alias(key),
            functions.col("probabilities").cast("array<double>").alias(f"{key}_p"),
        )
        kind = dict(found.dtypes)[key]
        own = functions.col("`" + self.params.getIdCol().replace("`", "``") + "`").cast(kind)
        answers = self._answers(functions.col(f"{key}_p"))
        found = found.select(key, *(answers[name].alias(name) for name in self.names))
        return rows.join(found, own == functions.col(key), "left").drop(key)

    def _answers(self, probabilities: Any) -> dict[str, Any]:
        from pyspark.ml.functions import array_to_vector
        from pyspark.sql import functions

        element = (
            self.label_type.removeprefix("array<").removesuffix(">") if self.bundle.multi_label else self.label_type
        )
        values = class_values(self.bundle.classes, self.bundle.class_type)
        classes = functions.array(*(functions.lit(value) for value in values)).cast(f"array<{element}>")
        numbers = functions.array(*(functions.lit(value) for value in self.numbers))
        if self.bundle.multi_label:
            chosen = self._chosen_labels(probabilities)
            number, name = (_taken(of, chosen) for of in (numbers, classes))
        else:
            place = self._chosen_place(probabilities)
            number, name = (functions.element_at(of, place) for of in (numbers, classes))
        raw = functions.transform(probabilities, self._raw)
        columns = (number, array_to_vector(probabilities), array_to_vector(raw), name)
        return dict(zip(self.names, columns, strict=True))

    def _raw(self, probability: Any) -> Any:
        """The logarithm of a probability, or of the odds of one label of many."""
        from pyspark.sql import functions

        found = functions.log(functions.greatest(probability, functions.lit(_LEAST)))
        if not self.bundle.multi_label:
            return found
        return found - functions.log(functions.greatest(1 - probability, functions.lit(_LEAST)))

    def _chosen_place(self, probabilities: Any) -> Any:
        """The class that is said, counted from one: the first of the largest probability / threshold."""
        from pyspark.sql import functions

        scaled = probabilities
        if (thresholds := self.thresholds) is not None:
            parts = [functions.lit(one) for one in thresholds]
            never = functions.lit(float("inf"))
            scaled = functions.zip_with(
                probabilities,
                functions.array(*parts),
                lambda one, limit: functions.when(limit == 0, never).otherwise(
                    one / functions.nullif(limit, functions.lit(0.0))
                ),
            )
        return functions.array_position(scaled, functions.array_max(scaled)).cast("int")

    def _chosen_labels(self, probabilities: Any) -> Any:
        """Places of labels that are likely enough, counted from one."""
        from pyspark.sql import functions

        if (thresholds := self.thresholds) is None:
            places = functions.transform(probabilities, lambda one, at: functions.when(one > 0.5, at + 1))
        else:
            limits = functions.array(*(functions.lit(one) for one in thresholds))
            places = functions.transform(
                probabilities,
                lambda one, at: functions.when(one >= functions.element_at(limits, (at + 1).cast("int")), at + 1),
            )
        return functions.filter(functions.transform(places, lambda at: at.cast("int")), lambda at: at.isNotNull())


def _taken(values: Any, places: Any) -> Any:
    """Elements of a list at places that are counted from one."""
    from pyspark.sql import functions

    return functions.transform(places, lambda place: functions.element_at(values, place))
