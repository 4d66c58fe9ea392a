"""What more time buys: a search around the best candidates, more seeds of the best, and a blend of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gamlp.models import blend_recipe
from gamlp.recipe import Choice, Recipe, Space, load_space, starting_point, suggest
from gamlp.training import blended, bundle_of, mixed, picks
from gamlp.tune.candidates import Candidate
from gamlp.tune.portfolio import Portfolio
from gamlp.tune.study import check_study, complete, finished, load_optuna, run_trial, study_at, wait_again
from gamlp.tune.verdict import Finalist

_SEARCH, _SEEDS = 0.65, 0.8  # of the time: when they end
_STARTS = 3  # candidates that the search begins at
_MOST_TRIALS = 500
_KEPT = 5  # trials, the best ones, that may be chosen or blended
_MORE_SEEDS = 4
_MEMBERS = 12  # of which a blend is made


def improve(work: Portfolio) -> None:
    """Both, each for its share of the time that is given."""
    work.clock.allow(_SEARCH)
    search(work)
    work.clock.allow(_SEEDS)
    more_seeds(work)


def search(work: Portfolio) -> None:
    """Trials of settings around the best candidates, which are the first trials; the best few may be chosen."""
    starts = _trained(work)[:_STARTS]
    if not starts or work.clock.over:
        return
    path, space = work.place / "study.db", _reachable(work)
    with study_at(path, work.seed) as study:
        check_study(study, path, None)
        wait_again(study)  # whoever writes the run is alone with it
        for one in starts:
            study.enqueue_trial({"start": one.name, **starting_point(space, one.recipe)}, skip_if_exists=True)
        try:
            while not work.clock.over and (done := len(finished(study))) < _MOST_TRIALS:
                run_trial(study, lambda trial: _objective(work, trial, starts, space))
                work.progress("search", done + 1, None, "trials")
        except _OutOfTime:
            pass  # its trial waits
        best = sorted(complete(study), key=lambda trial: (-trial.value, trial.number))[:_KEPT]
        for trial in best:
            work.let_in(work.contender(_candidate(trial, starts)))


class _OutOfTime(Exception):
    """A trial that there was no time for."""


def _trained(work: Portfolio) -> list[Candidate]:
    """Finalists that were trained in epochs and listen to neighbours, the best first."""
    in_epochs = {one.name for one in work.contenders if not one.solved}
    ranked = sorted(work.finalists, key=lambda one: one.validated.rank, reverse=True)
    return [
        one.candidate for one in ranked if one.candidate.name in in_epochs and one.candidate.recipe.propagation.hops > 0
    ]


def _reachable(work: Portfolio) -> Space:
    """The space, with hops that the store has."""
    space = load_space("around")
    hops = [hops for hops in space["propagation.hops"].choices or [] if hops <= work.deepest.propagation.hops]
    return space | {"propagation.hops": Choice(choices=hops)}


def _objective(work: Portfolio, trial: Any, starts: Sequence[Candidate], space: Space) -> float:
    """How well a trial's recipe validates; one that is behind after some epochs is given up."""
    name = trial.suggest_categorical("start", [one.name for one in starts])
    start = next(one for one in starts if one.name == name)
    recipe = suggest(trial, space, start.recipe)
    trial.set_user_attr("recipe", recipe.explicit())
    one = work.contender(_candidate(trial, starts))
    early = max(3, one.prepared.recipe.training.epochs // 10)
    one.train(early)
    if work.clock.over and not one.finished:
        raise _OutOfTime
    trial.report(one.standing(early), early)
    if trial.should_prune() and not one.finished:
        raise load_optuna().TrialPruned
    if one.failed or not work.trained(one):
        if one.failed:
            raise load_optuna().TrialPruned
        raise _OutOfTime
    value = work.finalist(one).validated.gain
    trial.set_user_attr("scores", [value])
    return value


def _candidate(trial: Any, starts: Sequence[Candidate]) -> Candidate:
    start = next(one for one in starts if one.name == trial.params["start"])
    return replace(
        start, name=f"search-{trial.number}", title=f"{start.title} (trial {trial.number})", role="other",
        order=1000 + trial.number, recipe=Recipe.of(trial.user_attrs["recipe"]),
    )  # fmt: skip


def more_seeds(work: Portfolio) -> None:
    """The best candidate that was trained in epochs, from other first weights."""
    best = next(iter(_trained(work)), None)
    for number in range(1, _MORE_SEEDS + 1):
        if best is None or work.clock.over:
            return
        other = replace(
            best.changed({"training.seeds": [work.seed + number]}), name=f"{best.name}-seed-{number}", role="other",
            title=f"{best.title}, seed {work.seed + number}", order=best.order + 1,
        )  # fmt: skip
        one = work.contender(other)
        if work.trained(one):
            work.let_in(one)


def blend(work: Portfolio) -> None:
    """Models whose mean validates best, each as often as it was picked; one that is picked alone is no blend."""
    ranked = sorted(work.finalists, key=lambda one: one.validated.rank, reverse=True)
    views = ranked[0].candidate.recipe.relations  # of a graph of several; what reads no hop has fewer
    ranked = [one for one in ranked if one.candidate.recipe.relations == views][:_MEMBERS]
    picked = picks([one.validated for one in ranked])
    members = sorted(set(picked))
    if len(members) < 2:
        return
    shares = [picked.count(index) / len(picked) for index in members]
    names = [ranked[index].candidate.name for index in members]
    chosen = [next(one for one in work.contenders if one.name == name) for name in names]
    bundles = [one.bundle for one in chosen]
    recipe = blend_recipe(
        [one.recipe for one in bundles], shares, multi_label=work.prepared.multi_label,
        temperatures=[one.temperature for one in bundles],
    )  # fmt: skip
    recipe = recipe.changed({"training.seeds": [work.seed]})
    candidate = Candidate("blend", f"Blend of {len(members)} models", 10_000, "other", (), recipe)
    made = work.contender(candidate)
    finalist = Finalist(made.candidate, mixed([ranked[index].validated for index in members], shares))
    fitted = blended(made.prepared, bundles)
    made.run.keep(made.seed, bundle_of(made.prepared, fitted, made.seed))
    work.let_in(made, finalist)
