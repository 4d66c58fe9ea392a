"""What the paper says, as data, and whether our measurements say it too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gamlp.bench.complexity import PowerLaw, published_exponent
from gamlp.bench.results import Grid, Measured, Results, is_relative
from gamlp.recipe import load_yaml

Kind = Literal[
    "within", "best", "order", "times", "reaches", "passes", "exceeds", "stays", "falls", "points", "nearer", "close",
    "differs", "grows",
]  # fmt: skip
SURE = 2.0  # errors that a margin must be away from 0 to decide
# What the margin of a comparison is, for readers.
MARGINS: dict[Kind, str] = {
    "within": "one point, or two of the paper's deviations where that is more, less the distance from the paper's mean",
    "best": "the best of GAMLP's rows above the best of the others{by}",
    "order": "each row above the next{by}",
    "times": "how many times as long the slower takes, less {least:g}",
    "reaches": "the first row above each of the others",
    "passes": "the row that is best on validation rows above the highest published mean",
    "exceeds": "above the published bound",
    "stays": "{most:g} points, less what is lost from the best point to the last",
    "falls": "what is lost from the first point to the last, less {most:g} points",
    "points": "the best of GAMLP's rows above the best of the others; it holds where most points of the curve do",
    "nearer": "the share of hops 3 to 6 at the lowest degrees above that at the highest",
    "close": "the mean weight of hops 1 and 2 above that of an equal share, where it is least",
    "differs": "how much more often a node is right at its own best depth, found in other runs, than at the common one",
    "grows": "the formula's exponent and {most:g}, less the measured one",
}


class Claim(BaseModel):
    """One sentence that a measurement can hold against. `remark` says in plain words why it comes out as it does.

    within: each method's mean is within two of the paper's deviations or one point of the paper's mean, whichever is
    larger; best: one of `methods` has the highest mean of the rows with published values (of all rows of a table of
    our own), by `least` or more; order: means fall in the order of `methods`, by `least` or more; times: every other of
    `methods` takes at least `least` times as long as the first; reaches: the first of `methods` has a mean at least as
    high as each of the others; passes: that of `methods` which is best on validation rows has at least the highest
    published mean; exceeds: a mean is above the bound that the paper gives for it; stays: from its best point to its
    last a curve loses at most `most`; falls: from its first to its last it loses more; points: one of `methods` is
    highest at more than half of the points of a curve; nearer: in a heat map of weights by degree the share of far hops
    is smaller in the last range than in the first; close: in each range hops 1 and 2 weigh more than an equal share;
    differs: in a heat map of shares by depth nodes are right more often at their own best depth than at the common one;
    grows: exponents of `metric` are at most `most` above those of the paper's formulas.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    says: str
    kind: Kind
    methods: tuple[str, ...] = ()
    datasets: tuple[str, ...] | None = None
    metric: str = "test.score"
    falling: bool = True
    least: float = 0.0
    most: float = 1.5
    remark: str = ""
    own: bool = False  # not the paper's, but what one expects of a table of ours

    @property
    def unit(self) -> str:
        """Of its margins."""
        named = {
            "nearer": "points of weight",
            "close": "points of weight",
            "times": "times",
            "grows": "of the exponent",
        }
        return named.get(self.kind) or ("times the first row's" if is_relative(self.metric) else "points")

    @property
    def margin_is(self) -> str:
        """In words."""
        by = f", less {self.least:g} points" if self.least else ""
        return MARGINS[self.kind].format(by=by, least=self.least, most=self.most)


@dataclass(frozen=True)
class ClaimOutcome:
    """One comparison: by how much it comes out as claimed (negative: it does not), and the error of that.

    Within twice its error a margin decides nothing, nor where the error is not known, unless it is `decided` otherwise.
    """

    place: str  # what is compared, for a picture
    text: str  # with numbers
    margin: float
    error: float | None = None
    parts: tuple[ClaimOutcome, ...] = ()  # of which it is the mean, for a picture
    decided: bool | None = None  # where the margin alone does not say
    strict: bool = False  # no margin is not enough

    @property
    def holds(self) -> bool | None:
        """None: not known."""
        if self.parts or self.error is None:
            return self.decided
        least = SURE * self.error
        if self.margin > least or (self.margin == least and not self.strict):
            return True
        return False if self.margin < -least else None

    @property
    def sureness(self) -> float:
        """The margin in units of its error; 0 where that is not known."""
        if self.error is None and self.decided is None:
            return 0.0
        return self.margin / max(self.error or 0.0, 1e-9)


@dataclass(frozen=True)
class Verdict:
    """All comparisons of a claim. It holds where all do; one that fails by twice its error refutes it."""

    claim: Claim
    outcomes: tuple[ClaimOutcome, ...]

    @property
    def asked(self) -> int:
        return len(self.outcomes)

    @property
    def held(self) -> int:
        return sum(one.holds is True for one in self.outcomes)

    @property
    def failed(self) -> int:
        return sum(one.holds is False for one in self.outcomes)

    @property
    def word(self) -> str:
        if self.failed:
            return "does not hold"
        return "holds" if self.asked and self.held == self.asked else "not known"

    @property
    def weakest(self) -> ClaimOutcome | None:
        """The comparison that decides: the least margin in units of its error."""
        return min(self.outcomes, key=lambda one: one.sureness, default=None)


def claims() -> tuple[Claim, ...]:
    """All of them, from claims.yaml."""
    content = load_yaml((resources.files("gamlp.bench") / "claims.yaml").read_text("utf-8"))
    return tuple(Claim.model_validate(entry) for entry in content)


def judge(claim: Claim, results: Results) -> Verdict:
    """Hold a claim against what was measured; datasets without numbers are left out."""
    datasets = [name for name in claim.datasets or tuple(results.table.datasets) if name not in results.missing]
    found = tuple(outcome for dataset in datasets for outcome in _JUDGES[claim.kind](claim, results, dataset))
    return Verdict(claim, found)


def compared_pairs(claim: Claim, results: Results, dataset: str, at: float | None) -> list[tuple[str, str]]:
    """Rows whose difference decides the claim there; none where it is about single rows."""
    if claim.kind == "order":
        return list(itertools.pairwise(claim.methods))
    if claim.kind == "reaches":
        return [(claim.methods[0], other) for other in claim.methods[1:]]
    if claim.kind not in ("best", "points"):
        return []
    rows = (claim.kind == "best" and results.table.published) or results.table.methods
    found = {name: results.measured(name, dataset, claim.metric, at) for name in rows}
    known = sorted(((value.mean, name) for name, value in found.items() if value is not None), reverse=True)
    own = next((name for _, name in known if name in claim.methods), None)
    other = next((name for _, name in known if name not in claim.methods), None)
    return [(own, other)] if own is not None and other is not None else []


def _within(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    found = []
    for method in claim.methods:
        pair = results.compared(method, dataset, claim.metric)
        if pair.ours is None or pair.published is None:
            continue
        width = max(1.0, 2 * (pair.published.deviation or 0.0))
        difference = pair.ours.mean - pair.published.mean
        place = f"{method}, {title_of(results, dataset)}"
        text = f"{place}: {_text(pair.ours)}, published {pair.published.mean:g} ({difference:+.1f})"
        found.append(ClaimOutcome(place, text, width - abs(difference), results.error(method, dataset, claim.metric)))
    return found


def _best(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    return [_compared(claim, results, dataset, pair) for pair in compared_pairs(claim, results, dataset, None)]


def _order(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    if any(results.measured(method, dataset, claim.metric) is None for method in claim.methods):
        return []
    return [_compared(claim, results, dataset, pair) for pair in itertools.pairwise(claim.methods)]


def _times(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    found = []
    first, *others = claim.methods
    for other in others:
        pair = [results.measured(name, dataset, claim.metric) for name in (first, other)]
        if pair[0] is None or pair[1] is None or pair[0].mean <= 0:
            continue
        ratio = pair[1].mean / pair[0].mean
        errors = [results.error(name, dataset, claim.metric) for name in (first, other)]
        shares = [error / one.mean for error, one in zip(errors, pair) if error is not None and one is not None]
        place = f"{title_of(results, dataset)}: {other} / {first}"
        error = ratio * math.hypot(*shares) if len(shares) == 2 else None
        found.append(ClaimOutcome(place, f"{place} is {ratio:.1f}", ratio - claim.least, error))
    return found


def _reaches(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    pairs = compared_pairs(claim, results, dataset, None)
    known = [pair for pair in pairs if results.gap(*pair, dataset, claim.metric) is not None]
    return [_compared(claim, results, dataset, pair) for pair in known]


def _compared(
    claim: Claim, results: Results, dataset: str, pair: tuple[str, str], at: float | None = None
) -> ClaimOutcome:
    """The first of two rows is above the second, by `least`; below, where the claim says that means rise."""
    gap = results.gap(*pair, dataset, claim.metric, at)
    values = [results.measured(method, dataset, claim.metric, at) for method in pair]
    assert gap is not None
    sign = 1 if claim.falling else -1
    where = title_of(results, dataset) + ("" if at is None else f" at {at:g}")
    text = f"{where}: " + ", ".join(_pair(name, value) for name, value in zip(pair, values) if value is not None)
    return ClaimOutcome(
        f"{where}: {pair[0]} − {pair[1]}",
        text,
        sign * gap.mean - claim.least,
        gap.error,
        strict=claim.kind == "order" and not claim.least,
    )


def _passes(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    """Which of ours stands for us is chosen by validation rows: the highest of several test means would be luck."""
    found = {method: results.measured(method, dataset, claim.metric) for method in claim.methods}
    ours = {method: value for method, value in found.items() if value is not None}
    given = {method: results.table.published_at(method, dataset, claim.metric) for method in results.table.published}
    published = {method: value for method, value in given.items() if value is not None}
    if not ours or not published:
        return []
    validated = {method: results.measured(method, dataset, "valid.score") for method in ours}
    own = max(ours, key=lambda method: -math.inf if (value := validated[method]) is None else value.mean)
    top = max(published, key=lambda method: published[method].mean)
    difference = ours[own].mean - published[top].mean
    text = f"{title_of(results, dataset)}: {_pair(own, ours[own])}, {top} published {published[top].mean:g}"
    place = f"{title_of(results, dataset)}: {own}, {top} published"
    return [ClaimOutcome(place, f"{text} ({difference:+.1f})", difference, results.error(own, dataset, claim.metric))]


def _exceeds(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    found = []
    for method in claim.methods:
        value = results.table.published.get(method, {}).get(dataset, {}).get(claim.metric)
        if value is None or value.bound != "above":
            continue
        ours = results.measured(method, dataset, claim.metric, value.at)
        if ours is not None:
            place = f"{method}, {title_of(results, dataset)}" + ("" if value.at is None else f" at {value.at:g}")
            text = f"{place}: {_text(ours)}, published above {value.mean:g}"
            error = results.error(method, dataset, claim.metric, value.at)
            found.append(ClaimOutcome(place, text, ours.mean - value.mean, error, strict=True))
    return found


def _curve(claim: Claim, results: Results, dataset: str, method: str) -> dict[float, Measured]:
    points = results.table.axis.values if results.table.axis is not None else ()
    found = {point: results.measured(method, dataset, claim.metric, point) for point in points}
    return {point: value for point, value in found.items() if value is not None}


def _loss(claim: Claim, results: Results, dataset: str, kept: bool) -> list[ClaimOutcome]:
    found = []
    for method in claim.methods:
        curve = _curve(claim, results, dataset, method)
        if len(curve) < 2 or max(curve) != max(results.table.axis.values if results.table.axis else ()):
            continue
        # Of what falls the paper names both ends; the best of several noisy points would lose to any last one.
        last, points = max(curve), results.table.axis.values if results.table.axis else ()
        top = max(curve, key=lambda point: curve[point].mean) if kept else min(points)
        if top not in curve:
            continue
        lost = curve[top].mean - curve[last].mean
        text = f"{method}: {_text(curve[top])} at {top:g}, {_text(curve[last])} at {last:g} (loses {lost:.1f})"
        errors = [results.error(method, dataset, claim.metric, at) for at in (top, last)]
        error = None if None in errors else math.hypot(*(one or 0.0 for one in errors))
        place = f"{title_of(results, dataset)}: {method}"
        found.append(
            ClaimOutcome(place, text, claim.most - lost if kept else lost - claim.most, error, strict=not kept)
        )
    return found


def _points(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    """The best of ours above the best of the others, point by point; most points decide."""
    found = {method: _curve(claim, results, dataset, method) for method in results.table.methods}
    curves = {method: curve for method, curve in found.items() if curve}
    if not set(claim.methods) & set(curves):
        return []
    shared = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    pairs = [(at, pair) for at in shared for pair in compared_pairs(claim, results, dataset, at)]
    parts = tuple(_compared(claim, results, dataset, pair, at) for at, pair in pairs)
    if not parts:
        return []
    won, below = sum(part.holds is True for part in parts), sum(part.margin < 0 for part in parts)
    others = sorted({pair[1] for (_, pair), part in zip(pairs, parts) if part.margin < 0})
    text = f"{title_of(results, dataset)}: highest at {len(parts) - below} of {len(parts)} points"
    mean = sum(part.margin for part in parts) / len(parts)
    errors = [part.error for part in parts if part.error is not None]
    error = math.hypot(*errors) / len(parts) if len(errors) == len(parts) else None
    refuted = 2 * below >= len(parts) and error is not None and mean < -SURE * error
    decided = True if 2 * won > len(parts) else False if refuted else None
    where = f"{title_of(results, dataset)}: mean of {len(parts)} points"
    told = text + (f" (elsewhere {', '.join(others)})" if others else "")
    return [ClaimOutcome(where, told, mean, error, parts, decided)]


def _grids(results: Results, dataset: str) -> list[Grid]:
    return [grid for name, grid in results.grids.items() if name.startswith(f"{dataset}-")]


def _mapped(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    """Of heat maps, which hold their margins; of one that does not, nothing is known."""
    found = []
    for grid in _grids(results, dataset):
        if claim.kind in grid.margins:
            margin, error = grid.margins[claim.kind]
            text = f"{grid.title}: {margin:+.2f}" + ("" if error is None else f" ± {error:.2f}") + f" {claim.unit}"
            found.append(ClaimOutcome(grid.title, text, margin, error, strict=True))
    return found


def _grows(claim: Claim, results: Results, dataset: str) -> list[ClaimOutcome]:
    """Exponents of one metric over everything that was grown, where the paper has a formula with a power."""
    found = []
    for one in results.growth:
        if one.metric != claim.metric or one.method not in claim.methods:
            continue
        law = PowerLaw.of(one.sizes, one.values)
        power = published_exponent(results.table, one.method, one.quantity, one.metric)
        if law is None or power is None or math.isinf(power):
            continue
        place = f"{one.method} with {one.quantity}"
        text = f"{place}: {law.slope:.2f}, the formula's {power:g}"
        found.append(ClaimOutcome(place, text, power + claim.most - law.slope, law.error))
    return found


_JUDGES: dict[str, Callable[[Claim, Results, str], list[ClaimOutcome]]] = {
    "within": _within,
    "best": _best,
    "order": _order,
    "times": _times,
    "reaches": _reaches,
    "passes": _passes,
    "exceeds": _exceeds,
    "stays": lambda claim, results, dataset: _loss(claim, results, dataset, True),
    "falls": lambda claim, results, dataset: _loss(claim, results, dataset, False),
    "points": _points,
    "nearer": _mapped,
    "close": _mapped,
    "differs": _mapped,
    "grows": _grows,
}


def title_of(results: Results, dataset: str) -> str:
    """Of a column."""
    return results.table.datasets[dataset].title


def _text(value: Measured) -> str:
    return f"{value.mean:.1f}" + ("" if value.deviation is None else f" ± {value.deviation:.1f}")


def _pair(name: str, value: Measured) -> str:
    return f"{name} {_text(value)}"
