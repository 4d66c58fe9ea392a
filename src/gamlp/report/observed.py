"""What an evaluation shows beside its scores, counted while its batches pass: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import WeightsByDegree, degree_bounds, weights_by_degree
from gamlp.graph import Graph
from gamlp.propagation import HopStore
from gamlp.report.ranking import Ranking
from gamlp.training import Bundle, ScoreCounts, best_seed, rows_of

MOST_DRAWN = 2000  # nodes on the page, drawn at random
MOST_MISTAKES = 200  # and the most confident mistakes beside them
MOST_CLASSES = 24  # of a confusion matrix; the rest is one row and one column
DEGREE_RANGES = 6
_NAMED = 5  # wrong labels that are named for a node with many


@dataclass(frozen=True)
class Frame:
    """What rows are counted by, the same for every seed.

    `place[c]` is a class's row in the confusion matrix: the largest classes have their own, the others share the last.
    `highs` are the largest degrees of the ranges, and `drawn` the rows that are listed whatever their answers are.
    `ranked` are the classes that have curves: of two the positive one, of more those that are named.
    """

    classes: tuple[str, ...]
    multi_label: bool
    rows: int
    named: tuple[int, ...]
    place: Array
    drawn: Array
    degrees: Array | None
    lows: Array
    highs: Array
    ranked: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        classes: tuple[str, ...],
        targets: Array,
        rows: Array,
        degrees: Array | None = None,
        *,
        most_classes: int = MOST_CLASSES,
        most_drawn: int = MOST_DRAWN,
        seed: int = 0,
        positive: int | None = None,
    ) -> Frame:
        """From the labels of the rows that will be scored, and the degrees of all nodes.

        `positive` of two classes is, unless it is given, the rarer one of these rows.
        """
        multi_label = targets.ndim == 2
        sizes = (targets > 0).sum(0) if multi_label else np.bincount(targets, minlength=len(classes))
        # One class too many is shown rather than called 'others'.
        some = len(classes) if len(classes) <= most_classes + 1 else most_classes
        largest = np.argsort(-sizes, kind="stable")[:some]
        named = np.sort(largest)
        place = np.full(len(classes), len(named))
        place[named] = np.arange(len(named))
        drawn = rows
        if len(rows) > most_drawn:
            drawn = np.random.default_rng(seed).choice(rows, most_drawn, replace=False)
        lows = highs = np.zeros(0, np.int64)
        if degrees is not None and len(rows):
            own = np.sort(degrees[rows])
            highs = degree_bounds(own, DEGREE_RANGES)
            begins = np.searchsorted(own, np.concatenate([[-1], highs[:-1]]), side="right")
            lows = own[begins]
        named_classes = tuple(int(one) for one in named)
        ranked = named_classes
        if len(classes) == 2 and not multi_label:
            ranked = ((0 if sizes[0] < sizes[1] else 1) if positive is None else positive,)
        return cls(classes, multi_label, len(rows), named_classes, place, np.sort(drawn), degrees, lows, highs, ranked)

    @property
    def others(self) -> int:
        """Classes without a row of their own in the confusion matrix."""
        return len(self.classes) - len(self.named)


class Tally:
    """Of one seed: by class, by degree, the confusion matrix; with `listed` also curves and the nodes that are shown.

    `sure` adds up the probabilities of the answers, where a node has one.
    """

    def __init__(self, frame: Frame, *, listed: bool = False, most_mistakes: int = MOST_MISTAKES) -> None:
        self.frame, self.listed, self.most_mistakes = frame, listed, most_mistakes
        self.counts = ScoreCounts(frame.multi_label, len(frame.classes))
        ranges = len(frame.highs)
        self.degree_right, self.degree_error, self.degree_rows = (np.zeros(ranges, np.int64) for _ in range(3))
        size = len(frame.named) + bool(frame.others)
        self.confusion = np.zeros((size, size), np.int64)
        self.ranking = Ranking(frame.ranked if listed else ())
        self.mistakes, self.sure = 0, 0.0
        self._drawn: list[dict[str, Array]] = []
        self._worst: dict[str, Array] | None = None

    def add(self, rows: Array, probabilities: Array, target: Array) -> None:
        """A batch: probabilities `[b, c]`, labels `[b]` or `[b, c]`."""
        right, error = self.counts.add(probabilities, target)
        mistaken = error > 0
        if not self.frame.multi_label:
            size = len(self.confusion)
            pair = self.frame.place[target] * size + self.frame.place[probabilities.argmax(1)]
            self.confusion += np.bincount(pair, minlength=size * size).reshape(size, size)
            self.sure += float(probabilities.max(1).sum(dtype=np.float64))
        self.mistakes += int(mistaken.sum())
        if self.frame.degrees is not None and len(self.frame.highs):
            of_range = np.searchsorted(self.frame.highs, self.frame.degrees[rows], side="left")
            np.add.at(self.degree_right, of_range, right)
            np.add.at(self.degree_error, of_range, error)
            np.add.at(self.degree_rows, of_range, 1)
        if self.listed:
            self.ranking.add(probabilities, target)
            self._list(rows, probabilities, target, mistaken)

    def class_scores(self) -> Array:
        """Accuracy of the rows of each class; with many labels its F1, 2·right / (2·right + wrong + missed)."""
        right, wrong, missed = self.counts.right, self.counts.wrong, self.counts.missed
        if self.frame.multi_label:
            return _share(2 * right, 2 * right + wrong + missed)
        return _share(right, right + missed)

    def degree_scores(self) -> Array:
        """Accuracy of each range of degrees; with many labels micro-F1."""
        twice = 2 if self.frame.multi_label else 1
        return _share(twice * self.degree_right, twice * self.degree_right + self.degree_error)

    def nodes(self) -> dict[str, Array]:
        """The drawn rows and the most confident mistakes (`worst` counts them from 0, -1 for the others), by row."""
        worst = self._worst or {}
        parts = [worst, *self._drawn] if worst else self._drawn
        if not parts:
            return {}
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        rank = np.full(len(found["row"]), -1)
        rank[: len(worst.get("row", ()))] = np.arange(len(worst.get("row", ())))
        _, first = np.unique(found["row"], return_index=True)  # a mistake that was drawn too is listed once
        return {**{name: values[first] for name, values in found.items()}, "worst": rank[first]}

    def _list(self, rows: Array, probabilities: Array, target: Array, mistaken: Array) -> None:
        drawn = np.isin(rows, self.frame.drawn, assume_unique=True)
        if drawn.any():
            self._drawn.append(self._seen(rows[drawn], probabilities[drawn], target[drawn]))
        if not mistaken.any():
            return
        seen = self._seen(rows[mistaken], probabilities[mistaken], target[mistaken])
        before = self._worst or {name: values[:0] for name, values in seen.items()}
        both = {name: np.concatenate([before[name], seen[name]]) for name in seen}
        order = np.lexsort((both["row"], -both["chance"]))[: self.most_mistakes]
        self._worst = {name: values[order] for name, values in both.items()}

    def _seen(self, rows: Array, probabilities: Array, target: Array) -> dict[str, Array]:
        """What the list says of nodes. `chance`: how sure the model was of its answer (its most wrong label)."""
        rows = np.asarray(rows, np.int64)
        if not self.frame.multi_label:
            best, each = probabilities.argmax(1), np.arange(len(rows))
            return {"row": rows, "true": target, "chosen": best, "chance": probabilities[each, best],
                    "own": probabilities[each, target]}  # fmt: skip
        true, chosen = target > 0.5, probabilities > 0.5
        error = true ^ chosen
        sure = np.maximum(probabilities, 1 - probabilities)
        most = np.where(error, sure, 0).max(1)
        return {
            "row": rows,
            "true": true.sum(1),
            "chosen": chosen.sum(1),
            "right": (true & chosen).sum(1),
            "chance": np.where(error.any(1), most, sure.min(1)),
            "extra": _surest(np.where(chosen & ~true, sure, 0)),
            "missed": _surest(np.where(true & ~chosen, sure, 0)),
        }


class Observed:
    """What an evaluation showed: counts for every seed, and the nodes of the best by validation.

    `graph` is that of the store, for ids and degrees; without it rows have their numbers as names.
    """

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self.degrees = degrees_of(graph)
        self.frame: Frame | None = None
        self.tallies: dict[int, Tally] = {}

    def watch(
        self, bundles: dict[int, Bundle], store: HopStore, rows: Array
    ) -> dict[int, Callable[[Array, Array, Array], None]]:
        """For every seed a function that is given its batches."""
        first = next(iter(bundles.values()))
        labels = store.labels
        assert labels is not None
        best = best_seed(bundles)
        positive = None if first.positive is None else first.classes.index(first.positive)
        self.frame = Frame.of(first.classes, labels.values[rows], rows, self.degrees, positive=positive)
        self.tallies = {seed: Tally(self.frame, listed=seed == best) for seed in bundles}
        return {seed: tally.add for seed, tally in self.tallies.items()}

    def nodes(self) -> dict[str, Array]:
        """Those that are listed, if any."""
        return next((tally.nodes() for tally in self.tallies.values() if tally.listed), {})


def degrees_of(graph: Graph | None) -> Array | None:
    """Of all nodes; None where the graph is not at hand or has several relations."""
    if graph is None:
        return None
    try:
        return graph.degrees()
    except GamlpError:
        return None


def listening(
    bundle: Bundle, graph: Graph | None, store: HopStore, device: torch.device | None = None
) -> WeightsByDegree | None:
    """Weights over hops by degree, of all stored rows or many of them; None where the graph is not at hand."""
    degrees = degrees_of(graph)
    if degrees is None:
        return None
    kept = store.kept
    rows = np.arange(store.manifest.nodes) if kept is None else np.asarray(kept)
    model = bundle.model().to(device or torch.device("cpu"))
    return weights_by_degree(model, rows_of(store, bundle.recipe, rows), degrees, device=device)


def _surest(values: Array) -> Array:
    """Columns of the greatest values above zero, in order; -1 where there are fewer than _NAMED."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :_NAMED]
    return np.where(np.take_along_axis(values, order, 1) > 0, order, -1)


def _share(part: Array, whole: Array) -> Array:
    """NaN where there is nothing to share."""
    found: Array = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return found
