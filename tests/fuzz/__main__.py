"""Draw cases for so long or so many, and say what became of them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.fuzz.families import FAMILIES, run_one
from tests.fuzz.harness import VERDICTS, Verdict


def names(shares: dict[str, int]) -> Iterator[str]:
    """tables:0, tables:1, … folders:0, …: each family by its share."""
    done: Counter[str] = Counter()
    for _ in count():
        for family, share in shares.items():
            for _ in range(share):
                yield f"{family}:{done[family]}"
                done[family] += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=sys.maxsize)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="pass over so many first")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--only", help="one case, such as tables:17")
    parser.add_argument("--keep", type=Path, help="folder for the files of that one")
    parser.add_argument("--report", type=Path, help="JSON to write")
    parser.add_argument("--join", type=Path, nargs="+", help="reports to make a page of, and no cases")
    parser.add_argument("--page", type=Path, default=Path("docs/results/fuzz.md"), help="that page; JSON beside it")
    asked = parser.parse_args()
    if asked.join:
        write_page([json.loads(report.read_text()) for report in asked.join], asked.page)
        return 0
    if asked.only:
        print(run_one(asked.only, asked.seed, asked.keep))
        return 0
    shares = {name: one.share for name, one in FAMILIES.items() if not asked.family or name in asked.family}
    ends = time.monotonic() + 60 * asked.minutes
    begun, tally, bad, drawn = time.monotonic(), dict[str, Counter[str]](), list[Verdict](), names(shares)
    for _ in range(asked.start):
        next(drawn)
    left = asked.cases
    # Processes, not threads: each forks commands of its own and waits for them.
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as workers:
        while left > 0 and time.monotonic() < ends:
            some = [next(drawn) for _ in range(min(left, 100))]
            left -= len(some)
            for verdict in workers.map(partial(run_one, seed=asked.seed), some):
                tally.setdefault(verdict.name.partition(":")[0], Counter())[verdict.verdict] += 1
                if not verdict.good:
                    bad.append(verdict)
                    print(
                        f"{verdict.name}: {verdict.verdict}: {verdict.why}\n  gamlp {' '.join(verdict.arguments)}",
                        flush=True,
                    )
            total = sum(tally.values(), Counter())
            print(
                f"{total.total():,} cases, {len(bad)} bad, {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            if asked.report:
                asked.report.write_text(_report(asked.seed, tally, bad, time.monotonic() - begun), encoding="utf-8")
    print(_table(tally))
    return int(bool(bad))


def _table(tally: dict[str, Counter[str]]) -> str:
    lines = [f"{'':48}" + "".join(f"{family:>12}" for family in tally) + f"{'all':>12}"]
    for verdict in VERDICTS:
        counts = [one[verdict] for one in tally.values()]
        lines.append(f"{verdict:48}" + "".join(f"{number:>12,}" for number in [*counts, sum(counts)]))
    return "\n".join(lines)


def _report(seed: int, tally: dict[str, Counter[str]], bad: list[Verdict], seconds: float) -> str:
    found = {family: {verdict: one[verdict] for verdict in VERDICTS} for family, one in tally.items()}
    total = sum(tally.values(), Counter[str]())
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    content = {
        "commit": head.stdout.strip(),
        "seed": seed,
        "cases": total.total(),
        "seconds": round(seconds),
        "all": {verdict: total[verdict] for verdict in VERDICTS},
        "families": found,
        "bad": [{"case": one.name, "verdict": one.verdict} for one in bad],
    }
    return json.dumps(content, indent=2) + "\n"


def write_page(reports: list[dict[str, Any]], page: Path) -> None:
    """Counts of all reports together, and each case that was not good by its name."""
    families = list(dict.fromkeys(name for report in reports for name in report["families"]))
    parts = [f"{report['cases']:,} at {report['commit']}" for report in reports]
    lines = [
        "# Fuzz",
        "",
        f"{sum(report['cases'] for report in reports):,} cases: spoiled tables, folders, bundles, recipes, options and",
        "studies for the verbs that read them (`tests/fuzz`). What is accepted is compared with an oracle: tables with",
        "what csv, pandas and scipy make of them, folders with the answers of sound ones. `make fuzz MINUTES=30` draws",
        f"others. Cases by commit, one after the other: {', '.join(parts)}.",
        "",
        f"| | {' | '.join(families)} | all |",
        f"|---|{'---:|' * (len(families) + 1)}",
    ]
    for verdict in VERDICTS:
        counts = [sum(report["families"].get(name, {}).get(verdict, 0) for report in reports) for name in families]
        lines.append(f"| {verdict} | {' | '.join(f'{count:,}' for count in counts)} | {sum(counts):,} |")
    lines += ["", "Not good, each looked at:", ""]
    bad = [
        f"- `{one['case']}` at {report['commit']}: {one['verdict']}" + (f" ({one['note']})" if "note" in one else "")
        for report in reports
        for one in report["bad"]
    ]
    page.write_text("\n".join([*lines, *(bad or ["- none"])]) + "\n", encoding="utf-8")
    page.with_suffix(".json").write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
