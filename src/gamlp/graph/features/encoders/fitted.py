"""A fitted column: plain data that turns cells into features, the same ones wherever and whenever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.features.encoders.calendar import CalendarState, calendar_state
from gamlp.graph.features.encoders.category import CategoryState, category_state
from gamlp.graph.features.encoders.fitting import Fitting
from gamlp.graph.features.encoders.inference import Inference, infer
from gamlp.graph.features.encoders.reading import number_key, plain_values
from gamlp.graph.features.encoders.samples import TextSample
from gamlp.graph.features.encoders.scaled import RankedState, ScaledState, TruthState, scaled_state
from gamlp.graph.features.encoders.state import State, Unseen
from gamlp.graph.features.encoders.text import TextState
from gamlp.graph.features.encoders.vectors import VectorState, read_vectors
from gamlp.graph.features.encoders.words import LEFT_OUT, VECTOR_TYPES
from gamlp.graph.schema import FeatureColumn, FeatureSchema

FittedType = Literal[
    "standard", "robust", "quantile", "as-is", "boolean", "category", "date", "vector", "vector-l2", "id", "free-text",
    "constant", "drop", "text",
]  # fmt: skip
AnyState = Annotated[
    ScaledState | RankedState | TruthState | CategoryState | CalendarState | VectorState | TextState,
    Field(discriminator="kind"),
]
_STATES: Mapping[str, type[State]] = {
    "standard": ScaledState,
    "robust": ScaledState,
    "quantile": RankedState,
    "as-is": ScaledState,
    "boolean": TruthState,
    "category": CategoryState,
    "date": CalendarState,
    "text": TextState,
    "vector": VectorState,
    "vector-l2": VectorState,
}


class FittedColumn(BaseModel):
    """name, type, the Arrow type of the table that it was fitted on, state (None: left out) and why it has its type."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    type: FittedType
    source: str | None = None
    state: AnyState | None = None
    reason: str = ""

    @model_validator(mode="after")
    def _state_fits(self) -> FittedColumn:
        wanted = _STATES.get(self.type)
        # Of numbers that are all missing nothing can be ranked.
        allowed = (RankedState, ScaledState) if self.type == "quantile" else (wanted,)
        if (self.state is None) != (wanted is None) or (self.state is not None and type(self.state) not in allowed):
            raise ValueError(f"column {self.name}: no state of a column of type {self.type}")
        return self

    @property
    def width(self) -> int:
        """Features of a row; 0 where the column is left out."""
        return len(self.feature_names())

    def feature_names(self) -> list[str]:
        """A name for each feature, for people to read."""
        if self.state is None:
            return []
        return [*self.state.feature_names(self.name), *([f"{self.name} is missing"] if self.state.gaps else [])]

    def unreadable(self, values: Any) -> Array:
        """Which cells are neither gaps nor what the column holds: such rows are refused before `apply`."""
        column = plain_values(values)
        if self.state is None or pa.types.is_null(column.type):
            return np.zeros(len(column), bool)
        return ~self.state.readable(column)

    def apply(self, values: Any, out: Array | None = None) -> tuple[Array, Unseen]:
        """(float32 `[rows, width]`, what fitting had not seen). `out`: where to write them, zeros or not.

        Never NaN nor infinity; the same bytes for a row whatever rows it comes with.
        """
        column = plain_values(values)
        if out is None:
            out = np.empty((len(column), self.width), np.float32)
        if self.state is None:
            return out, Unseen()
        try:
            gap, unseen = self.state.encode(column, out[:, :-1] if self.state.gaps else out)
        except GamlpError as error:
            raise GamlpError(error.problem, column=self.name, hint=error.hint) from error
        if self.state.gaps:
            out[:, -1] = gap
        elif gap.any():
            unseen = replace(unseen, gaps=int(np.count_nonzero(gap)))
        return out, unseen

    def same_as(self, other: FittedColumn) -> bool:
        """Whether both turn the same cells into the same features."""
        return (self.name, self.type, self.state) == (other.name, other.type, other.state)

    def feature_column(self) -> FeatureColumn:
        """As a graph's manifest and a bundle keep it; only of a column that is not left out."""
        state = None if self.state is None else self.state.model_dump(mode="json")
        word: Any = self.type
        return FeatureColumn(name=self.name, type=word, width=self.width, source=self.source, state=state)

    @staticmethod
    def of(column: FeatureColumn) -> FittedColumn:
        """The fitted column of a manifest; one of an older graph is untouched numbers or a list of them."""
        state: dict[str, Any] | None = column.state
        word: Any = column.type
        if state is None:
            word = "as-is" if column.type in ("number", "as-is") else "vector"
            state = {"kind": "scaled"} if word == "as-is" else {"kind": "vector", "width": column.width}
        try:
            return FittedColumn.model_validate(
                {"name": column.name, "type": word, "source": column.source, "state": state}
            )
        except ValidationError as error:
            raise GamlpError(
                f"the state of the column cannot be read ({error.errors()[0]['msg']})", column=column.name
            ) from error


def finish(fitting: Fitting) -> FittedColumn:
    """The column that was seen, fitted. One that cannot be meant is refused; `infer` tells it beforehand."""
    found = infer(fitting)
    if found.refusal is not None:
        raise GamlpError(found.refusal, column=fitting.name, hint=refusal_hint(fitting.name, found))
    return FittedColumn(
        name=fitting.name,
        type=found.type,  # type: ignore[arg-type]
        source=fitting.source,
        state=_state(fitting, found.type),
        reason=found.reason,
    )


def refusal_hint(name: str, found: Inference) -> str:
    """What a person can do about a column that is refused."""
    if found.type == "vector":
        return f"make them equally long, or leave the column out with --drop {name}"
    return f"mend or empty the cells, or say what the column is with --column {name}=category, or --drop {name}"


def _state(fitting: Fitting, word: str) -> Any:
    gaps = fitting.gaps > 0
    if word in LEFT_OUT:
        return None
    if word == "category":
        return category_state(_keys(fitting), gaps)
    if word == "text":
        return TextState(gaps=gaps)
    if word == "date":
        return calendar_state(fitting.dates, gaps)
    if word in ("vector", "vector-l2"):
        return VectorState(width=fitting.vectors.width or 1, l2=word == "vector-l2", gaps=gaps)
    return scaled_state(fitting.numbers, word, gaps)


def _keys(fitting: Fitting) -> TextSample:
    """Words, and numbers as they are called: a column may hold both."""
    numbers, counts = fitting.numbers.sample.settled()
    if len(numbers) == 0:
        return fitting.words
    keys = TextSample()
    keys.add(pa.array([number_key(float(number)) for number in numbers], pa.large_string()), counts)
    keys.merge(fitting.words)
    if not fitting.numbers.sample.whole:
        keys.overflow()
    return keys


def unreadable(values: Any, wanted: str) -> Array:
    """Which cells are neither gaps nor of a type; every cell of a left-out column is fine."""
    column = plain_values(values)
    if wanted in LEFT_OUT or pa.types.is_null(column.type):
        return np.zeros(len(column), bool)
    if wanted in VECTOR_TYPES:
        return ~read_vectors(column).readable
    return ~_READERS[wanted].readable(column)


_READERS: Mapping[str, State] = {
    **dict.fromkeys(("number", "standard", "robust", "quantile"), ScaledState(scale=2)),
    "as-is": ScaledState(),
    "boolean": TruthState(),
    "category": CategoryState(values=[]),
    "date": CalendarState(),
    "text": TextState(),
}


def as_known(found: FeatureSchema, known: FeatureSchema) -> FeatureSchema:
    """`found` columns; of those that are encoded alike, as `known` has them: who named a type is no difference."""
    before = {column.name: column for column in known}
    return tuple(before[one.name] if _alike(one, before.get(one.name)) else one for one in found)


def _alike(one: FeatureColumn, other: FeatureColumn | None) -> bool:
    return other is not None and (one == other or FittedColumn.of(one).same_as(FittedColumn.of(other)))
