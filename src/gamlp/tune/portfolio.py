"""The portfolio on a graph: candidates that share one store of hops, trained and compared by validation rows alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.models import labels_used
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run import LOCAL, Resources, Source, prepare, resolve_recipe
from gamlp.training import Prepared, Said, metric_of, told
from gamlp.tune.candidates import Candidate, Role
from gamlp.tune.contender import Contender, read_as
from gamlp.tune.effort import Clock
from gamlp.tune.halving import halve
from gamlp.tune.leaderboard import LeaderboardRow
from gamlp.tune.repeated import FEW, MORE, can_repeat, prepared_splits
from gamlp.tune.uncertainty import Validated
from gamlp.tune.verdict import Finalist, Ruling, decide

FOLDER = "portfolio"  # of a run: a folder for each candidate
TIMES = 3.0  # of one whole training: what a portfolio may take
PLANNED = 2.6  # of these: what is counted is not quite what is measured
LEAST = 30.0  # seconds of work that are always allowed
_SMALL = 12.0  # seconds, counted, within which all candidates of a small graph are trained to their end
_SPLITS = 8.0  # and for further splits
_WEIGHED = ("balanced_accuracy", "macro_f1", "average_precision")  # metrics that may gain from balanced classes


@dataclass
class Portfolio:
    """Candidates on one graph. `folder` is the run's: hops are in it, and what candidates learn is in `portfolio`."""

    source: Source
    folder: Path
    candidates: Sequence[Candidate]
    clock: Clock
    valid: Source | None = None
    seed: int = 0
    resources: Resources = LOCAL
    progress: Progress = silent
    notes: list[str] = field(default_factory=list)
    contenders: list[Contender] = field(default_factory=list)
    left_out: list[LeaderboardRow] = field(default_factory=list)
    splits: list[Prepared] = field(default_factory=list)  # beside the graph's own
    repeated: set[str] | None = None  # names of those that were trained on these too; None: there are none
    _measured: dict[tuple[str, int], Finalist] = field(default_factory=dict, init=False)

    @property
    def graph(self) -> Graph:
        return self.source.opened

    @property
    def place(self) -> Path:
        return self.folder / FOLDER

    @cached_property
    def deepest(self) -> Recipe:
        """What is propagated for all of them: as many hops as any reads, of labels too where one reads them."""
        listening = [one.recipe for one in self.candidates if labels_used(one.recipe)]
        far = {"propagation.hops": max(one.recipe.propagation.hops for one in self.candidates)}
        if listening:
            far["propagation.label_hops"] = max(one.propagation.label_hops for one in listening)
            far["propagation.folds"] = max(one.propagation.folds for one in listening)
        recipe, notes = resolve_recipe(
            self.source, (listening or [self.candidates[0].recipe])[0].changed(far), self._valid_graph
        )
        self.notes += notes
        return recipe

    @property
    def _valid_graph(self) -> Graph | None:
        return None if self.valid is None else self.valid.opened

    def prepare(self) -> None:
        """Propagate what all of them read, once; candidates that cannot read this graph are left out."""
        self.prepared = prepare(
            self.graph, self.deepest, self.folder, valid_graph=self._valid_graph, resources=self.resources,
            progress=self.progress,
        )  # fmt: skip
        self.metric, note = metric_of(self.prepared)
        self.notes += [] if note is None else [note]
        seen: list[Recipe] = []
        for candidate in self.candidates:
            try:
                made = self.contender(candidate)
                made.weights  # noqa: B018  a model that cannot be made is known now
            except GamlpError as error:
                self.left_out.append(_row(candidate, state="left out", why=str(error)))
                continue
            recipe = made.prepared.recipe.changed({"about": ""})
            if recipe not in seen:  # some differ only in what this graph has not
                seen.append(recipe)
                self.contenders.append(made)

    def contender(self, candidate: Candidate) -> Contender:
        """A candidate as it reads this graph, in a folder of its own."""
        relations = self.deepest.relations
        if isinstance(relations.subsets, tuple):  # which ones differ depends on how far hops go: all read the same
            shared: dict[str, Any] = {"relations": relations.model_dump(mode="json")}
            candidate = candidate.changed(shared)
        recipe, _ = resolve_recipe(self.source, candidate.recipe, self._valid_graph)
        return Contender(
            replace(candidate, recipe=recipe), read_as(self.prepared, recipe), self.place / candidate.name, self.clock,
            self.resources, self.progress,
        )  # fmt: skip

    def train(self) -> None:
        """The simple answers, the reference to its end, then all others within what is allowed."""
        begun = self.clock.worked
        for one in self._of("simple"):
            one.train()
        with self.clock.noting("reference"):
            for one in self._of("reference"):
                one.train()
                one.settle()  # out of time: as it is
        reference = next((one for one in self._of("reference") if one.finished), None)
        self.clock.allow(work=begun + max(LEAST, TIMES * self.clock.noted("reference")))
        others = self._of("other")
        for one in others:
            if one.solved and not self.clock.over:
                one.train()
        expected = 100 if reference is None else reference.epochs
        counted = 0.0 if reference is None else reference.epochs * reference.epoch_seconds
        allowed = max(_SMALL, (PLANNED - 1) * counted)
        halve([one for one in others if not one.solved], expected, allowed, self.clock)
        if self.clock.over:
            self.notes.append("the time was over before all candidates were trained to their end")

    def _of(self, role: Role) -> list[Contender]:
        return [one for one in self.contenders if one.candidate.role == role]

    def repeat(self) -> None:
        """Where validation rows are few, the best again on further splits of training and validation rows."""
        rows = 0 if self.prepared.valid is None else len(self.prepared.valid)
        finished = [one for one in self.contenders if one.finished]
        if (
            rows >= FEW
            or not finished
            or self.clock.over
            or not can_repeat(self.graph, self.deepest, self._valid_graph)
        ):
            return
        ranked = sorted(finished, key=lambda one: (one.candidate.role != "simple", -self._gain(one)))
        kept: list[Contender] = []
        room = _SPLITS / MORE
        for one in ranked:  # the simple answers, then the best others as long as there is room for them
            room -= 0.0 if one.solved else one.epochs * one.epoch_seconds
            if room >= 0 or len(kept) < 2:
                kept.append(one)
        splits = prepared_splits(
            self.graph, self.prepared, self.folder, self.place / "splits", MORE, seed=self.seed,
            resources=self.resources, progress=self.progress,
        )  # fmt: skip
        for number, split in enumerate(splits, 1):
            again = [self._on_split(one, split, number) for one in kept]
            for one in again:
                if not self.clock.over:
                    one.train()
            if not all(one.finished or one.failed for one in again):
                break  # out of time: no split counts for some alone
            self.splits.append(split)
        if not self.splits:  # all are compared on the graph's own
            return
        self.repeated = {one.name for one in kept}
        compared = f"candidates are compared on {1 + len(self.splits)} splits of training and validation rows"
        luck = "the time was over before they were compared on further splits, and the choice may be luck"
        self.notes.append(f"validation rows are few ({rows}): {compared if self.splits else luck}")

    def _on_split(self, one: Contender, split: Prepared, number: int) -> Contender:
        prepared = read_as(split, one.prepared.recipe)
        return Contender(
            one.candidate, prepared, one.folder / f"split-{number}", self.clock, self.resources, self.progress
        )

    def _gain(self, one: Contender) -> float:
        return Validated(self.metric, (one.said(),), self.positive).gain

    @cached_property
    def positive(self) -> int | None:
        """Of two classes the rarer one, whose average precision is asked for."""
        return None if self.prepared.multi_label else self.prepared.train.label_counts.rarer

    def finalist(self, one: Contender) -> Finalist:
        """What a trained candidate says of the validation rows of all splits."""
        key = one.name, len(self.splits)
        if key not in self._measured:  # samples of the bootstrap are drawn once
            self._measured[key] = self._finalist(one)
        return self._measured[key]

    def _finalist(self, one: Contender) -> Finalist:
        said: list[Said] = [one.said()]
        for number, split in enumerate(self.splits, 1):
            again = self._on_split(one, split, number)
            if again.finished:
                said.append(again.said())
        return Finalist(one.candidate, Validated(self.metric, tuple(said), self.positive, self.seed))

    @property
    def finalists(self) -> list[Finalist]:
        """Candidates to choose from."""
        found = [one for one in self.contenders if one.finished]
        if not found:
            reasons = [one.failed.rstrip(".") for one in self.contenders if one.failed]
            raise GamlpError((reasons or ["no candidate came to its end"])[0], hint="allow more time")
        return [self.finalist(one) for one in found if self.repeated is None or one.name in self.repeated]

    def weigh_classes(self) -> None:
        """Where the metric asks for rare classes: the best candidate again, rare classes weighing more in its loss."""
        if self.metric not in _WEIGHED or self.clock.over:
            return
        best = max(self.finalists, key=lambda one: one.validated.rank).candidate
        if best.recipe.training.class_weights == "balanced":
            return
        other = replace(
            best.changed({"training.class_weights": "balanced"}), name=f"{best.name}-balanced", order=best.order + 1,
            title=f"{best.title}, classes weighed", role="other",
        )  # fmt: skip
        one = self.contender(other)
        if self.trained(one):
            self.let_in(one)

    def trained(self, one: Contender) -> bool:
        """Train a further candidate to its end, on all splits; false: it failed, or there was no time."""
        for each in (one, *(self._on_split(one, split, number) for number, split in enumerate(self.splits, 1))):
            each.train()
            if not each.finished:
                return False
        return True

    def let_in(self, one: Contender, finalist: Finalist | None = None) -> None:
        """Let a trained candidate be chosen; `finalist` where it is known what it says of all splits."""
        if one.name not in {other.name for other in self.contenders}:
            self.contenders.append(one)
        if self.repeated is not None:
            self.repeated.add(one.name)
        if finalist is not None:
            self._measured[one.name, len(self.splits)] = finalist

    def decide(self) -> Ruling:
        """The candidate to return."""
        return decide(self.finalists)

    def rows(self) -> list[LeaderboardRow]:
        """Everything that was tried, the best first; test rows are not read."""
        judged = {one.candidate.name: one.validated for one in self.finalists}
        found = []
        for one in self.contenders:
            validated = judged.get(one.name)
            row = _row(one.candidate, seconds=round(one.seconds, 3), parameters=one.weights)
            if one.failed:
                row = row.model_copy(update={"state": "failed", "why": one.failed})
            elif validated is None:
                row = row.model_copy(update={"state": "dropped", "valid": _finite(told(self.metric, one.standing()))})
            else:
                size = one.run.seed_path(one.seed).stat().st_size
                own = {"valid": validated.value, "error": validated.error, "bytes": size}
                row = row.model_copy(update=own)
            found.append(row)
        nothing = (-math.inf, -math.inf)
        found.sort(key=lambda row: judged[row.name].rank if row.name in judged else nothing, reverse=True)
        return [*found, *self.left_out]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _row(candidate: Candidate, **more: Any) -> LeaderboardRow:
    return LeaderboardRow(name=candidate.name, title=candidate.title, simple=candidate.role == "simple", **more)
