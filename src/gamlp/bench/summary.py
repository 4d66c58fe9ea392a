"""The page of results: what the paper says, one by one, with a verdict, a number and a picture; then the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gamlp.bench.claims import Claim, ClaimOutcome, Verdict, claims, judge, title_of
from gamlp.bench.figures import write_margins
from gamlp.bench.measure import results_of
from gamlp.bench.pages import EMPTY, TITLES, Stamp, as_table
from gamlp.bench.results import Results, in_percent, records
from gamlp.bench.tables import NAMES, table_of
from gamlp.bench.webpage import as_html
from gamlp.bench.work import Work
from gamlp.io import write_text

PAGES = "bench"  # folder of the tables' pages, beside the page of results
_PICTURES = "claims"
_MOST_TOLD = 4  # comparisons of a claim in words; its picture has all
_HEAD = """# Results

{stamp} The same page in one file, for a browser: [index.html](index.html).

Everything here is written by that command from [recorded runs](bench/runs) and the pages of the tables; how to measure
more is in [the guide](../bench.md). Scores are means over seeds on test rows, which were read once; settings were
chosen on validation rows alone.

A claim is held against every row and column that it speaks of. Its margin is by how much a comparison comes out as
claimed (below zero: it does not), ± the standard error of that: of differences seed by seed where both rows ran the
same seeds. A claim **holds** where every comparison does by twice its error, **does not hold** where one fails by more
than that, and is **not known** where none fails but some are within twice their error, or nothing was measured. A
single run is given the median deviation of its column; where there is none it decides nothing. Pictures show every
comparison ± twice its error."""


@dataclass(frozen=True)
class _Judged:
    """A claim's verdict, its number among the claims, and its picture, where there is one."""

    number: int
    verdict: Verdict
    picture: str | None


def write_summary(work: Work, folder: Path) -> list[Path]:
    """`README.md`, `index.html` and pictures of claims in the folder; tables' pages are in its folder `bench`."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []

    def draw(verdict: Verdict, name: str) -> str | None:
        drawn = write_margins(verdict, folder / _PICTURES, name)
        files.extend(drawn)
        return f"{_PICTURES}/{name}.png" if drawn else None

    (folder / _PICTURES).mkdir(exist_ok=True)
    page = as_summary(work, draw, folder)
    for path in set((folder / _PICTURES).glob("*.png")) - set(files):  # of claims that are no longer made
        path.unlink()
    write_text(folder / "README.md", page)
    write_text(folder / "index.html", as_html(page, folder))
    return [folder / "README.md", folder / "index.html", *files]


def as_summary(
    work: Work, draw: Callable[[Verdict, str], str | None] = lambda verdict, name: None, folder: Path | None = None
) -> str:
    """The page as Markdown. `draw` gives the path of a claim's picture; figures of tables are shown from `folder`."""
    stamp = Stamp.now("gamlp bench summary")
    versions = ", ".join(f"{name} {number}" for name, number in stamp.versions.items())
    said = f"Written by `{stamp.command}` on {stamp.date}; {stamp.machine}; {versions}."
    results = {name: results_of(table_of(name), work) for name in NAMES}
    judged = []
    for number, claim in enumerate(sorted(claims(), key=lambda claim: claim.own), 1):
        verdict = judge(claim, results[claim.table])
        judged.append(_Judged(number, verdict, draw(verdict, f"{number:02d}-{claim.table}")))
    parts = [_HEAD.format(stamp=said)]
    for title, own in (("What the paper says", False), ("What one expects of tables of our own", True)):
        some = [one for one in judged if one.verdict.claim.own is own]
        parts += [f"## {title}", _overview(some), *(part for one in some for part in _claim(one))]
    parts.append("## Tables")
    parts += [part for name in NAMES for part in _table(results[name], folder)]
    parts += _other_pages(folder)
    return "\n\n".join(parts) + "\n"


def _overview(judged: Sequence[_Judged]) -> str:
    rows = [
        [
            f"{one.number}. {one.verdict.claim.says}",
            f"**{one.verdict.word}**",
            _margin(one.verdict.weakest, one.verdict.claim),
            f"{one.verdict.held} of {one.verdict.asked}" if one.verdict.asked else EMPTY,
        ]
        for one in judged
    ]
    return as_table(["claim", "verdict", "least margin", "comparisons that hold"], rows)


def _margin(weakest: ClaimOutcome | None, claim: Claim) -> str:
    if weakest is None:
        return EMPTY
    error = "" if weakest.error is None else f" ± {weakest.error:.2f}"
    return f"{weakest.margin:+.2f}{error} {claim.unit}" + ("" if error else ", error not known")


def _claim(one: _Judged) -> list[str]:
    """A section: the sentence, its verdict, the comparison that decides, others in words, and all as a picture."""
    verdict, claim = one.verdict, one.verdict.claim
    table = table_of(claim.table)
    parts = [f"### {one.number}. {claim.says}"]
    where = f"Table: [{table.title}]({PAGES}/{table.name}.md)."
    lines = [f"**{verdict.word.capitalize()}**{_counted(verdict)} {where}"]
    if (weakest := verdict.weakest) is not None:
        lines.append(f"Least margin ({claim.margin_is}): {_margin(weakest, claim)}. {weakest.text}.")
        failed = [other.text for other in verdict.outcomes if other.holds is not True and other is not weakest]
        if failed:
            more = f"; and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
            lines.append(f"Also not shown to hold: {'; '.join(failed[:_MOST_TOLD])}{more}.")
    if claim.remark and verdict.word != "holds":
        lines.append(claim.remark.strip())
    parts.append("  \n".join(lines))
    return parts if one.picture is None else [*parts, f"![{claim.says}]({one.picture})"]


def _counted(verdict: Verdict) -> str:
    if not verdict.asked:
        return ": nothing of it was measured."
    if verdict.asked == 1:
        return "."
    unknown = verdict.asked - verdict.held - verdict.failed
    parts = [(verdict.held, "hold"), (verdict.failed, "do not"), (unknown, "not known")]
    return f" ({', '.join(f'{count} {word}' for count, word in parts if count)} of {verdict.asked} comparisons)."


def _table(results: Results, folder: Path | None) -> list[str]:
    """A section: its figure, how complete it is, every cell beside the paper's, and what is not at hand."""
    table = results.table
    parts = [f"### [{table.title}]({PAGES}/{table.name}.md)"]
    if not results.measured_any:
        reasons = "; ".join(dict.fromkeys(results.missing.values()))
        return [*parts, f"Not measured{': ' + reasons if reasons else ''}."]
    figure = f"{PAGES}/{table.name}.png"
    if folder is not None and (folder / figure).exists():
        parts.append(f"![{table.title}]({figure})")
    return [*parts, *_state(results), *_measured(results), *_cells(results), *_notes(results), *_kept(results)]


def _state(results: Results) -> list[str]:
    """How many cells have how many seeds."""
    seeds = [max(results.seeds(*place), default=0) for place in results.places]
    if not seeds:
        return []
    full = sum(count >= results.table.seeds for count in seeds)
    fewest = "" if full == len(seeds) else f"; the fewest are {min(seeds)}"
    return [f"{full} of {len(seeds)} measured cells have {results.table.seeds} seeds or more{fewest}."]


def _measured(results: Results) -> list[str]:
    """On what and when; of kept numbers another line says it."""
    return [f"Runs: {'; '.join(map(str, results.origins))}."] if results.origins else []


def _cells(results: Results) -> list[str]:
    """Every cell that was measured, a table a metric: ours, and the paper's and points apart where it has a value."""
    table = results.table
    if table.kind not in ("grid", "efficiency", "cost"):
        return []  # curves and heat maps are in the figure, and in numbers on the table's own page
    metrics = dict.fromkeys(metric for dataset in table.datasets for metric in table.metrics_of(dataset))
    return [part for metric in metrics if not metric.startswith("valid.") for part in _cells_in(results, metric)]


def _cells_in(results: Results, metric: str) -> list[str]:
    cells: dict[str, dict[str, str]] = {}
    beside = False
    for method in results.table.methods:
        for dataset, column in results.table.datasets.items():
            if metric not in results.table.metrics_of(dataset):
                continue
            pair = results.compared(method, dataset, metric)
            if pair.ours is None:
                continue
            spread = "" if pair.ours.deviation is None else f" ± {pair.ours.deviation:.1f}"
            text = f"{pair.ours.mean:.1f}{spread}"
            if pair.published is not None and not column.stand_in:
                text += f" ({pair.published.mean:.1f}, {pair.ours.mean - pair.published.mean:+.1f})"
                beside = True
            cells.setdefault(method, {})[dataset] = text
    if not cells:
        return []
    columns = [name for name in results.table.datasets if any(name in row for row in cells.values())]
    unit = "" if in_percent(metric) else f", {results.first(columns[0])} = 1.0"
    head = f"{TITLES[metric]}{unit}: ours" + (" (published, points apart)" if beside else "")
    rows = [[method, *(row.get(name, EMPTY) for name in columns)] for method, row in cells.items()]
    return [as_table([head, *(title_of(results, name) for name in columns)], rows)]


def _notes(results: Results) -> list[str]:
    if not results.missing:
        return []
    titles = ", ".join(title_of(results, name) for name in results.missing)
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


def _other_pages(folder: Path | None) -> list[str]:
    """Links to the other pages of the folder and of its folder `search`, by their headings."""
    if folder is None:
        return []
    found = [*sorted(folder.glob("*.md")), *sorted(folder.glob("search/*.md"))]
    links = []
    for path in found:
        with path.open(encoding="utf-8") as file:
            heading = file.readline().removeprefix("# ").strip()
        if path.name != "README.md":
            links.append(f"- [{heading}]({path.relative_to(folder)})")
    return ["## Other measurements", "\n".join(links)] if links else []
