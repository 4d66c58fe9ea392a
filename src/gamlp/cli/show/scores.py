"""Scores, weights over hops and closing words, as people read them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.explanation import WeightsByDegree
    from gamlp.run import Trained

_NAMES = {"macro_f1": "macro-F1", "roc_auc": "ROC-AUC", "loss": "loss", "ece": "calibration error"}
_SPREAD = ("mean", "deviation")
_MOST_CLASSES = 20  # that are shown one by one


def score_name(multi_label: bool) -> str:
    return "micro-F1" if multi_label else "accuracy"


def spread(report: dict[str, Any], name: str, count: int) -> str:
    """`98.31 ± 0.20`, in per cent but for the loss; without ± for one seed."""
    factor, digits = (1, 4) if name == "loss" else (100, 2)
    mean = f"{factor * report['mean'][name]:.{digits}f}"
    return f"{mean} ± {factor * report['deviation'][name]:.{digits}f}" if count > 1 else mean


def base_name(multi_label: bool) -> str:
    """What the base rate is of."""
    return "the same most frequent labels for all" if multi_label else "the most frequent class alone"


def show_scores(parts: dict[str, dict[str, Any]], multi_label: bool, seeds: int, metric: str = "") -> None:
    """A table with a row for every metric and a column for every part: validation, test; base rates in brackets.

    `metric` is what validation went by: it comes first.
    """
    from gamlp.training import metric_words

    titles = {"score": score_name(multi_label), **_NAMES}
    if metric and any("metric" in part["mean"] for part in parts.values()) and metric != "log_loss":
        parts = {title: _by_name(part, metric) for title, part in parts.items()}
        titles = {metric: metric_words(metric), **titles}
    names = [name for name in titles if any(name in part["mean"] for part in parts.values())]
    rows = [
        (
            titles[name] + ("" if name == "loss" else ", %"),
            *(_with_base(part, name, seeds) if name in part["mean"] else "" for part in parts.values()),
        )
        for name in names
    ]
    over = f"mean ± deviation of {seeds} seeds" if seeds > 1 else ""
    display.table(over, *parts, rows=rows)
    if any(part.get("base") for part in parts.values()):
        display.say(f"in brackets: {base_name(multi_label)}")


def _by_name(part: dict[str, Any], metric: str) -> dict[str, Any]:
    """With what validation went by under its own name, as the scores of other rows have it."""
    both = {key: {metric if name == "metric" else name: value for name, value in part[key].items()} for key in _SPREAD}
    return {**part, **both}


def _with_base(part: dict[str, Any], name: str, seeds: int) -> str:
    """`83.10 (61.20)`: the score, and what a constant answer gets."""
    base, shown = part.get("base", {}).get(name), spread(part, name, seeds)
    return shown if base is None else f"{shown} ({base:.4f})" if name == "loss" else f"{shown} ({100 * base:.2f})"


def show_classes(report: dict[str, Any]) -> None:
    """Precision, recall and F1 of every class, or of the largest."""
    found = sorted(report.get("classes", []), key=lambda one: -one["rows"])
    if not found:
        return
    rows = [
        (one["class"], *(f"{100 * one[name]:.2f}" for name in ("precision", "recall", "f1")), one["rows"])
        for one in found[:_MOST_CLASSES]
    ]
    display.say("")
    display.table("class", "precision, %", "recall, %", "F1, %", "rows", rows=rows)
    if len(found) > len(rows):
        display.say(f"the {len(rows)} largest of {len(found)} classes")


def show_training(trained: Trained) -> None:
    """Validation by seed, and what else a person should know."""
    from gamlp.training import metric_words

    bundles = trained.bundles
    multi_label = next(iter(bundles.values())).multi_label
    show_notes(trained)
    names = {"score": f"{score_name(multi_label)}, %", "loss": "loss"}
    report = next(iter(bundles.values())).report
    if "metric" in report["valid"] and report["metric"] != "log_loss":  # what validation goes by, first
        names = {"metric": f"{metric_words(report['metric'])}, %", **names}
    rows: list[tuple[Any, ...]] = []
    for seed, bundle in bundles.items():
        report = bundle.report
        one = {"mean": bundle.valid}
        shown = [spread(one, name, 1) if report["valid"] else "none" for name in names]
        epochs = ("", "") if "solved" in report else (report["epoch"] or "", report["epochs"])
        rows.append((seed, *shown, *epochs))
    if len(rows) > 1 and trained.valid is not None:
        rows.append(("mean", *(spread(trained.valid, name, len(bundles)) for name in names), "", ""))
    first, *others = names.values()
    display.table("seed", f"validation {first}", *others, "best epoch", "epochs", rows=rows)
    if trained.valid is None:
        display.say("no validation rows: the weights of the last epoch are kept.")
        return
    if base := trained.valid.get("base"):
        display.say(f"{base_name(multi_label)}: {100 * base['score']:.2f} %")
    hot = [bundle.temperature for bundle in bundles.values() if bundle.temperature != 1]
    if hot:
        told = f"{min(hot):.2f}" if len(hot) == 1 else f"{min(hot):.2f} to {max(hot):.2f}"
        display.say(f"probabilities are calibrated by validation rows: temperature {told}")


def show_notes(trained: Trained) -> None:
    """Sentences about the training of a run."""
    for note in trained.notes:
        display.say(f"note: {note}.")
    for sentence in trained.broken:
        display.warn(sentence)


def show_weights(weights: WeightsByDegree) -> None:
    """A small table for features, and one for labels."""
    from gamlp.explanation import SIGNALS, grouped_hops

    for name, first in zip(SIGNALS, (0, weights.first_label_hop)):
        if getattr(weights.ranges[0], name) is None or weights.flat(name) is not None:
            continue  # flat ones are said in words, of a run and of an explanation
        columns = [grouped_hops(getattr(part, name), first) for part in weights.ranges]
        rows = [
            (part.text, part.rows, *(f"{weight:.2f}" for _, weight in shown))
            for part, shown in zip(weights.ranges, columns)
        ]
        display.say(f"\nHow far the model listens: mean weight of each hop of {name}, by number of neighbours")
        display.table("neighbours", "nodes", *(f"hop {hops}" for hops, _ in columns[0]), rows=rows)
    if weights.sampled:
        display.say(f"of {sum(part.rows for part in weights.ranges):,} nodes drawn at random")


def show_words(words: Sequence[str]) -> None:
    """Sentences that say whether to trust a result."""
    if words:
        display.say("\nWhether to trust it")
    for sentence in words:
        display.say(f"- {sentence}")


def show_next(*commands: list[str]) -> None:
    """Commands to copy."""
    display.say("\nNext:")
    for words in commands:
        display.say(f"  {shlex.join(words)}")
