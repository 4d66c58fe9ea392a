"""The accuracy page: every figure comes from the runs; the paper's stand beside, with their source."""

from __future__ import annotations

from typing import Any

_MIXTURES = (
    "Validation rows of random splits are class-balanced, 30 of every class; test rows are all others, in which",
    "classes are as common as in the graph: the two scores are of different mixtures of classes. GCN on the same",
    "splits stands in [bench/co-purchase.md](bench/co-purchase.md).",
)
_NAMES = {"jk": "JK", "recursive": "R"}


def page(results: dict[str, Any], plan: dict[str, Any]) -> str:
    """Markdown of a measurement."""
    lines = [
        "# Accuracy",
        "",
        f"`python benchmarks/accuracy.py`, {results['date']}, {results['machine']}; {results['versions']}.",
        "",
        "Of the recipes that were shipped on that day: some have been found anew since, and today's are in the tables",
        "[citation](bench/citation.md) and [co-purchase](bench/co-purchase.md).",
        "Recipes were found by `gamlp tune` on validation rows alone (their files say how, the search logs are in",
        "[search](search)); test rows were read once for each run. Mean ± sample deviation in per cent.",
        f"Paper: {plan['source']}.",
        "",
    ]
    if table := results.get("table"):
        lines += _table(table, plan)
    if labels := results.get("labels"):
        lines += _labels(labels, plan)
    if twitch := results.get("twitch"):
        lines += _twitch(twitch, plan)
    return "\n".join(lines).rstrip() + "\n"


def _table(table: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    lines = ["## Test accuracy beside the paper's", ""]
    lines += ["| dataset | attention | ours, test | paper | ours - paper | our validation | runs | s a run |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, found in table.items():
        about = plan["datasets"][name]
        for attention, result in found.items():
            paper = about["paper"][attention]
            mean = 100 * result["test"]["mean"]
            row = f"{about['title']} | {_NAMES[attention]} | {_told(result['test'])}"
            splits = "random splits" if about["splits"] == "random" else "seeds"
            lines.append(
                f"| {row} | {paper:.1f} | {mean - paper:+.1f} "
                f"| {_told(result['valid'])} | {result['test']['runs']} {splits} | {result['seconds']:.0f} |"
            )
    return [*lines, "", *_MIXTURES, ""]


def _labels(labels: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    ways = list(plan["labels"]["ways"])
    lines = ["## The label branch: none, the paper's way, cross-fitted", ""]
    runs = plan["labels"]["seeds"]
    lines += [f"The JK recipe with nothing else changed (benchmarks/accuracy.yaml says what is), {runs} runs each.", ""]
    lines += [f"| dataset | {' | '.join(f'{way}, test | valid' for way in ways)} |", "|---" * (1 + 2 * len(ways)) + "|"]
    for name, found in labels.items():
        cells = [f"{_told(found[way]['test'])} | {_told(found[way]['valid'])}" for way in ways]
        lines.append(f"| {plan['datasets'][name]['title']} | {' | '.join(cells)} |")
    return [*lines, ""]


def _twitch(twitch: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    about = plan["twitch"]
    lines = ["## Twitch: countries never seen", ""]
    lines += [
        f"Trained on {about['train']}, chosen on {about['valid']}; each country is a graph of its own. No labels",
        "",
    ]
    lines[-2] += f" are propagated: these graphs have none to give. {about['seeds']} seeds."
    for metric, title in (("roc_auc", "ROC-AUC"), ("score", "Accuracy")):
        countries = [country.removeprefix("twitch-").upper() for country in about["test"]]
        lines += [f"| {title} | {' | '.join(countries)} |", "|---" * (1 + len(countries)) + "|"]
        for model, found in twitch.items():
            lines.append(f"| {model} | {' | '.join(_told(found[country][metric]) for country in about['test'])} |")
        lines.append("")
    return lines


def _told(value: dict[str, float]) -> str:
    return f"{100 * value['mean']:.1f} ± {100 * value['deviation']:.1f}"
