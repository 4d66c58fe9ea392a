"""What a run shows → the facts that words are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import printable
from gamlp.explanation import SIGNALS, WeightsByDegree, label_branch
from gamlp.graph import Homophily, Labels
from gamlp.propagation import HopStore
from gamlp.report.observed import Frame, Tally
from gamlp.report.parts import clipped
from gamlp.report.ranking import Curve
from gamlp.report.unlabelled import LEVELS
from gamlp.report.words import ClassFound, Constant, Facts, Ranked, Score, score_name
from gamlp.training import Bundle, RunFolder, class_counts

_INGESTED = "ingest.json"  # what became of every column of a person's tables
# Reasons to leave a column out that the person gave, or that make it no feature in any case.
_ASKED = ("features are those of", "labels and split", "the split is by", "row numbers", "the schema has no")


@dataclass(frozen=True)
class Judged:
    """What was counted of scored rows: for every seed, with the `curves` of the best."""

    frame: Frame
    tallies: Mapping[int, Tally]
    best: int
    curves: Mapping[int, Curve]
    part: str
    training: Array | None  # how many training rows have each class
    base: float | None = None  # the score of the same answer for every node, where somebody knows it

    def facts(self) -> dict[str, Any]:
        """Those that every method has."""
        frame, tally = self.frame, self.tallies[self.best]
        counts, rows = tally.counts, frame.rows
        value = float(np.mean([one.counts.score for one in self.tallies.values()]))
        error = None if frame.multi_label else _error(value, rows)
        score = Score(self.part, rows, score_name(frame.multi_label), value, error, len(self.tallies))
        occurs = counts.right + counts.missed
        found = [
            ClassFound(
                _name(name), int(occurs[at]), int(counts.right[at]), self.training is None or self.training[at] > 0
            )
            for at, name in enumerate(frame.classes)
        ]
        return {
            "score": score,
            "constant": self._constant(value, occurs),
            "ranked": self._ranked(),
            "sure": None if frame.multi_label else tally.sure / max(1, rows),
            "found": found,
        }

    def _constant(self, value: float, occurs: Array) -> Constant | None:
        frame, counts = self.frame, self.tallies[self.best].counts
        if frame.multi_label:
            return (
                None if self.base is None else Constant("the same most frequent labels", self.base, value - self.base)
            )
        most = int(np.argmax(occurs if self.training is None else self.training))
        base = float(occurs[most] / frame.rows)
        # Of pairs of answers only those count that differ in being right (McNemar).
        won, lost = int(counts.right.sum() - counts.right[most]), int(counts.missed[most])
        error = math.sqrt(max(0.0, won + lost - (won - lost) ** 2 / frame.rows)) / frame.rows
        return Constant(f"the answer '{_name(frame.classes[most])}'", base, value - base, error)

    def _ranked(self) -> Ranked | None:
        if self.frame.multi_label or len(self.frame.classes) != 2 or len(self.curves) != 1:
            return None
        ((number, curve),) = self.curves.items()
        share = curve.positive / curve.rows
        return Ranked(_name(self.frame.classes[number]), share, curve.rows, curve.roc_auc, curve.average_precision)


def facts_of_run(
    run: RunFolder,
    bundles: Mapping[int, Bundle],
    best: int,
    store: HopStore,
    judged: Judged | None,
    *,
    weights: WeightsByDegree | None,
    unlabelled: Mapping[str, Any] | None,
    board: Mapping[str, Any] | None,
    agreement: Homophily | None,
    device: torch.device | None = None,
) -> Facts:
    """All that a trained run shows of itself."""
    bundle = bundles[best]
    report = bundle.report
    valid = None
    if report["valid"] and not bundle.multi_label:
        value, count = report["valid"]["score"], report.get("valid_rows") or 0
        valid = Score("valid", count, "accuracy", value, _error(value, count))
    rows: range | Array = range(store.manifest.nodes) if store.kept is None else np.asarray(store.kept)
    branch = label_branch(bundle, store, rows, device=device)
    member, epoch = _heaviest(report)
    stopped = {seed: one.report["stopped"] for seed, one in bundles.items()}
    return Facts(
        classes=len(bundle.classes),
        multi_label=bundle.multi_label,
        board=board,
        valid=valid,
        stopped={seed: why for seed, why in stopped.items() if why.startswith("the loss")},
        lines=[line for line in run.metrics() if line["seed"] == best and line.get("member") == member],
        epoch=epoch,
        flat=[] if weights is None else [said for one in SIGNALS if (said := weights.flat(one)) is not None],
        silent_labels=branch.rows if branch is not None and branch.silent else None,
        dropped=dropped_columns(run.path),
        agreement=None if agreement is None else (agreement.agree, agreement.chance, agreement.edges),
        sampled=agreement is not None and agreement.sampled,
        read_unlabelled=int(report.get("unlabelled_rows", 0)),
        **_predicted(unlabelled),
        **({} if judged is None else judged.facts()),
    )


def _heaviest(report: Mapping[str, Any]) -> tuple[int | None, int]:
    """Of a blend the member with the most weight, whose losses are looked at, and the epoch that is kept of it."""
    members = report.get("members")
    if not members:
        return None, report["epoch"]
    number = max(range(len(members)), key=lambda index: members[index]["weight"])
    return number, members[number]["epoch"]


def _predicted(unlabelled: Mapping[str, Any] | None) -> dict[str, Any]:
    if unlabelled is None:
        return {}
    found: dict[str, Any] = {"nodes": unlabelled["nodes"], "unlabelled": unlabelled["rows"]}
    levels = np.array([one["levels"] for one in unlabelled["classes"] if "levels" in one]).reshape(-1, len(LEVELS) + 1)
    if len(levels):
        found["levels"] = {
            f"with a probability of {100 * LEVELS[-2]:.0f} % or more": int(levels[:, -2:].sum()),
            f"with one below {100 * LEVELS[0]:.0f} %": int(levels[:, 0].sum()),
        }
    return found


def training_counts(bundle: Bundle, store: HopStore) -> Array | None:
    """How many training rows have each class: as the bundle says, or counted; None where nobody knows."""
    known = bundle.report.get("class_counts")
    if known is not None and len(known) == len(bundle.classes):
        return np.asarray(known, np.int64)
    labels, split = store.labels, store.split
    if labels is None or labels.classes != bundle.classes or split is None:
        return None
    return counts_of_rows(labels, split.train)


def counts_of_rows(labels: Labels, rows: Array) -> Array | None:
    """How many of these rows have each class; None where none has a label."""
    counts = class_counts(labels.values[rows[labels.known_at(rows)]], len(labels.classes))
    return counts if counts.any() else None


def dropped_columns(folder: Path) -> list[tuple[str, str]]:
    """Columns of node tables that could have been features and are not, and why."""
    try:
        uses = json.loads((folder / _INGESTED).read_bytes())["columns"]
        return [
            (_name(one["column"]), _name(one["about"]))
            for one in uses
            if one["use"] == "ignored" and one["table"].startswith("nodes") and not _asked(one["about"])
        ]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []  # a run on a graph, or a file of somebody else's


def _asked(why: str) -> bool:
    return "--" in why or why.startswith(_ASKED)


def _name(text: str) -> str:
    return clipped(printable(text))


def _error(value: float, rows: int) -> float | None:
    """Standard error of a share; of none or all right, as if one row more had been wrong and right."""
    if not rows:
        return None
    shrunk = (value * rows + 1) / (rows + 2)
    return math.sqrt(shrunk * (1 - shrunk) / rows)
