"""What is gathered of the numbers, dates and vectors of a column, in any order, by any number of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.features.encoders.reading import DAY
from gamlp.graph.features.encoders.samples import NumberSample
from gamlp.graph.features.encoders.sums import Moments

_BINS = 1 << 16
_CHUNK = 1 << 15  # values at a time: they stay near the cache
_SIGN = np.uint64(1 << 63)


@dataclass
class Numbers:
    """Finite numbers: moments, distinct values with counts, and a histogram once these are too many.

    The histogram is over the first 16 bits of a float (sign, exponent, four bits of the fraction), in order of size:
    exact counts, whatever the sample of distinct values leaves out.
    """

    moments: Moments = field(default_factory=Moments)
    sample: NumberSample = field(default_factory=NumberSample)
    histogram: Array | None = None
    whole: bool = True  # no number has a fraction
    spread: bool = True  # whether more than moments is wanted

    def add(self, values: Array) -> None:
        if len(values) == 0:
            return
        self.moments.add(values)
        self.whole = self.whole and bool((np.floor(values) == values).all())
        if not self.spread:
            return
        before = self.sample.settled() if self.histogram is None else None
        self.sample.add_rows(values)
        if before is None:
            self.histogram += _counted(values)
        elif not self.sample.whole:
            self.histogram = _counted(*before) + _counted(values)

    def merge(self, other: Numbers) -> None:
        self.moments.merge(other.moments)
        self.whole = self.whole and other.whole
        parts = [(numbers.histogram, numbers.sample.settled()) for numbers in (self, other)]
        self.sample.merge(other.sample)
        if not self.sample.whole:
            both = [_counted(*pairs) if histogram is None else histogram for histogram, pairs in parts]
            self.histogram = both[0] + both[1]

    def quantiles(self, shares: Sequence[float]) -> Array:
        """As numpy's `quantile` has them: exact while all distinct values are counted, near them beyond.

        Beyond, the counts of the histogram are exact, and between two of its bounds the sampled values stand for all.
        """
        values, counts = self.sample.settled()
        weights = counts.astype(np.float64)
        if self.histogram is not None:
            values, weights = _weighted(values, weights, self.histogram)
        ends = np.cumsum(weights)
        at = np.asarray(shares) * (self.moments.count - 1)
        lower = np.floor(at)
        first = values[np.minimum(np.searchsorted(ends, lower, side="right"), len(values) - 1)]
        second = values[np.minimum(np.searchsorted(ends, lower + 1, side="right"), len(values) - 1)]
        part = at - lower
        # By halves: the difference of two values may be more than float64 holds.
        return np.asarray(np.where(part == 0, first, first * (1 - part) + second * part))

    def to_plain(self) -> dict[str, Any]:
        bins = None
        if self.histogram is not None:
            used = np.flatnonzero(self.histogram)
            bins = [used.tolist(), self.histogram[used].tolist()]
        return {
            "moments": self.moments.to_plain(),
            "sample": self.sample.to_plain(),
            "histogram": bins,
            "whole": self.whole,
            "spread": self.spread,
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Numbers:
        histogram = None
        if plain["histogram"] is not None:
            histogram = np.zeros(_BINS, np.int64)
            histogram[plain["histogram"][0]] = plain["histogram"][1]
        sample = NumberSample.from_plain(plain["sample"])
        assert isinstance(sample, NumberSample)
        return Numbers(Moments.from_plain(plain["moments"]), sample, histogram, plain["whole"], plain["spread"])


@dataclass
class Dates:
    """Moments of elapsed days, and whether some have a time of day."""

    moments: Moments = field(default_factory=Moments)
    timed: bool = False

    def add(self, microseconds: Array) -> None:
        self.moments.add(elapsed_days(microseconds))
        self.timed = self.timed or bool((microseconds % DAY != 0).any())

    def merge(self, other: Dates) -> None:
        self.moments.merge(other.moments)
        self.timed = self.timed or other.timed

    def to_plain(self) -> dict[str, Any]:
        return {"moments": self.moments.to_plain(), "timed": self.timed}

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Dates:
        return Dates(Moments.from_plain(plain["moments"]), plain["timed"])


@dataclass
class Vectors:
    """Lists of numbers: their length, None before the first, and the moments of their norms."""

    width: int | None = None
    ragged: bool = False
    norms: Moments = field(default_factory=Moments)

    def add(self, width: int, ragged: bool, norms: Array) -> None:
        self.ragged = self.ragged or ragged or self.width not in (None, width)
        self.width = width if self.width is None else min(width, self.width)
        self.norms.add(norms)

    def merge(self, other: Vectors) -> None:
        self.norms.merge(other.norms)
        self.ragged = self.ragged or other.ragged
        if other.width is not None:
            self.ragged = self.ragged or self.width not in (None, other.width)
            self.width = other.width if self.width is None else min(other.width, self.width)

    def to_plain(self) -> dict[str, Any]:
        return {"width": self.width, "ragged": self.ragged, "norms": self.norms.to_plain()}

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Vectors:
        return Vectors(plain["width"], plain["ragged"], Moments.from_plain(plain["norms"]))


def elapsed_days(microseconds: Array) -> Array:
    """float64 days since 1970."""
    return np.asarray(microseconds / DAY)


def _counted(values: Array, counts: Array | None = None) -> Array:
    """Counts of the histogram's bins."""
    found = np.zeros(_BINS, np.int64)
    if counts is not None:
        np.add.at(found, _bins(values), counts)
        return found
    for begin in range(0, len(values), _CHUNK):
        found += np.bincount(_bins(values[begin : begin + _CHUNK]), minlength=_BINS)
    return found


def _bins(values: Array) -> Array:
    """The first 16 bits of floats, such that a larger float has no smaller number."""
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)
    # A float below zero has all bits turned, another one the sign alone.
    turned = (bits.view(np.int64) >> np.int64(63)).view(np.uint64) | _SIGN
    return np.asarray((bits ^ turned) >> np.uint64(48)).view(np.int64)


def _weighted(values: Array, counts: Array, histogram: Array) -> tuple[Array, Array]:
    """Sampled values that share the counts of their bins; a bin without any is a value at its middle."""
    bins = _bins(values)
    held = np.bincount(bins, counts, minlength=_BINS)
    weights = counts * histogram[bins] / held[bins]
    empty = np.flatnonzero((histogram > 0) & (held == 0))
    ordered = (empty.astype(np.uint64) << np.uint64(48)) | np.uint64(1 << 47)
    middles = np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered).view(np.float64)
    everything = np.concatenate([values, middles])
    order = np.argsort(everything, kind="stable")
    return everything[order], np.concatenate([weights, histogram[empty].astype(np.float64)])[order]
