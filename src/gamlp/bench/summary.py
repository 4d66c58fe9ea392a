"""The page that says in plain words what reproduces, what does not, and why."""

from __future__ import annotations

from gamlp.bench.claims import Verdict, claims, judge
from gamlp.bench.measure import results_of
from gamlp.bench.pages import Stamp
from gamlp.bench.tables import NAMES, Table, table_of
from gamlp.bench.work import Work

_HEAD = """# What reproduces, what does not

{stamp}

Each line is something the paper says, held against our own measurements; the numbers behind it are in the table's page.
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
        parts += [_told(verdict) for verdict in verdicts]
        parts += _notes(table, results.missing)
    return "\n\n".join(parts) + "\n"


def _told(verdict: Verdict) -> str:
    count = f" ({verdict.held} of {verdict.asked})" if verdict.asked > 1 else ""
    lines = [f"**{verdict.word.capitalize()}**{count}: {verdict.claim.says}"]
    if verdict.told:
        failed = "" if verdict.held == verdict.asked else "not so: " if verdict.held else ""
        lines.append(f"{failed}{'; '.join(verdict.told)}.")
    if verdict.claim.remark and verdict.held < verdict.asked:
        lines.append(verdict.claim.remark)
    return "  \n".join(lines)


def _notes(table: Table, missing: dict[str, str]) -> list[str]:
    if not missing:
        return []
    titles = ", ".join(table.datasets[name].title for name in missing)
    return [f"Not at hand: {titles}; their cells hold published values alone."]
