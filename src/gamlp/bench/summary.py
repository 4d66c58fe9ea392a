"""The page that holds what the paper says against what was measured, in plain words."""

from __future__ import annotations

from gamlp.bench.claims import Verdict, claims, judge, title_of
from gamlp.bench.measure import results_of
from gamlp.bench.pages import EMPTY, TITLES, Stamp, as_table
from gamlp.bench.results import Results, in_percent, records
from gamlp.bench.tables import NAMES, PaperTable, table_of
from gamlp.bench.work import Work

_HEAD = """# What reproduces, what does not

{stamp}

Each line is something the paper says, or that one expects of a table of ours, held against our own measurements; the
numbers behind it are in the table's page.
Scores are means over seeds on test rows, which were read once; settings were chosen on validation rows alone.
"""


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
    heads = [f"{TITLES[metric]}: ours, published, points apart", *(title_of(results, name) for name in columns)]
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
