"""Search over recipes on validation rows alone (Optuna): resumable in a SQLite study, shared by several processes."""

from __future__ import annotations

import csv
import io
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split, digest, fingerprint, view_name
from gamlp.io import Trust, locked, names_of, one_of_several, write_text
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore, relation_pair_of
from gamlp.recipe import Recipe, Space, starting_point, suggest
from gamlp.run import LOCAL, Resources, check_one_model, check_one_stage, prepare, prepare_split, propagate
from gamlp.training import (
    Machine,
    Prepared,
    by_time,
    check_trainable,
    choose_device,
    fit_blend,
    judged,
    metric_words,
    plan_of,
    prepare_graph,
    resolve_metric,
    resolve_relations,
    valid_rows,
)
from gamlp.tune.study import check_study, complete, finished, load_optuna, run_trial, study_at, wait_again

By = Literal["score", "loss"]
_SCORES = ("accuracy", "micro_f1")  # told without their names
_START = "start"  # marks the trial of the base recipe
Subset = tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """Graphs are one graph under one or several splits; every one is tried with every seed.

    `valid_graph` is another graph to validate on; `first` are recipes that are tried before the search chooses. With
    `select_subsets` each subset of relations that the base recipe gives is in or out: all of them at first. Trials are
    ranked by the base recipe's `training.metric`; `by` the validation loss, few rows tell recipes apart that share a
    score. The first trial is the base recipe itself, and no recipe that validates worse is found. `seed` draws the
    others: each by its number, so that a search that was interrupted chooses as one that was not. `trust` names models
    of one's own that the study may name.
    """

    graphs: list[Graph]
    base: Recipe
    space: Space
    folder: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    confirm: int = 5
    confirm_seeds: tuple[int, ...] = tuple(range(10))
    resources: Resources = LOCAL
    valid_graph: Graph | None = None
    first: tuple[Recipe, ...] = ()
    select_subsets: bool = False
    by: By = "score"
    seed: int = 0
    trust: Trust = None

    def run(self, trials: int, *, seconds: float | None = None, progress: Progress = silent) -> Found:
        """Up to `trials` trials in all, or so many seconds; then the best few again with more seeds."""
        load_optuna()
        check_one_model(self.base)
        check_one_stage(self.base, "a search")
        _ = self.measured  # without rows to measure by it is said now
        if not self.space and not self.select_subsets:
            raise GamlpError(
                "the space is empty: every trial would be the same", hint="give it keys, or --select-subsets"
            )
        path = self.folder / "study.db"
        with ExitStack() as stack:
            with locked(path):  # those who come at once find one study, begun once
                alone = stack.enter_context(one_of_several(path))
                study = stack.enter_context(study_at(path, self.seed))
                self._same_question(study)
                check_study(study, path, (self.base.model.name, *names_of(self.trust)))
                if alone:
                    wait_again(study)
                self._enqueue(study)
            begun = time.monotonic()
            while (done := len(finished(study))) < trials and (seconds is None or time.monotonic() - begun < seconds):
                run_trial(study, self._objective)
                best = f"best {_told(self.measured, abs(study.best_value))}" if complete(study) else ""
                progress("trials", done + 1, trials, "trials", best)
            if not complete(study):
                raise GamlpError("no trial came to its end", file=self.folder, hint="allow more trials or more time")
            return self._confirmed(study, progress)

    def _enqueue(self, study: Any) -> None:
        """The base recipe as the first trial, then those to be tried before the search chooses."""
        points = [
            starting_point(self.space, recipe) | starting_subsets(self.subsets, self._listed(recipe))
            for recipe in (self.base, *self.first)
        ]
        if not any(_is_start(trial) for trial in study.trials):
            study.enqueue_trial(points[0], user_attrs={_START: True})
        for point in points[1:]:
            study.enqueue_trial(point, skip_if_exists=True)

    @cached_property
    def measured(self) -> str:
        """What trials are ranked by: `loss`, or the metric of the base recipe."""
        check_trainable(self.graphs[0])
        labels, split = self.graphs[0].nodes.labels, self.graphs[0].nodes.split
        assert labels is not None and split is not None
        known = labels.known()
        train, valid = (labels.values[rows[known[rows]]] for rows in (split.train, split.valid))
        if self.valid_graph is not None and self.valid_graph.nodes.labels is not None:
            valid = self.valid_graph.nodes.labels.values[valid_rows(self.valid_graph)]
        if not len(valid):
            raise GamlpError(
                "a search goes by validation rows, and none has a label", hint="mark some rows 'valid', or give --valid"
            )
        name, _ = resolve_metric(self.base.training, train, valid)
        return "loss" if self.by == "loss" or name == "log_loss" else name

    @cached_property
    def subsets(self) -> tuple[Subset, ...]:
        """To choose from: those that differ as far as any trial looks; none where they are not chosen."""
        if not self.select_subsets:
            return ()
        graph, reads = self.graphs[0], self.base.propagation
        if not graph.heterogeneous or self.valid_graph is not None:
            lacks = "has one relation" if not graph.heterogeneous else "is validated on another"
            raise GamlpError(f"graph '{graph.name}' {lacks}: there are no subsets to choose", hint="do not ask for it")
        far = {f"propagation.{key}": self._most(key, getattr(reads, key)) for key in ("hops", "label_hops", "r")}
        recipe, _ = resolve_relations(graph, self.base.changed(far))
        assert isinstance(recipe.relations.subsets, tuple)
        return recipe.relations.subsets

    def _listed(self, recipe: Recipe) -> tuple[Subset, ...]:
        """The subsets that a recipe is tried with first: all, or those it lists."""
        listed, graph = recipe.relations.subsets, self.graphs[0]
        if not self.subsets or not isinstance(listed, tuple):
            return self.subsets
        return tuple(tuple(relation_pair_of(graph, name) for name in subset) for subset in listed)

    def _most(self, key: str, own: Any) -> Any:
        choice = self.space.get(f"propagation.{key}")
        given = [] if choice is None else choice.choices or [choice.high]
        return max([own, *given])

    def _objective(self, trial: Any) -> float:
        start = _is_start(trial)
        inside_space = {key: self.space[key] for key in starting_point(self.space, self.base)}
        recipe = suggest(trial, inside_space if start else self.space, self.base, self.trust)
        if start:
            recipe = self.base  # with what lies outside the space too
        if self.subsets:
            inside = suggest_subsets(trial, self.subsets)
            recipe = recipe.changed({"relations.subsets": inside})
            trial.set_user_attr("subsets", ", ".join("+".join(subset) for subset in inside))
        check_one_model(recipe)
        check_one_stage(recipe, "a search")
        trial.set_user_attr("recipe", recipe.explicit())
        if (before := _again(trial)) is not None:
            trial.set_user_attr("scores", before)
            return statistics.fmean(before)
        scores: list[float] = []

        def after(score: float) -> None:
            scores.append(score)
            trial.report(statistics.fmean(scores), len(scores))
            if not start and trial.should_prune():
                raise load_optuna().TrialPruned

        self.validate(recipe, self.seeds, after)
        trial.set_user_attr("scores", scores)
        return statistics.fmean(scores)

    def validate(self, recipe: Recipe, seeds: tuple[int, ...], after: Callable[[float], None]) -> None:
        """Validation score (or minus the loss) of every split with every seed, told as they come."""
        for seed in seeds:
            for number, graph in enumerate(self.graphs):
                prepared = self.prepared(recipe, graph, number)
                machine = Machine(choose_device(self.resources.device), self.resources.memory)
                valid = fit_blend(prepared, seed, machine)[1].valid
                after(-valid["loss"] if self.measured == "loss" else judged(valid, recipe.training))

    def prepared(self, recipe: Recipe, graph: Graph, number: int) -> Prepared:
        """Hops for one split; features are propagated once for all splits and trials that share an operator."""
        with locked(self.folder / "hops"):  # a process that shares the study waits, and finds them
            return self._prepared(recipe, graph, number)

    def _prepared(self, recipe: Recipe, graph: Graph, number: int) -> Prepared:
        if by_time(graph, recipe):
            return self._prepared_separately(recipe, graph, number)
        with closing(self.resources.open_engine()) as engine:
            graph, recipe = prepare_graph(graph, recipe, self.folder, engine)
        propagation = recipe.propagation
        if self.valid_graph is not None or recipe.training.setting == "inductive":
            return self._prepared_separately(recipe, graph, number)
        labels = digest(
            [propagation.label_hops, propagation.label_r, propagation.r, propagation.loops, propagation.folds]
            + ([propagation.directions] if propagation.directions != "in" else [])
        )
        rows = "all" if recipe.reads_unlabelled else "split"
        folder = self.folder / "hops" / f"labels-{number}-{labels}{'' if rows == 'split' else '-all'}"
        every = plan_of(self._with_all(recipe))
        if self.subsets and every.labels is not None:  # once, for all trials that read some of them
            kept = every.model_copy(update={"features": None, "rows": rows})
            propagate(graph, kept, folder, self.resources)
        return prepare_split(graph, recipe, self._features(recipe, graph), folder, rows=rows, resources=self.resources)

    def _with_all(self, recipe: Recipe) -> Recipe:
        """Hops of all subsets are shared by the trials that choose from them."""
        return recipe.changed({"relations.subsets": self.subsets}) if self.subsets else recipe

    def _prepared_separately(self, recipe: Recipe, graph: Graph, number: int) -> Prepared:
        """Training rows and validation rows of different graphs: hops of both for every operator and depth."""
        folder = self.folder / "hops" / f"apart-{number}-{digest(plan_of(recipe).model_dump())}"
        kept = recipe if self.valid_graph is not None else recipe.changed({"propagation.rows": "train+valid"})
        return prepare(graph, kept, folder, valid_graph=self.valid_graph, resources=self.resources)

    def _features(self, recipe: Recipe, graph: Graph) -> HopStore:
        """Training and validation rows of all splits, as deep as the space goes."""
        recipe = self._with_all(recipe)
        deepest = self._most("hops", recipe.propagation.hops)
        plan = plan_of(recipe.changed({"propagation.hops": deepest}), labels=False)
        plan = plan.model_copy(update={"rows": "all" if recipe.reads_unlabelled else "train"})
        made = [recipe.relations.model_dump(mode="json")] if graph.heterogeneous else []
        made += [recipe.features.model_dump(mode="json")] if recipe.features.structural == "alone" else []
        name = digest([plan.model_dump(exclude={"labels"}), *made])
        return propagate(self._union(graph), plan, self.folder / "hops" / f"features-{name}", self.resources)

    def _union(self, graph: Graph) -> Graph:
        """The graph, with all rows that any split trains or validates on marked as kept; test rows are not."""
        roles = np.zeros(graph.nodes.count, np.int8)
        for other in self.graphs:
            assert other.nodes.split is not None
            roles[other.nodes.split.rows("train", "valid")] = 1
        return graph.with_targets(split=Split(roles))

    def _confirmed(self, study: Any, progress: Progress) -> Found:
        """The best few with more seeds: the first place of many noisy trials is partly luck."""
        ranked = sorted(complete(study), key=lambda trial: -trial.value)
        ranked = ranked[: max(1, self.confirm)] + [
            trial for trial in ranked[max(1, self.confirm) :] if _is_start(trial)
        ]
        results: list[tuple[float, list[float], Any]] = []
        for index, trial in enumerate(ranked):
            key = f"confirmed-{trial.number}-{digest(list(self.confirm_seeds))}"
            scores: list[float] = study.user_attrs.get(key, [])
            if not scores and self.confirm:
                self.validate(self._recipe(trial), self.confirm_seeds, scores.append)
                study.set_user_attr(key, scores)
            scores = scores or trial.user_attrs["scores"]
            results.append((statistics.fmean(scores), scores, trial))
            progress("confirm", index + 1, len(ranked), "recipes")
        mean, scores, trial = max(results, key=lambda result: (result[0], _is_start(result[2])))
        start = next((abs(result[0]) for result in results if _is_start(result[2])), None)
        deviation = statistics.stdev(scores) if len(scores) > 1 else 0.0
        recipe = self._recipe(trial).changed({"about": self._about(study, trial, mean, deviation, len(scores))})
        return Found(recipe, abs(mean), deviation, len(scores), trials_of(study, self.measured), self.measured, start)

    def _recipe(self, trial: Any) -> Recipe:
        return Recipe.of(trial.user_attrs["recipe"], trust=(self.base.model.name, *names_of(self.trust)))

    def _about(self, study: Any, trial: Any, mean: float, deviation: float, runs: int) -> str:
        return (
            f"Found by gamlp tune on {self.graphs[0].name}: trial {trial.number} of {len(finished(study))}, "
            f"validation {_told(self.measured, abs(mean), deviation)} over {runs} runs; test rows were not read."
        )

    def _same_question(self, study: Any) -> None:
        """A study of other data, another base or another space cannot be gone on with."""
        space = {key: choice.model_dump() for key, choice in self.space.items()}
        base = {key: value for key, value in self.base.explicit().items() if key != "about"}
        question = {
            "graph": digest([_known(other) for other in [*self.graphs, self.valid_graph] if other is not None]),
            "recipe": digest([base, *self.subsets] if self.subsets else base),
            "space": digest(space),
            "seeds": list(self.seeds),
            "measure": self.by,
        }
        for name, value in question.items():
            if study.user_attrs.setdefault(name, value) != value:
                raise GamlpError(
                    f"the study there is of another {name}", file=self.folder, hint="choose another --study"
                )
            study.set_user_attr(name, value)


@dataclass(frozen=True)
class Found:
    """The best recipe, its validation score (or loss, as asked), and every trial.

    `start` is what the base recipe validates with, over as many runs; None where its trial did not come to its end.
    """

    recipe: Recipe
    score: float
    deviation: float
    runs: int
    trials: list[dict[str, Any]]
    measured: str = "accuracy"
    start: float | None = None

    @property
    def text(self) -> str:
        """How good, in words."""
        begun = "" if self.start is None else f" (the start recipe: {_told(self.measured, self.start)})"
        return f"{_told(self.measured, self.score, self.deviation)} over {self.runs} runs{begun}"

    def write(self, out: Path) -> Path:
        """The recipe, and beside it a .csv with a line for every trial, whose path is returned."""
        out.parent.mkdir(parents=True, exist_ok=True)
        names = list(dict.fromkeys(name for trial in self.trials for name in trial))
        lines = io.StringIO()
        writer = csv.DictWriter(lines, names, restval="")
        writer.writeheader()
        writer.writerows(self.trials)
        write_text(log := out.with_suffix(".csv"), lines.getvalue())
        write_text(out, self.recipe.explicit_yaml())
        return log


def trials_of(study: Any, measured: str) -> list[dict[str, Any]]:
    """The search log: state, validation score or loss, and settings of every trial."""
    return [
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            "valid loss" if measured == "loss" else "valid": None if trial.value is None else abs(trial.value),
            "runs": len(trial.intermediate_values),
            "seconds": None if trial.duration is None else round(trial.duration.total_seconds(), 1),
            **{key: value for key, value in trial.user_attrs.items() if key == "subsets"},
            **trial.params,
        }
        for trial in study.trials
    ]


def _told(measured: str, mean: float, deviation: float | None = None) -> str:
    if measured == "loss":
        return f"loss {mean:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")
    name = "" if measured in _SCORES else f"{metric_words(measured)} "
    return name + f"{100 * mean:.2f}" + ("" if deviation is None else f" ± {100 * deviation:.2f}") + " %"


def _known(graph: Graph) -> list[str]:
    return [fingerprint.structure(graph), fingerprint.targets(graph)]


def _again(trial: Any) -> list[float] | None:
    """What an earlier trial of the same recipe found: seeds are fixed, so it would find the same."""
    asked = trial.user_attrs["recipe"]
    same = (other for other in complete(trial.study) if other.user_attrs["recipe"] == asked)
    return next((list(other.user_attrs["scores"]) for other in same), None)


def _is_start(trial: Any) -> bool:
    return trial.user_attrs.get(_START) is True


def suggest_subsets(trial: Any, subsets: Sequence[Subset]) -> list[Subset]:
    """Each subset of relations in or out; where all others are out, the last is in unasked."""
    inside: list[Subset] = []
    for number, subset in enumerate(subsets):
        alone = not inside and number == len(subsets) - 1
        if alone or trial.suggest_categorical(_asked(subset), [True, False]):
            inside.append(subset)
    return inside


def starting_subsets(subsets: Sequence[Subset], inside: Sequence[Subset]) -> dict[str, bool]:
    """Those of a list in, the others out."""
    wanted = {frozenset(subset) for subset in inside}
    return {_asked(subset): frozenset(subset) in wanted for subset in subsets}


def _asked(subset: Subset) -> str:
    return f"subset {view_name(subset)}"
