"""Scores, weights over hops and closing words, as people read them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from gamlp.cli.show import display

if TYPE_CHECKING:
    from gamlp.explanation import WeightsByDegree
    from gamlp.run import Trained

_NAMES = {"macro_f1": "macro-F1", "roc_auc": "ROC-AUC", "loss": "loss"}


def score_name(multi_label: bool) -> str:
    return "micro-F1" if multi_label else "accuracy"


def spread(report: dict[str, Any], name: str, count: int) -> str:
    """`98.31 ± 0.20`, in per cent but for the loss; without ± for one seed."""
    factor, digits = (1, 4) if name == "loss" else (100, 2)
    mean = f"{factor * report['mean'][name]:.{digits}f}"
    return f"{mean} ± {factor * report['deviation'][name]:.{digits}f}" if count > 1 else mean


def show_scores(parts: dict[str, dict[str, Any]], multi_label: bool, seeds: int) -> None:
    """A table with a row for every metric and a column for every part: validation, test."""
    names = [name for name in ("score", *_NAMES) if any(name in part["mean"] for part in parts.values())]
    titles = {"score": score_name(multi_label), **_NAMES}
    rows = [
        (
            titles[name] + ("" if name == "loss" else ", %"),
            *(spread(part, name, seeds) if name in part["mean"] else "" for part in parts.values()),
        )
        for name in names
    ]
    over = f"mean ± deviation of {seeds} seeds" if seeds > 1 else ""
    display.table(over, *parts, rows=rows)


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
        one = {"mean": report["valid"]}
        shown = [spread(one, name, 1) if report["valid"] else "none" for name in names]
        rows.append((seed, *shown, report["epoch"], report["epochs"]))
    if len(rows) > 1 and trained.valid is not None:
        rows.append(("mean", *(spread(trained.valid, name, len(bundles)) for name in names), "", ""))
    first, *others = names.values()
    display.table("seed", f"validation {first}", *others, "best epoch", "epochs", rows=rows)
    if trained.valid is None:
        display.say("no validation rows: the weights of the last epoch are kept.")


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
        if getattr(weights.ranges[0], name) is None:
            continue
        if (said := weights.flat(name)) is not None:
            display.say(f"\nHow far the model listens: {said}")
            continue
        columns = [grouped_hops(getattr(part, name), first) for part in weights.ranges]
        rows = [
            (part.text, part.rows, *(f"{weight:.2f}" for _, weight in shown))
            for part, shown in zip(weights.ranges, columns)
        ]
        display.say(f"\nHow far the model listens: mean weight of each hop of {name}, by number of neighbours")
        display.table("neighbours", "nodes", *(f"hop {hops}" for hops, _ in columns[0]), rows=rows)
    if weights.sampled:
        display.say(f"of {sum(part.rows for part in weights.ranges):,} nodes drawn at random")


def show_next(*commands: list[str]) -> None:
    """Commands to copy."""
    display.say("\nNext:")
    for words in commands:
        display.say(f"  {shlex.join(words)}")
