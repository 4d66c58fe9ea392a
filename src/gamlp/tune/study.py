"""A study on disk (Optuna's SQLite file): opened, checked before anything is made of it, drawn from by a seed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError, MissingExtra
from gamlp.io import DiskFull, Trust, Untrusted
from gamlp.recipe import Recipe

_HINT = "remove it, or choose another --study"


def load_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("optuna", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextmanager
def study_at(path: Path, seed: int) -> Iterator[Any]:
    """The study of a file, made where there is none; what the file cannot give or take is told in a sentence."""
    optuna = load_optuna()
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import SQLAlchemyError

    try:
        study = optuna.create_study(
            study_name="gamlp",
            storage=URL.create("sqlite", database=str(path)).render_as_string(),
            direction="maximize",
            load_if_exists=True,
            sampler=_sampler(optuna, seed),
            pruner=optuna.pruners.PercentilePruner(40.0, n_startup_trials=4),
        )
        study.user_attrs, study.direction  # noqa: B018  read once: whatever is wrong comes now
        numbers = [trial.number for trial in study.trials]  # once: others who share it add trials meanwhile
        if numbers != list(range(len(numbers))):
            raise ValueError("its trials are not numbered")
    except Exception as error:  # whatever a file that is no study makes Optuna and SQLite say
        _refuse_full_disk(error, path)
        raise GamlpError(f"is damaged or no study ({_first_line(error)})", file=path, hint=_HINT) from error
    try:
        yield study
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        _refuse_full_disk(error, path)
        raise GamlpError(
            f"the study cannot be read or written ({_first_line(error)})", file=path,
            hint="see that the disk has room and nobody changed the file, then run the same command again",
        ) from error  # fmt: skip


def run_trial(study: Any, objective: Callable[[Any], float]) -> None:
    """The next trial. One that its recipe ends is told and counts as failed; one that is broken off waits to be run."""
    optuna = load_optuna()
    states, trial = optuna.trial.TrialState, study.ask()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*already reported")  # by a process that died; the same now
            value = objective(trial)
    except optuna.TrialPruned:
        study.tell(trial, state=states.PRUNED)
    except GamlpError as error:
        if isinstance(error, DiskFull):
            _wait_again(study, trial)
            raise
        study.tell(trial, state=states.FAIL)
        warnings.warn(f"trial {trial.number} failed: {error}", stacklevel=2)
    except BaseException:
        _wait_again(study, trial)
        raise
    else:
        study.tell(trial, value)


def wait_again(study: Any) -> None:
    """Let trials that dead processes left be run by the next who asks, under their numbers: they choose as before."""
    for trial in study.trials:
        if trial.state.name == "RUNNING":
            _wait_again(study, trial)


def _wait_again(study: Any, trial: Any) -> None:
    states = load_optuna().trial.TrialState
    study._storage.set_trial_state_values(trial._trial_id, state=states.WAITING)


def _refuse_full_disk(error: BaseException, path: Path) -> None:
    if "disk is full" in _first_line(error):  # SQLite's words
        hint = "free some space, then run the same command again to go on"
        raise DiskFull("no space left on the device", file=path, hint=hint) from error


def _first_line(error: BaseException) -> str:
    """SQLite's own words, which lie below those of two libraries."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def check_study(study: Any, path: Path, trust: Trust) -> None:
    """Refuse a file that says of a finished trial what no search would have written."""
    for trial in complete(study):
        try:
            recipe, scores = trial.user_attrs["recipe"], trial.user_attrs["scores"]
            if not (isinstance(recipe, dict) and _numbers(scores) and _numbers([trial.value])):
                raise ValueError("a recipe and its scores are expected")
            Recipe.of(recipe, trust=trust)
        except Untrusted as error:
            raise Untrusted(error.name, f"trial {trial.number}: {error.problem}", path) from error
        except (KeyError, ValueError, GamlpError) as error:
            raise GamlpError(f"trial {trial.number} is damaged ({error})", file=path, hint=_HINT) from error
    for name, value in study.user_attrs.items():
        if not isinstance(name, str) or (name.startswith("confirmed-") and not _numbers(value)):
            raise GamlpError(f"'{name}' is damaged", file=path, hint=_HINT)


def _numbers(values: Any) -> bool:
    """Whether these are some finite numbers."""
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    )


def complete(study: Any) -> list[Any]:
    """Trials that came to their end."""
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]


def finished(study: Any) -> list[Any]:
    """These, and those that were given up or failed."""
    return [trial for trial in study.trials if trial.state.is_finished()]


def _sampler(optuna: Any, seed: int) -> Any:
    """TPE whose draws depend on the seed, on the trial's number and on finished trials, on nothing else."""

    class Numbered(optuna.samplers.BaseSampler):  # type: ignore[misc]
        def before_trial(self, study: Any, trial: Any) -> None:
            drawn = int(np.random.SeedSequence((seed, trial.number)).generate_state(1)[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `group` is experimental; without it, keys left out are not learned
                self.inner = optuna.samplers.TPESampler(
                    multivariate=True, group=True, n_startup_trials=8, constant_liar=True, seed=drawn
                )

        def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
            return self.inner.infer_relative_search_space(study, trial)

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
            return self.inner.sample_relative(study, trial, search_space)

        def sample_independent(self, study: Any, trial: Any, param_name: Any, param_distribution: Any) -> Any:
            return self.inner.sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
            self.inner.after_trial(study, trial, state, values)

    return Numbered()
