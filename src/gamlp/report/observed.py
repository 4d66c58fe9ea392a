"""What an evaluation shows beside its scores, counted while its batches pass: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explanation import (
    MOST_ROWS,
    DegreeWeights,
    WeightsByDegree,
    bounds_of_counts,
    degree_weights,
    drawn,
)
from gamlp.graph import DegreesByRow, Graph, RowDegrees
from gamlp.io import Ranges, State, TakeTally, named_under, part_under, tally_here
from gamlp.propagation import HopStore
from gamlp.report.ranking import Ranking
from gamlp.report.survey import RowSurvey
from gamlp.training import Bundle, ScoreCounts, SentBundles, best_seed, rows_of

MOST_DRAWN = 2000  # nodes on the page, drawn at random
MOST_MISTAKES = 200  # and the most confident mistakes beside them
MOST_CLASSES = 24  # of a confusion matrix; the rest is one row and one column
DEGREE_RANGES = 6
_COUNTED = ("degree_right", "degree_error", "degree_rows", "confusion", "mistakes", "sure")
_NAMED = 5  # wrong labels that are named for a node with many


@dataclass(frozen=True)
class Frame:
    """What rows are counted by, the same for every seed.

    `place[c]` is a class's row in the confusion matrix: the largest classes have their own, the others share the last.
    `highs` are the largest degrees of the ranges, `drawn` the rows that are listed whatever their answers are, and
    `places` their places among all rows. `ranked` are the classes that have curves: of two the positive one, of more
    those that are named.
    """

    classes: tuple[str, ...]
    multi_label: bool
    rows: int
    named: tuple[int, ...]
    place: Array
    places: Array
    degrees: DegreesByRow | None
    lows: Array
    highs: Array
    ranked: tuple[int, ...] = ()
    drawn: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(
        cls,
        classes: tuple[str, ...],
        targets: Array,
        rows: Array,
        degrees: DegreesByRow | None = None,
        *,
        most_classes: int = MOST_CLASSES,
        most_drawn: int = MOST_DRAWN,
    ) -> Frame:
        """From the labels of the rows that will be scored, all of which are at hand."""
        survey = RowSurvey(len(classes))
        survey.add(targets, None if degrees is None else degrees[rows])
        found = cls.of_survey(
            classes, targets.ndim == 2, survey, degrees, most_classes=most_classes, most_drawn=most_drawn
        )
        return found.for_rows(rows, 0)

    @classmethod
    def of_survey(
        cls,
        classes: tuple[str, ...],
        multi_label: bool,
        survey: RowSurvey,
        degrees: DegreesByRow | None = None,
        *,
        most_classes: int = MOST_CLASSES,
        most_drawn: int = MOST_DRAWN,
        seed: int = 0,
        positive: int | None = None,
    ) -> Frame:
        """From what was counted of the rows that will be scored.

        `positive` of two classes is, unless it is given, the rarer one of these rows.
        """
        sizes = survey.sizes
        # One class too many is shown rather than called 'others'.
        some = len(classes) if len(classes) <= most_classes + 1 else most_classes
        largest = np.argsort(-sizes, kind="stable")[:some]
        named = np.sort(largest)
        place = np.full(len(classes), len(named))
        place[named] = np.arange(len(named))
        lows = highs = np.zeros(0, np.int64)
        if degrees is not None and survey.rows:
            highs = bounds_of_counts(survey.degrees, survey.nodes, DEGREE_RANGES)
            begins = np.searchsorted(survey.degrees, np.concatenate([[-1], highs[:-1]]), side="right")
            lows = survey.degrees[begins]
        named_classes = tuple(int(one) for one in named)
        ranked = named_classes
        if len(classes) == 2 and not multi_label:
            ranked = ((0 if sizes[0] < sizes[1] else 1) if positive is None else positive,)
        places = drawn(survey.rows, most_drawn, seed)
        return cls(classes, multi_label, survey.rows, named_classes, place, places, degrees, lows, highs, ranked)

    def for_rows(self, rows: Array, begin: int) -> Frame:
        """The same for some of the rows, the first of which is at place `begin` among all."""
        own = self.places[(self.places >= begin) & (self.places < begin + len(rows))]
        return replace(self, drawn=rows[own - begin])

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

    def state(self) -> State:
        """What was counted and listed, for `merge` of another."""
        plain = {name: getattr(self, name) for name in _COUNTED}
        lists = {"drawn": _joined(self._drawn), "worst": self._worst or {}} if self.listed else {}
        return {
            **{name: np.asarray(value) for name, value in plain.items()},
            "ranking": self.ranking.counts,
            **named_under("counts", self.counts.state()),
            **{name: values for part, one in lists.items() for name, values in named_under(part, one).items()},
        }

    def merge(self, state: State) -> None:
        """Add what was counted and listed of other rows."""
        self.counts.merge(part_under(state, "counts"))
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + state[name])
        self.mistakes, self.sure = int(self.mistakes), float(self.sure)
        self.ranking.merge(state["ranking"])
        if drawn_rows := part_under(state, "drawn"):
            self._drawn.append(drawn_rows)
        if worst := part_under(state, "worst"):
            self._keep_worst(worst)

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
        found = _joined(parts)
        rank = np.full(len(found["row"]), -1)
        rank[: len(worst.get("row", ()))] = np.arange(len(worst.get("row", ())))
        _, first = np.unique(found["row"], return_index=True)  # a mistake that was drawn too is listed once
        return {**{name: values[first] for name, values in found.items()}, "worst": rank[first]}

    def _list(self, rows: Array, probabilities: Array, target: Array, mistaken: Array) -> None:
        listed = np.isin(rows, self.frame.drawn, assume_unique=True)
        if listed.any():
            self._drawn.append(self._seen(rows[listed], probabilities[listed], target[listed]))
        if not mistaken.any():
            return
        self._keep_worst(self._seen(rows[mistaken], probabilities[mistaken], target[mistaken]))

    def _keep_worst(self, seen: dict[str, Array]) -> None:
        """Of these mistakes and those before, the most confident."""
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

    def begin(self, bundles: Mapping[int, Bundle], survey: RowSurvey) -> Frame:
        """A tally for every seed of the rows that were surveyed."""
        first, best = next(iter(bundles.values())), best_seed(dict(bundles))
        self.frame = Frame.of_survey(
            first.classes, first.multi_label, survey, self.degrees, positive=first.positive_number
        )
        self.tallies = {seed: Tally(self.frame, listed=seed == best) for seed in bundles}
        return self.frame

    def nodes(self) -> dict[str, Array]:
        """Those that are listed, if any."""
        return next((tally.nodes() for tally in self.tallies.values() if tally.listed), {})


def degrees_of(graph: Graph | None) -> RowDegrees | None:
    """Of any rows; None where the graph is not at hand, or its edges cannot be read."""
    if graph is None:
        return None
    found = RowDegrees.of(graph)
    try:
        found[np.array([block.start for one in found.edges.relations for block in one.blocks], np.int64)]
    except GamlpError:
        return None
    return found


@dataclass(frozen=True)
class ListeningWork:
    """Weights over hops of drawn rows, those of some ranges of stored rows. `places`: where they lie among these."""

    bundles: SentBundles
    store: HopStore
    degrees: DegreesByRow
    places: Array

    def __call__(self, ranges: Ranges) -> State:
        kept = self.store.kept
        begins = [np.searchsorted(self.places, bounds) for bounds in ranges]
        places = np.concatenate([self.places[first:last] for first, last in begins])
        rows = places if kept is None else np.asarray(kept[places])
        with self.bundles.opened() as (bundles, device):
            (bundle,) = bundles.values()
            source = rows_of(self.store, bundle.recipe, np.zeros(0, np.int64))
            return degree_weights(bundle.model().to(device), source, rows, self.degrees, device).state()


def listening(
    bundle: Bundle,
    graph: Graph | None,
    store: HopStore,
    device: torch.device | None = None,
    take: TakeTally = tally_here,
) -> WeightsByDegree | None:
    """Weights over hops by degree, of all stored rows or many of them; None where the graph is not at hand."""
    degrees = degrees_of(graph)
    if degrees is None:
        return None
    source, stored = rows_of(store, bundle.recipe, np.zeros(0, np.int64)), store.stored_rows
    places = drawn(stored, MOST_ROWS, 0)
    sent = SentBundles({0: bundle}, device or torch.device("cpu"))
    ranges = [one for one in store.ranges(source.row_bytes) if np.diff(np.searchsorted(places, one))[0]]
    found = DegreeWeights()
    for state in take(ListeningWork(sent, store, degrees, places), ranges, "weights over hops"):
        found.merge(state)
    return found.found(sampled=stored > MOST_ROWS)


def _joined(parts: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _surest(values: Array) -> Array:
    """Columns of the greatest values above zero, in order; -1 where there are fewer than _NAMED."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :_NAMED]
    return np.where(np.take_along_axis(values, order, 1) > 0, order, -1)


def _share(part: Array, whole: Array) -> Array:
    """NaN where there is nothing to share."""
    found: Array = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return found
