"""What every fitted column has in common: a state of plain data that turns cells into features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from gamlp.arrays import Array
from gamlp.graph.features.encoders.reading import Column

MOST_FEATURES = 1 << 20  # of a column: a schema that somebody wrote cannot ask for more memory than that
# Features beyond it are cut off there: their squares still fit float32, so that no model or statistic sees infinity.
LARGEST = 1e18
_SHOWN = 5


@dataclass(frozen=True)
class Unseen:
    """What fitting had not seen: rows with a value that is new, rows with a gap where there was none."""

    values: int = 0
    gaps: int = 0
    examples: tuple[str, ...] = ()  # a few of the values

    def __add__(self, other: Unseen) -> Unseen:
        examples = tuple(dict.fromkeys(self.examples + other.examples))[:_SHOWN]
        return Unseen(self.values + other.values, self.gaps + other.gaps, examples)

    def __bool__(self) -> bool:
        return bool(self.values or self.gaps)


class State(BaseModel):
    """How cells become features. `gaps`: fitting saw some, and a last feature says where they are."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    gaps: bool = False

    @abstractmethod
    def feature_names(self, name: str) -> list[str]:
        """Names of the features, without the one for gaps."""

    @abstractmethod
    def readable(self, column: Column) -> Array:
        """Which cells can be encoded; gaps can."""

    @abstractmethod
    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        """Write float32 `[rows, features]` without the feature for gaps; (which rows are gaps, what was new)."""


def limited(values: Array, out: Array) -> None:
    """Write float64 values as float32; what is too large is cut off."""
    np.clip(values, -LARGEST, LARGEST, out=values)
    out[:] = values
