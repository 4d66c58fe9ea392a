"""What was measured of a table: means and deviations over seeds, and how far they are from the published values."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from typing import Any

from gamlp.bench.record import RunOrigin
from gamlp.bench.tables import PaperTable, Value

FORMULA = "(ours - published) / sqrt(own deviation² + published deviation²)"

_EPOCH = "seconds.epoch"  # of training, which no report has by itself
_RELATIVE = "relative."  # before a metric that has no unit of its own: its ratio to the first method's
Key = tuple[str, str, float | None]  # method, dataset, value of the axis
Reports = list[dict[str, Any]]
Shown = tuple[str, list[str], list[list[str]]]  # title, heads, rows


@dataclass(frozen=True)
class Measured:
    """Of `count` runs with different seeds. The deviation is the sample's (n - 1), None for a single run."""

    mean: float
    deviation: float | None
    count: int


@dataclass(frozen=True)
class Gap:
    """How far one row's mean is above another's, and the error of that; None where single runs leave it unknown.

    `seeds` are those that both rows ran, where the difference is taken seed by seed: they share splits and luck.
    """

    mean: float
    error: float | None
    seeds: int = 0


@dataclass(frozen=True)
class KeptValue:
    """Of an earlier page, by the same recipe; its single runs are not at hand. `raw` is in seconds or bytes."""

    measured: Measured
    raw: Measured
    date: str


@dataclass(frozen=True)
class Comparison:
    """Ours beside the paper's. `difference` is in units of deviation, None where nothing says how wide that is.

    `holds` says whether a published bound ("exceeds 80.0") is kept, None where it is no bound; `earlier` when an
    earlier page measured it, where ours is of one.
    """

    ours: Measured | None
    published: Value | None
    difference: float | None = None
    holds: bool | None = None
    earlier: str | None = None


@dataclass(frozen=True)
class Grid:
    """A heat map: `values[row][column]`, from hop weights or shares of runs.

    `margins[kind]` of a claim about it: by how much it comes out as claimed, and the error of that, None where one run
    leaves it unknown.
    """

    title: str
    row_title: str
    column_title: str
    value_title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    margins: dict[str, tuple[float, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Growth:
    """How one metric of a method grows with one quantity: `values[i]` at `sizes[i]`, the others kept."""

    method: str
    quantity: str  # nodes, edges, features, hops
    metric: str  # seconds.preparation, seconds.training, peak_memory
    sizes: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def slope(self) -> float | None:
        """Of log value over log size by least squares: 1 is linear growth. None where there is nothing to fit."""
        points = [(math.log(size), math.log(value)) for size, value in zip(self.sizes, self.values) if value > 0]
        if len({x for x, _ in points}) < 2:
            return None
        return statistics.linear_regression(*zip(*points)).slope


@dataclass(frozen=True)
class Results:
    """Reports (`Report.as_json()`, one a seed) by method, dataset and value of the axis; why datasets are missing.

    `grids` and `growth` are what tables of a special kind measure instead; `tables` are shown as they are. `recipes`
    are digests of all that decides a cell's runs beside the seed and what `made` is the digest of: revisions of method
    and dataset, how a graph is generated. `kept` are an earlier page's numbers by method,
    dataset, value of the axis and metric: of a cell's runs and these the more seeds are taken, and they are never
    mixed. `stamps` say on what those were measured, `origins` on what recorded runs were. Of a special kind, `recipe`
    is the digest of all that decides it, and `earlier` the date of the page that it is kept from as a whole.
    """

    table: PaperTable
    cells: dict[Key, Reports]
    missing: dict[str, str] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    growth: tuple[Growth, ...] = ()
    tables: tuple[Shown, ...] = ()
    recipes: dict[Key, str] = field(default_factory=dict)
    made: dict[Key, str] = field(default_factory=dict)
    kept: dict[tuple[Key, str], KeptValue] = field(default_factory=dict)
    stamps: tuple[dict[str, Any], ...] = ()
    origins: tuple[RunOrigin, ...] = ()
    recipe: str | None = None
    earlier: str | None = None

    @property
    def measured_any(self) -> bool:
        """Whether there is anything of ours."""
        return bool(any(self.cells.values()) or self.kept or self.grids or self.growth)

    @property
    def places(self) -> list[Key]:
        """Of cells with runs or kept numbers."""
        return list(
            dict.fromkeys([*(key for key, found in self.cells.items() if found), *(key for key, _ in self.kept)])
        )

    def seeds(self, method: str, dataset: str, at: float | None = None) -> list[int]:
        """How many a cell's metrics have, ascending: several where runs and kept numbers stand beside each other."""
        found = (self.measured(method, dataset, metric, at) for metric in self.table.metrics_of(dataset))
        return sorted({one.count for one in found if one is not None} or {len(self.reports(method, dataset, at))} - {0})

    def reports(self, method: str, dataset: str, at: float | None = None) -> Reports:
        """Of a cell; none where it was not run."""
        return self.cells.get((method, dataset, at), [])

    def measured(self, method: str, dataset: str, metric: str, at: float | None = None) -> Measured | None:
        """Mean and deviation over seeds: scores in %, seconds and `relative.*` as ratios to the first method's mean.

        None where no run has the metric, or where the first method was not run; a kept ratio is that of its own time.
        """
        kept = self.kept_at(method, dataset, metric, at)
        return self._of_runs(method, dataset, metric, at) if kept is None else kept.measured

    def raw(self, method: str, dataset: str, metric: str, at: float | None = None) -> Measured | None:
        """The same with seconds as seconds, bytes as bytes."""
        kept = self.kept_at(method, dataset, metric, at)
        return self._raw_of_runs(method, dataset, metric, at) if kept is None else kept.raw

    def kept_at(self, method: str, dataset: str, metric: str, at: float | None = None) -> KeptValue | None:
        """An earlier page's numbers, where they are of more seeds than there are runs now."""
        kept = self.kept.get(((method, dataset, at), metric))
        if kept is None:
            return None
        now = self._of_runs(method, dataset, metric, at)
        return kept if now is None or now.count < kept.measured.count else None

    def _of_runs(self, method: str, dataset: str, metric: str, at: float | None) -> Measured | None:
        found = self._raw_of_runs(method, dataset, metric, at)
        if found is None or not is_relative(metric):
            return found
        first = self.first(dataset)
        one = self._raw_of_runs(first, dataset, metric, at) if first is not None else None
        if one is None or one.mean <= 0:
            return None
        return Measured(
            found.mean / one.mean, None if found.deviation is None else found.deviation / one.mean, found.count
        )

    def on_graph(self, method: str, dataset: str, metric: str, graph: str) -> Measured | None:
        """The same of one of several graphs that were tested."""
        part, _, name = metric.partition(".")
        reports = [{"test": run["tests"].get(graph, {})} for run in self.reports(method, dataset)]
        values = [value for one in reports if part == "test" and (value := _read(one, f"test.{name}")) is not None]
        return _over_runs(values)

    def _raw_of_runs(self, method: str, dataset: str, metric: str, at: float | None) -> Measured | None:
        return _over_runs(list(self._by_seed(method, dataset, metric, at).values()))

    def _by_seed(self, method: str, dataset: str, metric: str, at: float | None) -> dict[int, float]:
        found = {report["seed"]: _read(report, metric) for report in self.reports(method, dataset, at)}
        return {seed: value for seed, value in found.items() if value is not None}

    def gap(self, one: str, other: str, dataset: str, metric: str, at: float | None = None) -> Gap | None:
        """One row above another: over the seeds that both ran, or of their means where runs are not at hand."""
        pair = [self.measured(method, dataset, metric, at) for method in (one, other)]
        if pair[0] is None or pair[1] is None:
            return None
        if not is_relative(metric) and not any(self.kept_at(name, dataset, metric, at) for name in (one, other)):
            above, below = (self._by_seed(name, dataset, metric, at) for name in (one, other))
            paired = [above[seed] - below[seed] for seed in above.keys() & below.keys()]
            if len(paired) > 1:
                error = statistics.stdev(paired) / math.sqrt(len(paired))
                return Gap(statistics.fmean(paired), error, len(paired))
        errors = [self.error(name, dataset, metric, at) for name in (one, other)]
        known = [error for error in errors if error is not None]
        return Gap(pair[0].mean - pair[1].mean, math.hypot(*known) if len(known) == 2 else None)

    def less_reference(self, method: str, dataset: str, metric: str, at: float | None = None) -> Gap | None:
        """A row's score above that of the table's reference; None of the reference itself and of what is no score."""
        reference = self.table.reference
        if reference is None or method == reference or not in_percent(metric):
            return None
        return self.gap(method, reference, dataset, metric, at)

    def error(self, method: str, dataset: str, metric: str, at: float | None = None) -> float | None:
        """Of a mean: deviation / √n; of a single run the median deviation of its column, None where there is none."""
        found = self.measured(method, dataset, metric, at)
        if found is None:
            return None
        if found.deviation is not None:
            return found.deviation / math.sqrt(found.count)
        points = self.table.axis.values if self.table.axis is not None else (None,)
        column = [self.measured(name, dataset, metric, point) for name in self.table.methods for point in points]
        # Times differ by orders of magnitude between rows, and their deviations with them.
        scale = [one.mean if is_relative(metric) else 1.0 for one in column if one is not None]
        spreads = [one.deviation / size for one, size in zip(filter(None, column), scale) if one.deviation is not None]
        return statistics.median(spreads) * (found.mean if is_relative(metric) else 1.0) if spreads else None

    def first(self, dataset: str) -> str | None:
        """The method whose costs are 1.0."""
        return next(iter(self.table.runs_of(dataset)), None)

    def compared(self, method: str, dataset: str, metric: str, at: float | None = None) -> Comparison:
        """Ours beside the published value."""
        ours = self.measured(method, dataset, metric, at)
        published = self.table.published_at(method, dataset, metric, at)
        kept = self.kept_at(method, dataset, metric, at)
        cell = Comparison(ours, published, earlier=None if kept is None else kept.date)
        if ours is None or published is None or self.table.datasets[dataset].stand_in:
            return cell
        if published.bound == "above":
            return replace(cell, holds=ours.mean > published.mean)
        return replace(cell, difference=difference(ours, published))


def difference(ours: Measured, published: Value) -> float | None:
    """(ours - published) / √(own deviation² + published deviation²); a deviation that is not known counts as 0."""
    width = math.hypot(ours.deviation or 0.0, published.deviation or 0.0)
    return (ours.mean - published.mean) / width if width > 0 else None


def _over_runs(values: list[float]) -> Measured | None:
    if not values:
        return None
    return Measured(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def is_relative(metric: str) -> bool:
    """Whether a metric is shown as a ratio to the first method's."""
    return metric.startswith(("seconds.", _RELATIVE))


def in_percent(metric: str) -> bool:
    """Whether reports hold a metric as a share that is shown in %."""
    part, _, name = metric.partition(".")
    return part in ("valid", "test") and name != "loss"


def _read(report: dict[str, Any], metric: str) -> float | None:
    """A metric of a report by its dotted path, in % where it is a score."""
    value: Any = report
    if metric == _EPOCH:
        epochs = report.get("epochs")
        return float(report["seconds"]["training"]) / epochs if epochs else None
    # A score is accuracy, which is micro-F1 where a node has one label, and micro-F1 itself where it has many.
    for part in metric.removeprefix(_RELATIVE).replace("micro_f1", "score").split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    if value is None or not math.isfinite(value):
        return None
    return float(value) * (100 if in_percent(metric) else 1)


def records(results: Results) -> list[dict[str, Any]]:
    """One flat row for every metric of every cell that was measured or published: what CSV and JSON hold."""
    table, found = results.table, []
    for dataset in table.datasets:
        for method in table.methods:
            for at in table.axis.values if table.axis is not None else (None,):
                for metric in table.metrics_of(dataset):
                    cell = results.compared(method, dataset, metric, at)
                    if cell.ours is None and cell.published is None:
                        continue
                    found.append(_record(results, cell, method, dataset, metric, at))
    return found


def _record(
    results: Results, cell: Comparison, method: str, dataset: str, metric: str, at: float | None
) -> dict[str, Any]:
    ours, published = cell.ours, cell.published
    of_one = results.raw(method, dataset, metric, at) if is_relative(metric) else None
    absolute = None if of_one is None else of_one.mean
    return {
        "dataset": dataset,
        "method": method,
        "at": at,
        "metric": metric,
        "unit": "%" if in_percent(metric) else "ratio" if is_relative(metric) else "",
        "ours": None if ours is None else ours.mean,
        "deviation": None if ours is None else ours.deviation,
        "seeds": 0 if ours is None else ours.count,
        "seconds": absolute if metric.startswith("seconds.") else None,
        "bytes": absolute if metric == "relative.peak_memory" else None,
        "published": None if published is None else published.mean,
        "published_deviation": None if published is None else published.deviation,
        "bound": None if published is None else published.bound,
        "difference": cell.difference,
        "holds": cell.holds,
        "missing": results.missing.get(dataset, ""),
        "recipe": None if ours is None else results.recipes.get((method, dataset, at)),
        "made": None if ours is None else results.made.get((method, dataset, at)),
        "earlier": cell.earlier,
        **_less_reference(results, method, dataset, metric, at),
    }


def _less_reference(results: Results, method: str, dataset: str, metric: str, at: float | None) -> dict[str, Any]:
    """How far a row is from the table's reference, over the seeds that both ran; nothing where the table has none."""
    if results.table.reference is None:
        return {}
    gap = results.less_reference(method, dataset, metric, at)
    parts = (None, None, 0) if gap is None else (gap.mean, gap.error, gap.seeds)
    return dict(zip(("less_reference", "less_reference_error", "paired_seeds"), parts))
