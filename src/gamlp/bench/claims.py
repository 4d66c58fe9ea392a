"""What the paper says, as data; whether our measurements say it too; and the page that tells it in plain words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gamlp.bench.measure import results_of
from gamlp.bench.pages import EMPTY, TITLES, Stamp, as_table
from gamlp.bench.results import Grid, Measured, Results, in_percent, records
from gamlp.bench.tables import NAMES, PaperTable, table_of
from gamlp.bench.work import Work
from gamlp.recipe import load_yaml

Kind = Literal["within", "best", "order", "reaches", "passes", "stays", "falls", "points", "nearer", "differs"]
_UNDECIDED = " (undecided: less apart than the error of their means)"
FAR = 2  # hops from here on are far: the paper finds hops 1 and 2 important everywhere, and the others falling
_HEAD = """# What reproduces, what does not

{stamp}

Each line is something the paper says, or that one expects of a table of ours, held against our own measurements; the
numbers behind it are in the table's page.
Scores are means over seeds on test rows, which were read once; settings were chosen on validation rows alone.
"""


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


Outcome = tuple[bool, str]


def _within(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    found = []
    for method in claim.methods:
        pair = results.compared(method, dataset, claim.metric)
        if pair.ours is None or pair.published is None:
            continue
        width = max(1.0, 2 * (pair.published.deviation or 0.0))
        difference = pair.ours.mean - pair.published.mean
        text = f"{method} on {_title(results, dataset)}: {_text(pair.ours)}, published {pair.published.mean:g}"
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
    text = f"{_title(results, dataset)}: {first} {_text(known[first])}"
    if first != own:
        text += f", {own} {_text(known[own])}"
    return [(first in claim.methods, text)]


def _order(claim: Claim, results: Results, dataset: str) -> list[Outcome]:
    values = [results.measured(method, dataset, claim.metric) for method in claim.methods]
    if any(value is None for value in values):
        return []
    known = [value for value in values if value is not None]
    sign = 1 if claim.falling else -1
    gaps = [(sign * (one.mean - other.mean), _error(one, other)) for one, other in itertools.pairwise(known)]
    good = all(gap > error and gap >= claim.least for gap, error in gaps)
    text = f"{_title(results, dataset)}: " + ", ".join(map(_pair, claim.methods, known))
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
        text = f"{_title(results, dataset)}: {_pair(first, own)}, {_pair(method, other)}"
        found.append((gap >= 0, text + (_UNDECIDED if -_error(own, other) < gap < 0 else "")))
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
    text = f"{_title(results, dataset)}: {_pair(own, ours[own])}, {top} published {published[top].mean:g}"
    return [(difference >= 0, f"{text} ({difference:+.1f})")]


def _error(one: Measured, other: Measured) -> float:
    """Of the difference of two means; a single run has none that is known, and its sign is taken as it is."""
    return math.hypot(*((value.deviation or 0.0) / math.sqrt(value.count) for value in (one, other)))


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
    text = f"{_title(results, dataset)}: highest at {won} of {len(points)} points"
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


def _title(results: Results, dataset: str) -> str:
    return results.table.datasets[dataset].title


def _text(value: Measured) -> str:
    return f"{value.mean:.1f}" + ("" if value.deviation is None else f" ± {value.deviation:.1f}")


def _pair(name: str, value: Measured) -> str:
    return f"{name} {_text(value)}"


def as_summary(work: Work) -> str:
    """Every claim with its verdict, table by table, and tables without claims with what they hold."""
    stamp = Stamp.now("gamlp bench summary")
    versions = ", ".join(f"{name} {number}" for name, number in stamp.versions.items())
    parts = [_HEAD.format(stamp=f"Written by `{stamp.command}` on {stamp.date}; {stamp.machine}; {versions}.")]
    known = claims()
    for name in NAMES:
        table = table_of(name)
        results = results_of(table, work)
        parts.append(f"## [{table.title}]({name}.md)")
        if not results.measured_any:
            reasons = "; ".join(dict.fromkeys(results.missing.values()))
            parts.append(f"Not measured{': ' + reasons if reasons else ''}.")
            continue
        verdicts = [judge(claim, results) for claim in known if claim.table == name]
        parts += [_verdict_text(verdict) for verdict in verdicts]
        parts += _beside(results)
        parts += _notes(table, results.missing)
        parts += _kept(results)
    return "\n\n".join(parts) + "\n"


def _verdict_text(verdict: Verdict) -> str:
    count = f" ({verdict.held} of {verdict.asked})" if verdict.asked > 1 else ""
    lines = [f"**{verdict.word.capitalize()}**{count}: {verdict.claim.says}"]
    if verdict.examples:
        failed = "" if verdict.held == verdict.asked else "not so: " if verdict.held else ""
        lines.append(f"{failed}{'; '.join(verdict.examples)}.")
    if verdict.claim.remark and verdict.held < verdict.asked:
        lines.append(verdict.claim.remark)
    return "  \n".join(lines)


def _beside(results: Results) -> list[str]:
    """Every cell of a grid that was measured and published, a table a metric: ours, the paper's, points apart."""
    table = results.table
    metrics = dict.fromkeys(metric for dataset in table.datasets for metric in table.metrics_of(dataset))
    if table.kind != "grid":
        return []
    return [part for metric in metrics if in_percent(metric) for part in _beside_in(results, metric)]


def _beside_in(results: Results, metric: str) -> list[str]:
    cells: dict[str, dict[str, str]] = {}
    for method in results.table.published:
        for dataset, column in results.table.datasets.items():
            pair = results.compared(method, dataset, metric)
            if pair.ours is not None and pair.published is not None and not column.stand_in:
                difference = pair.ours.mean - pair.published.mean
                text = f"{pair.ours.mean:.1f}, {pair.published.mean:.1f}, {difference:+.1f}"
                cells.setdefault(method, {})[dataset] = text
    if not cells:
        return []
    columns = [name for name in results.table.datasets if any(name in row for row in cells.values())]
    heads = [f"{TITLES[metric]}: ours, published, points apart", *(_title(results, name) for name in columns)]
    rows = [[method, *(row.get(name, EMPTY) for name in columns)] for method, row in cells.items()]
    return [as_table(heads, rows)]


def _notes(table: PaperTable, missing: dict[str, str]) -> list[str]:
    if not missing:
        return []
    titles = ", ".join(table.datasets[name].title for name in missing)
    return [f"Not at hand: {titles}; their cells hold published values alone."]


def _kept(results: Results) -> list[str]:
    """That numbers are of an earlier page: their runs are lost, their recipes are the same."""
    cells = [cell for cell in records(results) if cell["ours"] is not None]
    kept = [cell["earlier"] for cell in cells if cell["earlier"] is not None] or [results.earlier]
    if kept == [None]:
        return []
    which = "All" if results.earlier or len(kept) == len(cells) else f"{len(kept)} of {len(cells)}"
    dates = " and ".join(sorted({date for date in kept if date is not None}))
    return [f"{which} numbers are kept from an earlier measurement by the same recipes ({dates})."]
