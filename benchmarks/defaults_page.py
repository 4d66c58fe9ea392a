"""The page of benchmarks/defaults.py: scores, the requirement judged row by row, what was chosen, what it cost."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
RUNS = 3  # seeds or splits of a finished measurement
ROUNDED = 1e-9  # a difference that is none
_HEAD = """
Every answer is a line of [the record](defaults.jsonl), and this page is made of it.

`fast` and `default` are `gamlp run FOLDER --preset …` with nothing else said but the metric, where it is not the usual
one: the folder holds a graph without its name, and no recipe that was tuned for a dataset is used. All contestants have
the same rows to train on, to validate by and to test on; validation rows choose everything; test rows are read once for
each answer.
"""
_SCORES = """
Accuracy in per cent (IMDB, where a film may have several genres: micro-F1), or ROC-AUC where it is said; mean ± sample
deviation over three seeds or splits; no deviation: the answer has no chance in it. Bold: the highest.
"""
_REQUIRED = """
Required: `default` is at least the best of the simple contestants (logistic regression and LightGBM on X and on hops,
GCN, GraphSAGE) less one deviation: that of `default` or of the contestant, whichever is larger. Which contestant is
the best is known only from test rows: nobody could have chosen it. Where runs are missing, splits that both have are
compared; a deviation is that of all runs.
"""
_SHIPPED = """
They are shipped, and were found by `gamlp tune` on validation rows of that very set; `default` does not read them.
Required: no set loses more than one point to its recipe.
"""
_SECONDS = """
One thread. Those of `gamlp run` are of the whole command: imports, hops, all candidates, predictions, report.
Contestants on hops share theirs: the first one of a set pays for them.
"""
_RULES = """
- Splits. Planetoid: the public split, three seeds. Computers, Photo, CS, Physics, digits: 20 rows a class train, 30
  validate, the rest test, three random splits. HGB: its test rows; a fifth of the others validates, three draws.
  Tables: their own split, three seeds. Cora with 1 and 5 labels a class: so many of the public training rows, and 5 a
  class of the public validation rows (somebody with few labels has no 500 to choose by), three draws; the public test
  rows.
- Twitch: seven countries put side by side as one graph without edges between them; DE trains, ENGB validates, rows of
  the other five test, together.
- Hops: X, PX, P²X with P = D⁻¹(A + I), side by side. X is as encoded by `gamlp ingest`. On HGB all relations are one
  graph, features of each type of nodes are columns of their own, and X is that of the target type.
- Logistic regression (scikit-learn): C of 10⁻³ to 10³, columns as they are or standardised by training rows.
- LightGBM: its own settings, rounds by early stopping (300 at most, patience 30), at least 1 or 20 rows in a leaf.
- GCN and GraphSAGE: the general recipes of `gamlp recipes`, rows of features summing to one, or standardised where at
  least a fifth of the features is not zero. On HGB both are R-GCN.
- Earlier default: one GAMLP with the recipe's own defaults, which is what `gamlp run` was on a graph of one's own.
- Majority: the shares of the classes among training rows, whatever the node.
"""


@dataclass(frozen=True)
class Result:
    """Runs of a contestant on a set, in points of 100."""

    scores: list[float]
    seconds: list[float]
    chosen: list[str]
    commits: list[str]
    wanted: int  # runs
    seeds: list[int]
    drawn: bool  # whether every seed has a split of its own

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def deviation(self) -> float:
        """Of the sample; a contestant without chance on a given split has one run and no deviation."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0


Results = dict[str, dict[str, Result]]  # by set, then contestant


def page(record: list[Line], plan: dict[str, Any]) -> str:
    """Markdown of a record."""
    results = collected(record, plan)
    if not results:
        return "# Defaults\n\nNothing has been measured yet.\n"
    parts = [_head(record), _scores(results, plan), _required(results, plan), _averages(results, plan)]
    parts += [_shipped(results, plan), _chosen(results, plan), _seconds(results, plan), ["## The rules", _RULES]]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def collected(record: list[Line], plan: dict[str, Any]) -> Results:
    """In the plan's order; sets and contestants that it does not have are left out."""
    found: Results = {}
    for name in plan["sets"]:
        for contestant in plan["contestants"]:
            lines = [line for line in record if (line["set"], line["contestant"]) == (name, contestant)]
            lines.sort(key=lambda line: line["seed"])
            if lines:
                values = {
                    key: [line[key] for line in lines] for key in ("score", "seconds", "chosen", "commit", "seed")
                }
                scores = [100 * score for score in values["score"]]
                runs = RUNS if has_chance(plan["sets"][name], plan["contestants"][contestant]) else 1
                lists = (scores, values["seconds"], values["chosen"], values["commit"])
                result = Result(*lists, runs, values["seed"], is_drawn(plan["sets"][name]))
                found.setdefault(name, {})[contestant] = result
    return found


def has_chance(about_set: dict[str, Any], about_contestant: dict[str, Any]) -> bool:
    """Whether another seed gives another answer: a contestant's own chance, or a split that the set draws."""
    return is_drawn(about_set) or bool(about_contestant.get("by_chance", True))


def is_drawn(about_set: dict[str, Any]) -> bool:
    """Whether a set's split is drawn by the seed."""
    return any(key in about_set for key in ("drawn", "per_class", "thinned"))


def means(one: Result, other: Result) -> tuple[float, float]:
    """Of two contestants on a set: of the splits that both have, while a measurement is going on."""
    both = set(one.seeds) & set(other.seeds)
    if not one.drawn or not both:
        return one.mean, other.mean
    first, second = (
        statistics.fmean(score for score, seed in zip(result.scores, result.seeds) if seed in both)
        for result in (one, other)
    )
    return first, second


def best_simple(found: dict[str, Result], plan: dict[str, Any]) -> tuple[str, Result] | None:
    """The best of the simple contestants of a set, by the mean over the splits that `default` has too."""
    simple = {name: result for name, result in found.items() if plan["contestants"][name]["role"] == "simple"}
    ours = found.get("default")
    by = {name: result.mean if ours is None else means(result, ours)[0] for name, result in simple.items()}
    return max(simple.items(), key=lambda one: by[one[0]]) if simple else None


def _head(record: list[Line]) -> list[str]:
    dates = sorted(line["date"] for line in record)
    (machine, versions), _ = Counter((line["machine"], line["versions"]) for line in record).most_common(1)[0]
    return [
        "# What a new user gets",
        "",
        f"`python benchmarks/defaults.py`, {dates[0]} to {dates[-1]}, {machine}; {versions}.",
        _HEAD,
    ]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heads = list(heads)
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def _titles(results: Results, plan: dict[str, Any]) -> dict[str, str]:
    """Contestants that some set has."""
    have = {name for found in results.values() for name in found}
    return {name: about["title"] for name, about in plan["contestants"].items() if name in have}


def _set_title(name: str, plan: dict[str, Any]) -> str:
    about = plan["sets"][name]
    return about["title"] + (", ROC-AUC" if about.get("metric") == "roc_auc" else "")


def _scores(results: Results, plan: dict[str, Any]) -> list[str]:
    titles = _titles(results, plan)
    rows = []
    for name, found in results.items():
        best = max(result.mean for result in found.values())
        cells = []
        for contestant in titles:
            result = found.get(contestant)
            cell = "" if result is None else _told(result)
            cells.append(f"**{cell}**" if result is not None and result.mean >= best - ROUNDED else cell)
        rows.append([_set_title(name, plan), *cells])
    words = ["## Test scores", _SCORES]
    return [*words, *_table(["set", *titles.values()], rows)]


def _required(results: Results, plan: dict[str, Any]) -> list[str]:
    rows, met, judged, whole = [], 0, 0, 0
    for name, found in results.items():
        best = best_simple(found, plan)
        if best is None or "default" not in found:
            continue
        ours, (rival, theirs) = found["default"], best
        verdict, fine = judged_against(ours, theirs)
        judged, met = judged + 1, met + fine
        if is_whole(found, plan):
            whole += 1
        else:
            verdict = f"so far {verdict}"
        rival_title = plan["contestants"][rival]["title"]
        commits = ", ".join(dict.fromkeys(ours.commits))
        rows.append([_set_title(name, plan), _told(ours), f"{rival_title}, {_told(theirs)}", verdict, commits])
    words = ["## Never worse than the simple thing", _REQUIRED]
    if not rows:
        return [*words, "`default` has not been measured yet.", ""]
    listed = [about for about in plan["sets"].values() if about.get("listed", True)]
    told = f"Met on {met} of the {judged} sets that have an answer of `default`. Measured whole, with all runs of all"
    told += f" simple contestants: {whole} of {len(listed)} sets; of the others a verdict is for what there is so far."
    heads = ["set", "`default`", "best simple one", "met", "measured at"]
    return [*words, told, "", *_table(heads, rows)]


def is_whole(found: dict[str, Result], plan: dict[str, Any]) -> bool:
    """Whether all runs of `default` and of every simple contestant are there."""
    asked = ["default", *(name for name, about in plan["contestants"].items() if about["role"] == "simple")]
    return all(name in found and len(found[name].scores) >= found[name].wanted for name in asked)


def judged_against(ours: Result, theirs: Result) -> tuple[str, bool]:
    """In words, and whether the requirement is met."""
    own, other = means(ours, theirs)
    difference, deviation = own - other, max(ours.deviation, theirs.deviation)
    if difference >= 0:
        return f"yes, {difference:.1f} above", True
    if difference >= -deviation - ROUNDED:
        return f"yes, {-difference:.1f} below, within the deviation of {deviation:.1f}", True
    return f"**no**, {-difference:.1f} below, deviation {deviation:.1f}", False


def _averages(results: Results, plan: dict[str, Any]) -> list[str]:
    rows = []
    for contestant, title in _titles(results, plan).items():
        both = [found for found in results.values() if contestant in found and "default" in found]
        if contestant == "default" or not both:
            continue
        pairs = [means(found["default"], found[contestant]) for found in both]
        ours, theirs = (statistics.fmean(values) for values in zip(*pairs))
        simple = plan["contestants"][contestant]["role"] == "simple"
        verdict = ("yes" if ours > theirs else "**no**") if simple else ""
        rows.append([title, str(len(both)), f"{theirs:.1f}", f"{ours:.1f}", f"{ours - theirs:+.1f}", verdict])
    if not rows:
        return []
    heads = ["contestant", "sets", "its mean", "mean of `default`", "`default` - it", "above, as required"]
    return ["## On the average of sets", "", "Over the sets that both have been measured on.", "", *_table(heads, rows)]


def _shipped(results: Results, plan: dict[str, Any]) -> list[str]:
    rows = []
    for name, found in results.items():
        if "shipped" in found and "default" in found:
            ours, theirs = means(found["default"], found["shipped"])
            difference = ours - theirs
            verdict = "yes" if difference >= -1 else "**no**"
            cells = [plan["sets"][name]["shipped"], _told(found["shipped"]), _told(found["default"])]
            rows.append([_set_title(name, plan), *cells, f"{difference:+.1f}", verdict])
    if not rows:
        return []
    words = ["## Beside recipes that were tuned for a set", _SHIPPED]
    return [*words, *_table(["set", "recipe", "it", "`default`", "`default` - it", "met"], rows)]


def _chosen(results: Results, plan: dict[str, Any]) -> list[str]:
    ours = [name for name in ("default", "best") if any(name in found for found in results.values())]
    if not ours:
        return []
    rows = [
        [_set_title(name, plan), *("; ".join(found[one].chosen) if one in found else "" for one in ours)]
        for name, found in results.items()
        if any(one in found for one in ours)
    ]
    return ["## What was chosen", "", *_table(["set", *(f"`{one}`" for one in ours)], rows)]


def _seconds(results: Results, plan: dict[str, Any]) -> list[str]:
    titles = _titles(results, plan)
    rows = []
    for name, found in results.items():
        cells = [f"{statistics.fmean(found[one].seconds):.0f}" if one in found else "" for one in titles]
        rows.append([_set_title(name, plan), *cells])
    words = ["## Seconds of the processor, a run", _SECONDS]
    return [*words, *_table(["set", *titles.values()], rows)]


def _told(result: Result) -> str:
    runs = len(result.scores)
    told = f"{result.mean:.1f} ± {result.deviation:.1f}" if runs > 1 else f"{result.mean:.1f}"
    return told if runs >= result.wanted else f"{told} ({runs} of {result.wanted} runs)"
