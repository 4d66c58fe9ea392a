"""Scores of rows of a store, counted over ranges of them: nobody holds all rows, and parts add up to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import DegreesByRow, Graph, TargetIds
from gamlp.io import Place, Ranges, State, TakeTally, named_under, part_under, row_ranges
from gamlp.propagation import HopStore
from gamlp.report import Frame, Observed, RowSurvey, Tally
from gamlp.run.prediction_table import asked_among, not_kept
from gamlp.run.seen_ids import SeenKey, among, read_seen
from gamlp.training import (
    Batches,
    Bundle,
    RankedScores,
    RowScores,
    ScoreCounts,
    SentBundles,
    best_seed,
    levels_for,
    logits_of,
    merge_ranked,
    reliability_of_levels,
    rows_of,
    said_and_true,
    state_of_ranked,
    to_probabilities,
)

_NODES = 1 << 20  # whose labels and roles are looked at at a time


@dataclass(frozen=True)
class SeenRows:
    """Rows that trained a model or chose it: `hashes` is the file of those of their ids, by `key`."""

    hashes: Place
    ids: TargetIds
    key: SeenKey

    @cached_property
    def _known(self) -> Array:
        found = read_seen(self.hashes)
        assert found is not None
        return found

    def mask(self, rows: Array) -> Array:
        """Which of these rows they are."""
        return among(self._known, self.key.hashes(self.ids, rows))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_known"}  # a task maps the file itself


class ScoredRows(Protocol):
    """Which rows of a store are scored, found range by range."""

    def find(self, store: HopStore, begin: int, end: int) -> Array:
        """Of the stored rows begin..end those that are scored: row numbers, ascending."""

    def count(self, store: HopStore, take: TakeTally) -> int:
        """How many there are, of all nodes; whose hops were not kept is missed."""


@dataclass(frozen=True)
class RowsOfPart:
    """Labelled rows of a part of the split (train, valid, test), or all `labelled` ones.

    `kept_alone`: rows whose hops were not kept are left out, not missed.
    `unheard`, with `labelled`: training rows, whose labels the model listens to, are left out too.
    """

    part: str
    seen: SeenRows | None = None
    kept_alone: bool = False
    unheard: bool = False

    def find(self, store: HopStore, begin: int, end: int) -> Array:
        kept = store.kept
        return self._among(store, np.arange(begin, end) if kept is None else np.asarray(kept[begin:end]))

    def _among(self, store: HopStore, rows: Array) -> Array:
        if not store.labelled or not (store.has_split or self.part == "labelled"):
            return rows[:0]
        every = len(rows) and rows[-1] - rows[0] == len(rows) - 1
        some = slice(int(rows[0]), int(rows[-1]) + 1) if every else rows
        chosen = asked_among(store, ("labelled",), some)
        if self.part != "labelled":
            chosen &= asked_among(store, (self.part,), some)
        elif self.unheard and store.has_split:
            chosen &= ~asked_among(store, ("train",), some)
        rows = rows[chosen]
        return rows if self.seen is None else rows[~self.seen.mask(rows)]

    def count(self, store: HopStore, take: TakeTally) -> int:
        if self.kept_alone:
            return 0
        ranges = row_ranges(store.manifest.nodes, _NODES)
        return sum(int(state["rows"]) for state in take(_CountWork(self, store), ranges, "rows"))


@dataclass(frozen=True)
class _CountWork:
    """Rows of a part among ranges of all nodes."""

    rows: RowsOfPart
    store: HopStore

    def __call__(self, ranges: Ranges) -> State:
        counts = [len(self.rows._among(self.store, np.arange(begin, end))) for begin, end in ranges]
        return {"rows": np.array(sum(counts))}


@dataclass(frozen=True)
class GivenRows:
    """Rows by their numbers, which whoever asks holds."""

    numbers: Array

    def find(self, store: HopStore, begin: int, end: int) -> Array:
        kept = store.kept
        stored = np.arange(begin, end) if kept is None else np.asarray(kept[begin:end])
        first, last = np.searchsorted(self.numbers, [stored[0], stored[-1] + 1])
        own = self.numbers[first:last]
        return own if kept is None else own[np.isin(own, stored, assume_unique=True)]

    def count(self, store: HopStore, take: TakeTally) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class SurveyWork:
    """How many rows are scored, range by range, of which classes and degrees; no hops are read."""

    rows: ScoredRows
    store: HopStore
    classes: int
    degrees: DegreesByRow | None

    def __call__(self, ranges: Ranges) -> State:
        found = RowSurvey(self.classes)
        for begin, end in ranges:
            rows = self.rows.find(self.store, begin, end)
            found.add(self.store.labels_at(rows), None if self.degrees is None else self.degrees[rows])
        return found.state()


@dataclass(frozen=True)
class ScoringWork:
    """Scores of the rows of some ranges for every seed; `places[i]` is that of range i's first row among all.

    `frame`: what is counted beside them, None: nothing.
    """

    rows: ScoredRows
    store: HopStore
    bundles: SentBundles
    scored: int
    best: int
    begins: Array = field(repr=False)
    places: Array = field(repr=False)
    frame: Frame | None = None

    def __call__(self, ranges: Ranges) -> State:
        parts = [self.rows.find(self.store, begin, end) for begin, end in ranges]
        rows = np.concatenate(parts)
        frame = self.frame
        if frame is not None:
            frame = frame.for_rows(rows, int(self.places[np.searchsorted(self.begins, ranges[0][0])]))
        with self.bundles.opened() as (bundles, device):
            found = SeedTallies(bundles, self.best, self.scored, frame)
            for seed, bundle in bundles.items() if len(rows) else ():
                read = rows_of(self.store, bundle.recipe, rows)
                batches = Batches(read, bundle.recipe.training.batch_size, device, memory=0)
                for batch, logits in logits_of(bundle.model().to(device), batches):
                    probabilities = to_probabilities(logits, bundle.multi_label).cpu().numpy()
                    found.add(seed, batch.rows, probabilities, batch.target.cpu().numpy())
        return found.state()


class SeedTallies:
    """All that is counted of scored rows: scores of every seed, tallies of the report, and of the best seed more."""

    def __init__(
        self,
        bundles: Mapping[int, Bundle],
        best: int,
        rows: int,
        frame: Frame | None = None,
        tallies: Mapping[int, Tally] | None = None,
    ) -> None:
        self.best = best
        self.scores = {
            seed: RowScores(rows, bundle.multi_label, bundle.positive_number) for seed, bundle in bundles.items()
        }
        if tallies is None:
            tallies = {} if frame is None else {seed: Tally(frame, listed=seed == best) for seed in bundles}
        self.tallies = dict(tallies)
        self.closer = Closer(bundles[best], rows)

    def add(self, seed: int, rows: Array, probabilities: Array, target: Array) -> None:
        """A batch of one seed."""
        self.scores[seed].add(probabilities, target)
        if seed in self.tallies:
            self.tallies[seed].add(rows, probabilities, target)
        if seed == self.best:
            self.closer.add(probabilities, target)

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        found = named_under("closer", self.closer.state())
        for seed, scores in self.scores.items():
            found |= named_under(f"{seed}/scores", scores.state())
        for seed, tally in self.tallies.items():
            found |= named_under(f"{seed}/tally", tally.state())
        return found

    def merge(self, state: State) -> None:
        """Add what was counted of other rows."""
        self.closer.merge(part_under(state, "closer"))
        for seed, scores in self.scores.items():
            scores.merge(part_under(state, f"{seed}/scores"))
        for seed, tally in self.tallies.items():
            tally.merge(part_under(state, f"{seed}/tally"))


class Closer:
    """Of one seed: every class, and whether probabilities mean what they say."""

    def __init__(self, bundle: Bundle, rows: int) -> None:
        self.classes, self.positive_name = bundle.classes, bundle.positive
        self.counts = ScoreCounts(bundle.multi_label, len(bundle.classes))
        self.positive = 1 if bundle.positive_number is None else bundle.positive_number
        self.said = RankedScores(levels_for(rows * (len(bundle.classes) if bundle.multi_label else 1)))

    def add(self, probabilities: Array, target: Array) -> None:
        self.counts.add(probabilities, target)
        self.said.add(*said_and_true(probabilities, target, self.positive))

    def state(self) -> State:
        return {
            **named_under("counts", self.counts.state()),
            **named_under("said", state_of_ranked([self.said])),
        }

    def merge(self, state: State) -> None:
        self.counts.merge(part_under(state, "counts"))
        merge_ranked([self.said], part_under(state, "said"))

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"classes": self.counts.class_table(self.classes)}
        if self.positive_name is not None:
            found["positive"] = self.positive_name
        if len(self.said):
            found["reliability"] = reliability_of_levels(self.said.levels()).as_json()
        return found


@dataclass(frozen=True)
class Counted:
    """Rows that were scored: what was known of them before, and what was counted."""

    survey: RowSurvey
    tallies: SeedTallies


def count_scores(
    bundles: Mapping[int, Bundle],
    sent: SentBundles,
    store: HopStore,
    rows: ScoredRows,
    take: TakeTally,
    observed: Observed | None = None,
) -> Counted:
    """Survey the rows, then score them for every seed; `observed` is told what its report shows."""
    first = next(iter(bundles.values()))
    best = best_seed(dict(bundles)) if len(bundles) > 1 else next(iter(bundles))
    empty = np.zeros(0, np.int64)
    ranges = store.ranges(rows_of(store, first.recipe, empty).row_bytes)
    survey = RowSurvey(len(first.classes))
    degrees = None if observed is None else observed.degrees
    for state in take(SurveyWork(rows, store, len(first.classes), degrees), ranges, "survey"):
        survey.merge(state)
    _check_kept(rows, store, survey.rows, take)
    frame = None if observed is None else observed.begin(bundles, survey)
    tallies = SeedTallies(bundles, best, survey.rows, tallies={} if observed is None else observed.tallies)
    places = np.cumsum(survey.of_ranges) - survey.of_ranges
    begins = np.array([begin for begin, _ in ranges], np.int64)
    # Ranges without rows stay where they are between others: places are those of a task's first range.
    work = ScoringWork(rows, store, sent, survey.rows, best, begins, places, frame)
    for state in take(work, ranges if survey.rows else (), "score"):
        tallies.merge(state)
    return Counted(survey, tallies)


def _check_kept(rows: ScoredRows, store: HopStore, found: int, take: TakeTally) -> None:
    """Refuse rows whose hops were not kept."""
    if store.kept is not None and rows.count(store, take) > found:
        raise not_kept(
            store, "those that are scored",
            hint="give the graph anew, gamlp evaluate RUN --graph GRAPH, or train with propagation.rows all",
        )  # fmt: skip


def seen_rows(hashes: Path | Place, graph: Graph) -> SeenRows:
    """What leaves out rows of a graph whose ids are among those of a file."""
    return SeenRows(Place.of(hashes).resolved(), TargetIds(graph), SeenKey.of(graph))
