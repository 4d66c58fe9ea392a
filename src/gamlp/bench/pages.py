"""A table's page: ours, published, and the difference in units of deviation, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gamlp.bench.record import machine_name
from gamlp.bench.results import FORMULA, Comparison, Gap, Grid, Measured, Results, in_percent, is_relative, records
from gamlp.bench.tables import Value
from gamlp.io import write_json, write_text

_VERSIONED = ("gamlp", "torch", "numpy", "torch-geometric")
EMPTY = "–"
MARK = "†"  # of an earlier page
_MOST_NAMED = 6  # cells with fewer seeds; more are counted
TITLES = {
    "test.score": "test %",
    "valid.score": "validation %",
    "test.roc_auc": "test ROC-AUC %",
    "test.accuracy_at_threshold": "test accuracy at threshold %",
    "test.macro_f1": "test macro-F1 %",
    "test.micro_f1": "test micro-F1 %",
    "seconds.training": "training time",
    "seconds.epoch": "time an epoch",
    "seconds.preparation": "preparation time",
    "seconds.inference": "inference time",
    "peak_memory": "peak memory",
    "relative.peak_memory": "peak memory",
}


@dataclass(frozen=True)
class Stamp:
    """Of a page: the command that makes it, when and on what it was measured."""

    command: str
    date: str
    machine: str
    versions: dict[str, str]

    @classmethod
    def now(cls, command: str) -> Stamp:
        """Here and today."""
        versions = {"Python": platform.python_version()}
        for name in _VERSIONED:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:  # an extra that is not installed
                continue
        return cls(command, time.strftime("%Y-%m-%d"), machine_name(), versions)


def write_pages(results: Results, folder: Path, stamp: Stamp, figures: Sequence[str] = ()) -> list[Path]:
    """`<name>.md`, `.csv` and `.json` in the folder; `figures` are file names beside them that the page shows."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{results.table.name}.{ending}" for ending in ("md", "csv", "json")]
    write_text(paths[0], as_markdown(results, stamp, figures))
    write_text(paths[1], as_csv(results))
    write_json(paths[2], as_content(results, stamp))
    return paths


def as_csv(results: Results) -> str:
    """One line for every metric of every cell."""
    rows = records(results)
    text = io.StringIO()
    names = ["dataset", "method", "metric"] if not rows else list(rows[0])
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_content(results: Results, stamp: Stamp) -> dict[str, Any]:
    """All of it, for JSON."""
    table = results.table
    return {
        "table": table.name,
        "title": table.title,
        "source": table.source.model_dump(),
        **asdict(stamp),
        "earlier": _stamps(results),
        "origins": [asdict(one) for one in results.origins],
        "recipe": results.recipe,
        "difference": FORMULA,
        "rows": records(results),
        "grids": {name: asdict(grid) for name, grid in results.grids.items()},
        "growth": [{**asdict(one), "slope": one.slope} for one in results.growth],
        "tables": [{"title": title, "heads": heads, "rows": rows} for title, heads, rows in results.tables],
        "missing": results.missing,
        "footnotes": list(table.footnotes),
    }


def as_markdown(results: Results, stamp: Stamp, figures: Sequence[str] = ()) -> str:
    """The page people read."""
    table = results.table
    parts = [f"# {table.title}", _heading(results, stamp), *(f"![{table.title}]({name})" for name in figures)]
    if table.kind == "complexity":
        parts += [_formulas(results), *(() if results.tables else _slopes(results))]
    parts += [f"## {title}\n\n" + as_table(heads, rows) for title, heads, rows in results.tables]
    parts += [_grid(grid) for grid in results.grids.values()]
    if table.kind in ("grid", "efficiency", "cost", "curve"):
        parts += [_column(results, dataset) for dataset in table.datasets]
    else:
        parts += [f"{table.datasets[name].title}: {_not_at_hand(why)}." for name, why in results.missing.items()]
    if table.footnotes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in table.footnotes))
    return "\n\n".join(parts) + "\n"


def _heading(results: Results, stamp: Stamp) -> str:
    table = results.table
    kept = _stamps(results)
    # A page without numbers, or whose numbers are all of earlier ones, was measured by none of what runs here; and
    # runs of the record may be of other days and machines than the page.
    own = any(results.cells.values()) or results.tables or results.grids or results.growth
    verb = "Measured" if own and not results.origins else "Written"
    lines = [
        f"{verb} by `{stamp.command}` on {stamp.date}; {_machine(stamp.machine, stamp.versions)}.",
        *([f"Measured: {'; '.join(map(str, results.origins))}."] if results.origins else []),
        *(
            f"{MARK} Measured earlier by the same recipe, on {at['date']}; {_machine(at['machine'], at['versions'])}."
            for at in kept
        ),
        f"Published: {table.source.paper}, `{table.source.label}`.",
    ]
    if any(cell["ours"] is not None for cell in records(results)):
        lines.append("Ours: mean ± deviation (of the sample, n - 1) over as many seeds as stated.")
    if any(cell["difference"] is not None for cell in records(results)):
        lines.append(f"Difference: `{FORMULA}`; a deviation that is not known counts as 0.")
    if table.reference is not None and any(cell.get("less_reference") is not None for cell in records(results)):
        lines.append(
            f"Less {table.reference}: the difference of means ± its standard error, seed by seed where both rows ran "
            "the same seeds."
        )
    if fewer := _fewer(results):
        lines.append(fewer)
    return "\n".join(lines)


def _machine(machine: str, versions: dict[str, str]) -> str:
    return f"{machine}; " + ", ".join(f"{name} {number}" for name, number in versions.items())


def _stamps(results: Results) -> list[dict[str, Any]]:
    """Of the earlier pages whose numbers are shown."""
    dates = {results.earlier, *(cell["earlier"] for cell in records(results))}
    return [stamp for stamp in results.stamps if stamp["date"] in dates]


def _fewer(results: Results) -> str:
    """Cells with fewer runs than the table asks for: by name with the time of a run, or counted where they are many."""
    wanted, found = results.table.seeds, []
    for method, dataset, at in results.places:
        if (count := max(results.seeds(method, dataset, at), default=0)) < wanted:
            reports = results.reports(method, dataset, at)
            took = [sum(report["seconds"].values()) for report in reports]
            each = f"; a run takes {statistics.fmean(took):.0f} s" if took else ""
            place = results.table.datasets[dataset].title + ("" if at is None else f" at {at:g}")
            found.append(f"{method} on {place} ({count}{each})")
    if len(found) > _MOST_NAMED:
        return (
            f"{len(found)} of {len(results.places)} cells have fewer than {wanted} seeds: the time for this "
            "measurement was spent before. The column of seeds says how many; the same command goes on."
        )
    return f"Fewer than {wanted} seeds: {'; '.join(found)}." if found else ""


def _column(results: Results, dataset: str) -> str:
    """A dataset's section: its heading, why it is empty or what it stands for, and its table."""
    table, column = results.table, results.table.datasets[dataset]
    parts = [f"## {column.title}"]
    if column.note:
        where = f" Published: `{column.label}`." if column.label else ""
        parts.append(f"{column.note[0].upper()}{column.note[1:]}.{where}")
    if dataset in results.missing:
        parts.append(f"{_not_at_hand(results.missing[dataset])}: published values alone.")
    if table.axis is not None:
        return "\n\n".join([*parts, _curve(results, dataset)])
    if (first := results.first(dataset)) is not None:
        took = {name: results.raw(first, dataset, name) for name in table.metrics_of(dataset) if is_relative(name)}
        listed = [f"{_absolute(found, name)} of {TITLES[name]}" for name, found in took.items() if found is not None]
        parts += [f"1.0 is {first}: {', '.join(listed)}."] if listed else []
    return "\n\n".join([*parts, _grid_of_methods(results, dataset), *_by_graph(results, dataset)])


def _by_graph(results: Results, dataset: str) -> list[str]:
    """Scores of each graph that was tested, of a column that has several: methods as rows, a table a metric."""
    names = dict.fromkeys(
        name for method in results.table.methods for run in results.reports(method, dataset) for name in run["tests"]
    )
    parts = []
    for metric in results.table.metrics_of(dataset) if names else ():
        rows = []
        for method in results.table.methods:
            found = [results.on_graph(method, dataset, metric, name) for name in names]
            if any(one is not None for one in found):
                rows.append([method, *(ours_text(one, metric) for one in found)])
        if rows:
            parts.append(as_table([f"{TITLES[metric]}, each graph", *names], rows))
    return parts


def _absolute(found: Measured, metric: str) -> str:
    """What 1.0 of a relative metric is."""
    return f"{found.mean:.3g} s" if metric.startswith("seconds.") else f"{found.mean / 2**20:.0f} MiB"


def _grid_of_methods(results: Results, dataset: str) -> str:
    """Methods as rows; for every metric ours, and where there are any, published and difference."""
    table, missing = results.table, dataset in results.missing
    heads, shown = ["method"], []
    for metric in table.metrics_of(dataset):
        cells = {method: results.compared(method, dataset, metric) for method in table.methods}
        published = [cell.published for cell in cells.values() if cell.published is not None]
        fixed = _decimals(published)
        columns = [(f"{TITLES[metric]}, ours", [_marked(cell, metric, missing) for cell in cells.values()])]
        if published:
            listed = [published_text(cell.published, metric, fixed) for cell in cells.values()]
            columns.append((f"{TITLES[metric]}, published", listed))
        if any(cell.difference is not None or cell.holds is not None for cell in cells.values()):
            columns.append(("difference", [difference_text(cell) for cell in cells.values()]))
        gaps = [results.less_reference(method, dataset, metric) for method in cells]
        if any(gap is not None for gap in gaps):
            columns.append((f"less {table.reference}, points", [gap_text(gap) for gap in gaps]))
        heads += [head for head, _ in columns]
        shown += [texts for _, texts in columns]
    counts = [_range(results.seeds(method, dataset)) for method in table.methods]
    rows = [list(row) for row in zip(table.methods, *shown, counts)]
    return as_table(
        [*heads, "seeds"], [row for row in rows if any(text not in (EMPTY, "not at hand") for text in row[1:])]
    )


def _curve(results: Results, dataset: str) -> str:
    """Methods as rows, values of the axis as columns, and under them what the paper says of a point."""
    table = results.table
    assert table.axis is not None
    parts = []
    for metric in table.metrics_of(dataset):
        rows, listed = [], []
        for method in table.methods:
            cells = [results.compared(method, dataset, metric, at) for at in table.axis.values]
            counts = sorted({cell.ours.count for cell in cells if cell.ours is not None})
            missing = dataset in results.missing
            rows.append([method, *(_marked(cell, metric, missing) for cell in cells), _range(counts)])
            listed += [
                f"{method} at {at:g}: published {published_text(cell.published, metric, 1)}, {difference_text(cell)}."
                for at, cell in zip(table.axis.values, cells)
                if cell.published is not None
            ]
        head = f"{TITLES[metric]}; {table.axis.title}:"
        parts.append(as_table([head, *(f"{at:g}" for at in table.axis.values), "seeds"], rows))
        parts += listed
    return "\n\n".join(parts)


def _range(counts: Sequence[int]) -> str:
    """`10`, or `3–10` of several in order."""
    return EMPTY if not counts else f"{counts[0]}" + (f"–{counts[-1]}" if len(counts) > 1 else "")


def _marked(cell: Comparison, metric: str, missing: bool) -> str:
    """Ours, with a mark where an earlier page measured it."""
    return ours_text(cell.ours, metric, missing) + ("" if cell.earlier is None else f" {MARK}")


def _formulas(results: Results) -> str:
    given = results.table.options.get("formulas", {})
    rows = [
        [method, *(EMPTY if text == "-" else f"${text}$" for text in formulas.values())]
        for method, formulas in given.items()
    ]
    return "## Published analysis\n\n" + as_table(["method", "preparation", "training", "memory"], rows)


def _slopes(results: Results) -> list[str]:
    """For every metric: methods as rows, what grows as columns, slopes of log over log."""
    parts = []
    for metric in dict.fromkeys(one.metric for one in results.growth):
        of = {(one.method, one.quantity): one.slope for one in results.growth if one.metric == metric}
        methods, quantities = (list(dict.fromkeys(key[place] for key in of)) for place in (0, 1))
        cells = {key: EMPTY if slope is None else f"{slope:.2f}" for key, slope in of.items()}
        rows = [[method, *(cells.get((method, quantity), EMPTY) for quantity in quantities)] for method in methods]
        heads = ["method", *(f"with {quantity}" for quantity in quantities)]
        parts.append(f"## Measured growth of {TITLES[metric]}, exponents\n\n" + as_table(heads, rows))
    return parts


def _grid(grid: Grid) -> str:
    rows = [[name, *(f"{value:.2f}" for value in values)] for name, values in zip(grid.rows, grid.values)]
    caption = f"{grid.value_title}; rows: {grid.row_title}, columns: {grid.column_title}."
    return f"## {grid.title}\n\n{caption}\n\n" + as_table(
        [f"{grid.row_title} \\ {grid.column_title}", *grid.columns], rows
    )


def as_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    lines = [_line(heads), "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def ours_text(ours: Measured | None, metric: str, missing: bool = False) -> str:
    """`82.10 ± 0.52`."""
    if ours is None:
        return "not at hand" if missing else EMPTY
    digits = 2 if in_percent(metric) or abs(ours.mean) < 10 else 1
    if metric == "peak_memory":
        return f"{ours.mean / 2**20:.0f} MiB"
    tail = "" if ours.deviation is None else f" ± {ours.deviation:.{digits}f}"
    return f"{ours.mean:.{digits}f}{tail}"


def published_text(value: Value | None, metric: str, decimals: int) -> str:
    """`81.8 ± 0.5`, with as many decimals as the paper gives; `> 80.0` for a bound."""
    if value is None:
        return EMPTY
    if not in_percent(metric):
        decimals = 1
    tail = "" if value.deviation is None else f" ± {value.deviation:.{decimals}f}"
    return f"{'> ' if value.bound == 'above' else ''}{value.mean:.{decimals}f}{tail}"


def difference_text(cell: Comparison) -> str:
    """`+0.4` deviations, or whether a bound holds."""
    if cell.holds is not None:
        return "holds" if cell.holds else "does not hold"
    return EMPTY if cell.difference is None else f"{cell.difference:+.1f}"


def gap_text(gap: Gap | None) -> str:
    """`-0.51 ± 0.77`: a difference of means and its error."""
    if gap is None:
        return EMPTY
    return f"{gap.mean:+.2f}" + ("" if gap.error is None else f" ± {gap.error:.2f}")


def _decimals(values: Sequence[Value]) -> int:
    """Two where any published number has a second decimal, else one."""
    numbers = [number for value in values for number in (value.mean, value.deviation) if number is not None]
    return 2 if any(round(number, 1) != number for number in numbers) else 1


def _not_at_hand(reason: str) -> str:
    return f"The dataset cannot be had here ({reason})" if reason else "The dataset cannot be had here"
