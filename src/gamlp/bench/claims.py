"""What the paper says, as data, and whether our measurements say it too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gamlp.bench.results import Grid, Measured, Results, error_of_difference
from gamlp.recipe import load_yaml

Kind = Literal["within", "best", "order", "reaches", "passes", "stays", "falls", "points", "nearer", "differs"]
_UNDECIDED = " (undecided: less apart than the error of their means)"
FAR = 2  # hops from here on are far: the paper finds hops 1 and 2 important everywhere, and the others falling


class Claim(BaseModel):
    """One sentence that a measurement can hold against. `remark` says in plain words why it comes out as it does.

    within: each method's mean is within two of the paper's deviations or one point of the paper's mean, whichever is
    larger; best: one of `methods` has the highest mean of the rows with published values; order: means fall in the
    order of `methods`, by more than the error of their difference and by `least`; reaches: the first of `methods` has a
    mean at least as high as each of the others; passes: that of `methods` which is best on validation rows has at least
    the highest published mean; stays: from its best point to its last a curve
    loses at most `most`; falls: it loses more; points: one of `methods` is highest at more than half of the points of
    a curve; nearer: in a heat map of weights by degree the share of far hops is smaller in the last range than in the
    first; differs: in a heat map of shares by depth some nodes are mostly right at one depth and mostly wrong at
    another.
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


@dataclass(frozen=True)
class Verdict:
    """`held` of `asked` comparisons came out as claimed; `told` are the others (or all, where few), with numbers."""

    claim: Claim
    asked: int
    held: int
    examples: tuple[str, ...]

    @property
    def word(self) -> str:
        if not self.asked:
            return "not measured"
        return "holds" if self.held == self.asked else "does not hold" if not self.held else "holds in part"


def claims() -> tuple[Claim, ...]:
    """All of them, from claims.yaml."""
    content = load_yaml((resources.files("gamlp.bench") / "claims.yaml").read_text("utf-8"))
    return tuple(Claim.model_validate(entry) for entry in content)


def judge(claim: Claim, results: Results) -> Verdict:
    """Hold a claim against what was measured; datasets without numbers are left out."""
    datasets = [name for name in claim.datasets or tuple(results.table.datasets) if name not in results.missing]
    outcomes = [outcome for dataset in datasets for outcome in _JUDGES[claim.kind](claim, results, dataset)]
    examples = tuple(f"{text}" for good, text in outcomes if not good) or tuple(text for _, text in outcomes[:4])
    return Verdict(claim, len(outcomes), sum(good for good, _ in outcomes), examples)


def compared_pairs(claim: Claim, results: Results, dataset: str, at: float | None) -> list[tuple[str, str]]:
    """Rows whose difference decides the claim there; none where it is about single rows."""
    if claim.kind == "order":
        return list(itertools.pairwise(claim.methods))
    if claim.kind == "reaches":
        return [(claim.methods[0], other) for other in claim.methods[1:]]
    if claim.kind not in ("best", "points"):
        return []
    rows = results.table.published if claim.kind == "best" else results.table.methods
    found = {name: results.measured(name, dataset, claim.metric, at) for name in rows}
    known = sorted(((value.mean, name) for name, value in found.items() if value is not None), reverse=True)
    own = next((name for _, name in known if name in claim.methods), None)
    other = next((name for _, name in known if name not in claim.methods), None)
    return [(own, other)] if own is not None and other is not None else []


Outcome = tuple[bool, str]


def _within(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    found = []
    for method in claim.methods:
        pair = results.compared(method, dataset, claim.metric)
        if pair.ours is None or pair.published is None:
            continue
        width = max(1.0, 2 * (pair.published.deviation or 0.0))
        difference = pair.ours.mean - pair.published.mean
        text = f"{method} on {title_of(results, dataset)}: {_text(pair.ours)}, published {pair.published.mean:g}"
        found.append((abs(difference) <= width, f"{text} ({difference:+.1f})"))
    return found


def _best(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    rows = [name for name in results.table.published if results.measured(name, dataset, claim.metric) is not None]
    means = {name: results.measured(name, dataset, claim.metric) for name in rows}
    known = {name: value for name, value in means.items() if value is not None}
    if len(known) < 2 or not set(claim.methods) & set(known):
        return []
    first = max(known, key=lambda name: known[name].mean)
    own = max((name for name in known if name in claim.methods), key=lambda name: known[name].mean)
    text = f"{title_of(results, dataset)}: {first} {_text(known[first])}"
    if first != own:
        text += f", {own} {_text(known[own])}"
    return [(first in claim.methods, text)]


def _order(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    values = [results.measured(method, dataset, claim.metric) for method in claim.methods]
    if any(value is None for value in values):
        return []
    known = [value for value in values if value is not None]
    sign = 1 if claim.falling else -1
    gaps = [
        (sign * (one.mean - other.mean), error_of_difference(one, other)) for one, other in itertools.pairwise(known)
    ]
    good = all(gap > error and gap >= claim.least for gap, error in gaps)
    text = f"{title_of(results, dataset)}: " + ", ".join(map(_pair, claim.methods, known))
    undecided = not good and all(gap - claim.least > -error for gap, error in gaps)
    return [(good, text + (_UNDECIDED if undecided else ""))]


def _reaches(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    first, *others = claim.methods
    own = results.measured(first, dataset, claim.metric)
    found = []
    for method in others:
        other = results.measured(method, dataset, claim.metric)
        if own is None or other is None:
            continue
        gap = own.mean - other.mean
        text = f"{title_of(results, dataset)}: {_pair(first, own)}, {_pair(method, other)}"
        found.append((gap >= 0, text + (_UNDECIDED if -error_of_difference(own, other) < gap < 0 else "")))
    return found


def _passes(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
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
    return [(difference >= 0, f"{text} ({difference:+.1f})")]


def _curve(claim: Claim, results: Results, dataset: str, method: str) -> dict[float, Measured]:
    points = results.table.axis.values if results.table.axis is not None else ()
    found = {point: results.measured(method, dataset, claim.metric, point) for point in points}
    return {point: value for point, value in found.items() if value is not None}


def _loss(claim: Claim, results: Results, dataset: str, kept: bool) -> list[Outcome]:
    found = []
    for method in claim.methods:
        curve = _curve(claim, results, dataset, method)
        if len(curve) < 2 or max(curve) != max(results.table.axis.values if results.table.axis else ()):
            continue
        top, last = max(curve, key=lambda point: curve[point].mean), max(curve)
        lost = curve[top].mean - curve[last].mean
        text = f"{method}: {_text(curve[top])} at {top:g}, {_text(curve[last])} at {last:g} (loses {lost:.1f})"
        found.append((lost <= claim.most if kept else lost > claim.most, text))
    return found


def _points(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    found = {method: _curve(claim, results, dataset, method) for method in results.table.methods}
    curves = {method: curve for method, curve in found.items() if curve}
    if not set(claim.methods) & set(curves):
        return []
    points = set.intersection(*(set(curve) for curve in curves.values()))
    firsts = [max(curves, key=lambda name: curves[name][point].mean) for point in sorted(points)]
    won = sum(first in claim.methods for first in firsts)
    others = sorted(set(firsts) - set(claim.methods))
    text = f"{title_of(results, dataset)}: highest at {won} of {len(points)} points"
    return [(2 * won > len(points), text + (f" (elsewhere {', '.join(others)})" if others else ""))]


def _grids(results: Results, dataset: str) -> list[Grid]:
    return [grid for name, grid in results.grids.items() if name.startswith(f"{dataset}-")]


def _nearer(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    found = []
    for grid in _grids(results, dataset):
        shares = [sum(row[FAR + 1 :]) / sum(row) for row in grid.values]
        if len(shares) > 1:
            ends = f"{100 * shares[0]:.1f} % at degree {grid.rows[0]}, {100 * shares[-1]:.1f} % at {grid.rows[-1]}"
            found.append((shares[-1] < shares[0], f"{grid.title}: {ends}"))
    return found


def _differs(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    found = []
    for grid in _grids(results, dataset):
        nodes = list(zip(*grid.values))
        changing = sum(max(shares) > 0.5 > min(shares) for shares in nodes)
        found.append((changing > 0, f"{grid.title}: {changing} of {len(nodes)} drawn nodes"))
    return found


_JUDGES: dict[str, Callable[[Claim, Results, str], list[Outcome]]] = {
    "within": _within,
    "best": _best,
    "order": _order,
    "reaches": _reaches,
    "passes": _passes,
    "stays": lambda claim, results, dataset: _loss(claim, results, dataset, True),
    "falls": lambda claim, results, dataset: _loss(claim, results, dataset, False),
    "points": _points,
    "nearer": _nearer,
    "differs": _differs,
}


def title_of(results: Results, dataset: str) -> str:
    """Of a column."""
    return results.table.datasets[dataset].title


def _text(value: Measured) -> str:
    return f"{value.mean:.1f}" + ("" if value.deviation is None else f" ± {value.deviation:.1f}")


def _pair(name: str, value: Measured) -> str:
    return f"{name} {_text(value)}"
