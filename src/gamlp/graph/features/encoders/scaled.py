"""Numbers and booleans as one feature: shifted and scaled, ranked, or untouched."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from gamlp.arrays import Array
from gamlp.graph.features.encoders.gathered import Numbers
from gamlp.graph.features.encoders.reading import Column, numbers_or_texts, truths
from gamlp.graph.features.encoders.state import State, Unseen, limited

PARTS = 256  # of equal counts into which ranks are cut: half a percent of rows is told apart
_WIDTH = math.sqrt(3)  # an even distribution from -√3 to √3 has mean 0 and deviation 1, as other features


class ScaledState(State):
    """(x − center) / scale; a gap is `fill`."""

    kind: Literal["scaled"] = "scaled"
    center: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    fill: float = 0.0

    def feature_names(self, name: str) -> list[str]:
        return [name]

    def readable(self, column: Column) -> Array:
        values, _, readable = numbers_or_texts(column)
        return readable & (np.abs(values) <= np.finfo(np.float32).max) if self._untouched else readable

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        values, gap, _ = numbers_or_texts(column)
        if gap.any():
            values = np.where(gap, self.fill, values)
        if self._untouched:
            out[:, 0] = values
            return gap, Unseen()
        with np.errstate(over="ignore"):
            values = values - self.center
            values /= self.scale
        limited(values, out[:, 0])
        return gap, Unseen()

    @property
    def _untouched(self) -> bool:
        return self.center == 0 and self.scale == 1


class RankedState(State):
    """The share of rows below, from -√3 to √3: between two quantiles by a line, as QuantileTransformer has it."""

    kind: Literal["ranked"] = "ranked"
    quantiles: Annotated[list[float], Field(min_length=2, max_length=1 << 12)]
    fill: float = 0.0

    @model_validator(mode="after")
    def _ascends(self) -> RankedState:
        if any(left > right for left, right in pairwise(self.quantiles)):
            raise ValueError("quantiles must ascend")
        return self

    def feature_names(self, name: str) -> list[str]:
        return [name]

    def readable(self, column: Column) -> Array:
        return numbers_or_texts(column)[2]

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        values, gap, _ = numbers_or_texts(column)
        if gap.any():
            values = np.where(gap, self.fill, values)
        quantiles = np.asarray(self.quantiles)
        shares = np.linspace(0, 1, len(quantiles))
        # Of equal quantiles the middle: once from below, once from above. But the extremes are the ends.
        ranks = np.interp(values, quantiles, shares)
        if (np.diff(quantiles) > 0).all():
            ranks *= 2
        else:
            ranks -= np.interp(-values, -quantiles[::-1], -shares[::-1])
        ranks[values >= quantiles[-1]] = 2
        ranks[values <= quantiles[0]] = 0
        limited((ranks - 1) * _WIDTH, out[:, 0])
        return gap, Unseen()


class TruthState(State):
    """1 or 0; a gap is the share of ones."""

    kind: Literal["truth"] = "truth"
    fill: Annotated[float, Field(ge=0, le=1)] = 0.0

    def feature_names(self, name: str) -> list[str]:
        return [name]

    def readable(self, column: Column) -> Array:
        return truths(column)[2]

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        values, gap, _ = truths(column)
        out[:, 0] = np.where(gap, self.fill, values) if gap.any() else values
        return gap, Unseen()


def scaled_state(numbers: Numbers, word: str, gaps: bool) -> ScaledState | RankedState | TruthState:
    """The state of a type: standard, robust, quantile, as-is or boolean."""
    mean = numbers.moments.mean
    if word == "boolean":
        return TruthState(fill=min(max(mean, 0.0), 1.0), gaps=gaps)
    if word == "as-is":
        return ScaledState(fill=mean, gaps=gaps)
    if word == "standard" or numbers.moments.count == 0:
        return ScaledState(center=mean, scale=numbers.moments.deviation or 1.0, fill=mean, gaps=gaps)
    if word == "robust":
        first, median, third = (float(value) for value in numbers.quantiles((0.25, 0.5, 0.75)))
        width = third - first
        scale = width if 0 < width < math.inf else numbers.moments.deviation or 1.0
        return ScaledState(center=median, scale=scale, fill=median, gaps=gaps)
    quantiles = numbers.quantiles(np.linspace(0, 1, PARTS + 1).tolist())
    # Lines between neighbours may cross by a rounding; interpolation asks for an order.
    ordered = np.maximum.accumulate(quantiles)
    return RankedState(quantiles=ordered.tolist(), fill=float(numbers.quantiles((0.5,))[0]), gaps=gaps)
