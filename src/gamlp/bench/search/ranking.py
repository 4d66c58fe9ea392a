"""How well validation ranks test: the ten best recipes of a cell by validation, with test scores that are read here.

It runs after the choice is fixed: a cell that was not shipped is refused, and one whose test scores were read is not
searched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gamlp.bench.search.plan import SearchCell
from gamlp.bench.search.running import CellSearch
from gamlp.errors import GamlpError
from gamlp.io import write_json, write_text
from gamlp.recipe import Recipe

BEST = 10
RUNS = 5
Test = Callable[[SearchCell, Recipe, int], float]


def rank_cell(search: CellSearch, cell: SearchCell, test: Test) -> dict[str, Any]:
    """Validation and test scores of the best recipes, Spearman's ρ of both, and what the choice lost."""
    if not search.of_cell(cell.name, "shipped").exists():
        raise GamlpError(f"'{cell.name}' is not shipped yet: its choice could still change", hint="use --ship first")
    write_json(search.of_cell(cell.name, "tested"), True)  # before the first is read
    trials = search.trials(cell.name)
    best = trials.standing.ranked()[:BEST]
    valid = [trials.standing.means[one.number] for one in best]
    tested = [fmean(test(cell, trials.trials[one.number].recipe, run) for run in range(RUNS)) for one in best]
    return {
        "trials": [one.number for one in best],
        "runs": RUNS,
        "valid": valid,
        "test": tested,
        "spearman": spearman(valid, tested),
        "lost": max(tested) - tested[0],
    }


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The correlation of ranks, ties with their mean rank; None where one has no order."""
    ranks = [_ranks(np.asarray(values)) for values in (first, second)]
    if min(float(np.std(one)) for one in ranks) == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Any) -> Any:
    return np.array([((values < value).sum() + (values <= value).sum() - 1) / 2 for value in values])


def write_ranking(found: dict[str, dict[str, Any]], folder: Path) -> None:
    """uncertainty.json and the page beside it."""
    write_json(folder / "uncertainty.json", found)
    lines = [
        "# How sure the choice of recipes is",
        "",
        f"For each cell the {BEST} best recipes by validation rows, with the mean test score of {RUNS} runs each: the",
        "rank correlation (Spearman) of validation and test, and how much the choice by validation lost against the",
        "best of them by test. Test rows were read for this page alone, after recipes were shipped; none was chosen by",
        "it, and the cells here are not searched on. Written by `python benchmarks/search.py --uncertainty`.",
        "",
        "| cell | recipes | rank correlation | test of the choice | best test of these | lost |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in sorted(found.items()):
        rho = "–" if one["spearman"] is None else f"{one['spearman']:.2f}"
        scores = " | ".join(f"{100 * value:.2f}" for value in (one["test"][0], max(one["test"]), one["lost"]))
        lines.append(f"| {name} | {len(one['trials'])} | {rho} | {scores} |")
    write_text(folder / "uncertainty.md", "\n".join(lines) + "\n")
