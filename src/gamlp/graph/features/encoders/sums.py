"""Sums of many floats that depend on no order: exact, so that rows may be cut and merged in any way.

A float is cut at fixed places of the binary scale, every 26 bits. What lies between two cuts are whole multiples of one
unit below 2^26 of it, of which 2^26 add up in a float64 without rounding; the rest is integers of Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gamlp.arrays import Array

_STEP = 26  # bits between two cuts
_CHUNK = 1 << 15  # values at a time: they stay in the cache, and their sums are exact
# Squares of numbers beyond 2^±400 would leave the range of float64: such numbers are scaled by 2^±600 first.
_FAR, _SCALE = 400, 600
_UNIT, _SQUARE_UNIT = 1100, 2 * _SCALE + 1100  # sums are counted in 2^-unit: nothing in float64 is finer


@dataclass
class Moments:
    """Count, exact sum and sum of squares of finite float64 values, and their extremes."""

    count: int = 0
    total: int = 0  # in units of 2^-1100
    squares: int = 0  # in units of 2^-2300; each square is known to 79 bits
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: Array) -> None:
        """Add finite float64 values."""
        if len(values) == 0:
            return
        self.count += len(values)
        for begin in range(0, len(values), _CHUNK):
            some = np.ascontiguousarray(values[begin : begin + _CHUNK], np.float64)
            low, high = float(some.min()), float(some.max())
            self.low, self.high = min(self.low, low), max(self.high, high)
            self._add_chunk(some)

    def merge(self, other: Moments) -> None:
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    @property
    def mean(self) -> float:
        return float(self._exact_mean()) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation, of the whole and not of a sample: as StandardScaler has it."""
        if self.count == 0 or self.low == self.high:
            return 0.0
        return _root(Fraction(self.squares, self.count << _SQUARE_UNIT) - self._exact_mean() ** 2)

    def to_plain(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "total": hex(self.total),
            "squares": hex(self.squares),
            "low": self.low.hex(),
            "high": self.high.hex(),
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Moments:
        return Moments(
            plain["count"],
            int(plain["total"], 16),
            int(plain["squares"], 16),
            float.fromhex(plain["low"]),
            float.fromhex(plain["high"]),
        )

    def _exact_mean(self) -> Fraction:
        return Fraction(self.total, self.count << _UNIT)

    def _add_chunk(self, some: Array) -> None:
        sizes = np.abs(some)
        great = sizes > 2.0**_FAR
        small = (sizes < 2.0**-_FAR) & (sizes > 0)
        if not great.any() and not small.any():
            self._add_scaled(some, 0)
            return
        self._add_scaled(some[~great & ~small], 0)
        self._add_scaled(some[great] * 2.0**-_SCALE, _SCALE)
        self._add_scaled(some[small] * 2.0**_SCALE, -_SCALE)

    def _add_scaled(self, some: Array, shift: int) -> None:
        """Values whose squares float64 holds; they were scaled by 2^-shift."""
        self.total += _exact_sum(some, _UNIT + shift)
        # x = h + l with h of 26 bits: h² is exact, and what remains of x², (2h + l)·l, is rounded 2^-79 below it.
        bits = some.view(np.uint64) & np.uint64(0xFFFFFFFFF8000000)
        high = bits.view(np.float64)
        low = some - high
        rest = (2 * high + low) * low
        self.squares += _exact_sum(high * high, _SQUARE_UNIT + 2 * shift)
        self.squares += _exact_sum(rest, _SQUARE_UNIT + 2 * shift)


def _exact_sum(values: Array, unit: int) -> int:
    """The sum in units of 2^-unit."""
    if len(values) == 0:
        return 0
    largest = max(float(values.max()), -float(values.min()))
    total = 0
    cut = -(-math.frexp(largest)[1] // _STEP) - 1
    rest, part = values.copy(), np.empty_like(values)
    while largest > 0:
        # Adding and taking away so large a number leaves multiples of 2^(26·cut).
        anchor = math.ldexp(1.5, 52 + _STEP * cut)
        np.add(rest, anchor, out=part)
        part -= anchor
        whole = int(math.ldexp(float(part.sum()), -_STEP * cut))
        place = unit + _STEP * cut
        total += whole << place if place >= 0 else whole >> -place
        rest -= part
        if not rest.any():
            break
        cut -= 1
    return total


def _root(value: Fraction) -> float:
    """The square root, also of what no float holds."""
    if value <= 0:
        return 0.0
    digits = value.numerator.bit_length() - value.denominator.bit_length()
    shift = 2 * ((128 - digits) // 2)
    scaled = value * Fraction(2) ** shift
    return math.ldexp(math.isqrt(int(scaled)), -shift // 2)
