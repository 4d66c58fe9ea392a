"""What a column is, from what a first pass saw of it, with the sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.features.encoders.category import BUCKETS, ONE_HOT
from gamlp.graph.features.encoders.fitting import Fitting
from gamlp.graph.features.encoders.gathered import Numbers
from gamlp.graph.features.encoders.reading import FALSE_WORDS, TRUE_WORDS

FEW = 20  # different whole numbers: so few are codes or grades, and a feature each costs nothing
# Of codes neighbours have nothing to do with each other; of a quantity they occur about as often. Measured: majors,
# dorms and schools of cornell5 0.1 to 0.5; ages, salaries, numbers of posts and of friends 0.86 to 0.99.
SMOOTH = 0.7  # correlation of how often a number and its neighbours occur, by logarithms
NOISE = 2.0  # squared differences of neighbours' counts by their sum: 1 where they differ by chance alone
DETACHED = 10  # 0 so many times farther from the other numbers than these reach: it stands for "unknown"
ONCE = 0.95  # share of numbers that differ, as far as can be estimated, where each occurs once
UNIQUE = 0.5  # share of cells that differ: beyond it a text names its row rather than a group, a number is no code
LONG = 40  # letters of a text on average: longer ones are sentences
MOSTLY = 0.9  # share of cells that are numbers (dates): the others then look like mistakes
HEAVY = 10  # standard deviations that the farthest number is away: an exponential tail of a million rows has 13
HEAVIER = 20  # ranges between quartiles: beyond it nothing but ranks keeps far numbers in bounds
FAR_NORM = 10  # times the mean norm that the longest vector may have
NORMS = (1e-2, 1e2)  # of numbers within a vector, by their root mean square: those of embeddings and counts


@dataclass(frozen=True)
class Inference:
    """type: a column type that can be fitted. reason: a clause that tells people why.

    refusal: what is wrong where the column cannot be meant as it is; then `type` is what its cells are expected to be,
    and `unreadable(values, type)` finds the rows to name.
    """

    type: str
    reason: str
    refusal: str | None = None


def infer(fitting: Fitting) -> Inference:
    """What the column is; of one whose type somebody named, which scaling its numbers get."""
    wanted = fitting.wanted
    if fitting.vectors.ragged:
        return Inference("vector", "lists", f"lists of different lengths, the shortest of {fitting.vectors.width}")
    if fitting.infinite and fitting.kind == "date":
        return Inference("date", "days", f"{fitting.infinite:,} days outside of the years 1 to 9999")
    if fitting.infinite:
        return Inference("number", "numbers", f"{fitting.infinite:,} infinite numbers")
    if wanted == "number":
        return _scaling(fitting.numbers)
    if wanted is not None:
        return Inference(wanted, "as you asked")
    if fitting.filled == 0:
        return Inference("constant", "every cell is empty")
    if fitting.kind == "boolean":
        return _constant(fitting, 1 + (fitting.numbers.moments.low != fitting.numbers.moments.high)) or Inference(
            "boolean", "true or false"
        )
    if fitting.kind == "number":
        return _number(fitting)
    if fitting.kind == "date":
        return _date(fitting)
    if fitting.kind == "text":
        return _text(fitting)
    if fitting.kind == "vector":
        return _vector(fitting)
    return Inference("drop", f"{fitting.source} cannot be features")


def _number(fitting: Fitting) -> Inference:
    numbers = fitting.numbers
    moments, distinct = numbers.moments, numbers.sample.distinct()
    if distinct == 1 and abs(moments.low) >= 2.0**53 and "int" in (fitting.source or ""):
        return Inference("id", "whole numbers so large that features cannot tell them apart")
    if (constant := _constant(fitting, distinct)) is not None:
        return constant
    if moments.low == 0 and moments.high == 1 and distinct == 2:
        return Inference("boolean", "0 and 1 alone")
    if not numbers.whole or max(abs(moments.low), abs(moments.high)) >= 2.0**53:
        return _scaling(numbers)
    # Where distinct numbers are estimated they are so to a few percent; drawn by chance from so short a range, no more
    # than 79 % would differ.
    once = distinct == moments.count if numbers.sample.whole else distinct > ONCE * moments.count
    if once and moments.count > FEW and moments.high - moments.low < 2 * moments.count:
        return Inference("id", "whole numbers, each once and hardly any left out: they count the rows")
    if distinct <= FEW and distinct <= UNIQUE * moments.count:
        return Inference("category", f"whole numbers with {distinct} different values: codes")
    if numbers.sample.whole:
        values, counts = numbers.sample.settled()
        if _detached_zero(values) and distinct <= ONE_HOT:
            return Inference(
                "category", f"0 lies far from the other {distinct - 1} whole numbers: codes, 0 for unknown"
            )
        if _are_codes(counts) and distinct <= UNIQUE * moments.count:
            return Inference(
                "category",
                f"{distinct:,} whole numbers that occur unlike their neighbours: codes{_shared(fitting, distinct)}",
            )
    return _scaling(numbers)


def _scaling(numbers: Numbers) -> Inference:
    """Of numbers that are quantities."""
    moments = numbers.moments
    deviation = moments.deviation
    if deviation == 0:
        return Inference("standard", "numbers, all the same")
    reach = max(moments.high - moments.mean, moments.mean - moments.low) / deviation
    if reach <= HEAVY:
        return Inference("standard", f"numbers, the farthest {reach:.2g} deviations from the mean")
    first, median, third = (float(value) for value in numbers.quantiles((0.25, 0.5, 0.75)))
    width = third - first
    far = max(moments.high - median, median - moments.low)
    if width > 0 and far / width <= HEAVIER:
        return Inference("robust", f"numbers with a tail, the farthest {reach:.2g} deviations from the mean")
    return Inference("quantile", f"numbers with a heavy tail, the farthest {reach:.2g} deviations from the mean")


def _date(fitting: Fitting) -> Inference:
    moments = fitting.dates.moments
    if (constant := _constant(fitting, 1 + (moments.low != moments.high))) is not None:
        return constant
    return Inference("date", "days with a time" if fitting.dates.timed else "days")


def _text(fitting: Fitting) -> Inference:
    numeric, dated, filled = fitting.numbers.moments.count, fitting.dates.moments.count, fitting.filled
    if numeric == filled:
        return _number(fitting)
    if dated == filled:
        return _date(fitting)
    distinct = fitting.words.distinct() + (fitting.numbers.sample.distinct() if numeric else 0)
    if distinct > FEW:
        for count, what in ((numeric, "number"), (dated, "date")):
            if count >= MOSTLY * filled:
                verb = "is" if filled - count == 1 else "are"
                refusal = f"{filled - count:,} of {filled:,} cells {verb} no {what}, as the others are"
                return Inference(what, f"mostly {what}s", refusal)
    if (constant := _constant(fitting, distinct)) is not None:
        return constant
    if _are_truths(fitting):
        return Inference("boolean", "words for yes and no")
    long = fitting.letters / max(fitting.worded, 1)
    unique = (distinct > UNIQUE * filled and distinct > FEW) or distinct == filled > 2
    if long > LONG and (unique or distinct > ONE_HOT):
        why = f"texts of {long:.0f} letters on average; --column {fitting.name}=text makes features of their words"
        return Inference("free-text", why)
    if unique:
        return Inference("id", f"{_about(fitting)}{distinct:,} different texts in {filled:,} rows: they name rows")
    return Inference("category", f"{_about(fitting)}{distinct:,} different texts{_shared(fitting, distinct)}")


def _vector(fitting: Fitting) -> Inference:
    vectors, norms = fitting.vectors, fitting.vectors.norms
    if vectors.width == 0:
        return Inference("vector", "lists", "empty lists")
    size = norms.mean / (vectors.width or 1) ** 0.5
    if norms.mean == 0 or (NORMS[0] <= size <= NORMS[1] and norms.high <= FAR_NORM * norms.mean):
        return Inference("vector", "lists of numbers of ordinary size")
    return Inference("vector-l2", "lists of numbers that differ much in size, or are far from 1")


def _constant(fitting: Fitting, distinct: int) -> Inference | None:
    if distinct > 1:
        return None
    if fitting.gaps == 0:
        return Inference("constant", "one value in all rows")
    return Inference("category", "one value, or none") if fitting.kind in ("number", "text") else None


def _are_truths(fitting: Fitting) -> bool:
    if not fitting.words.whole or fitting.numbers.moments.count:
        return False
    words = {str(word).lower() for word in fitting.words.settled()[0].to_pylist()}
    return any(words == {yes, no} for yes, no in zip(TRUE_WORDS, FALSE_WORDS))


def _detached_zero(values: Array) -> bool:
    others = values[values != 0]
    if len(others) == len(values) or len(others) < 2:
        return False
    return bool(np.abs(others).min() > DETACHED * (others.max() - others.min()))


def _are_codes(counts: Array) -> bool:
    """Whether numbers occur more unlike their neighbours than chance and a smooth distribution allow."""
    counts = counts.astype(np.float64)
    left, right = counts[:-1], counts[1:]
    if np.mean((left - right) ** 2 / (left + right)) <= NOISE:
        return False
    logs = np.log(counts)
    reach = max(2, round(len(counts) ** 0.5 / 2))
    padded = np.pad(logs, reach, mode="reflect")
    around = (np.convolve(padded, np.ones(2 * reach + 1), "valid") - logs) / (2 * reach)
    if np.ptp(around) == 0 or np.ptp(logs) == 0:
        return False
    return bool(np.corrcoef(around, logs)[0, 1] < SMOOTH)


def _about(fitting: Fitting) -> str:
    return "" if fitting.words.whole and fitting.numbers.sample.whole else "about "


def _shared(fitting: Fitting, distinct: int) -> str:
    """What becomes of more values than features."""
    if not (fitting.words.whole and fitting.numbers.sample.whole):
        return f", in {ONE_HOT} features by hash"
    if distinct <= ONE_HOT:
        return ""
    return f", the {ONE_HOT - BUCKETS} most frequent with a feature each, the others in {BUCKETS} by hash"
