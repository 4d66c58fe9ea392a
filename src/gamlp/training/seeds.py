"""Train every seed of a recipe, and say which is the best by validation rows: the only place where this is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from gamlp.io import Place
from gamlp.progress import Progress, silent
from gamlp.training.bundle import Bundle, best_seed
from gamlp.training.calibration import calibrate
from gamlp.training.loop import CHECKPOINT_SECONDS, Fitted, Machine, Observe, fit
from gamlp.training.metrics import rarer_class, resolve_metric
from gamlp.training.rows import Prepared, beside_of
from gamlp.training.trivial import class_counts, trivial_scores
from gamlp.training.warm import first_model


@dataclass(frozen=True)
class SeedFiles:
    """Where the training of a seed may leave files; without them it cannot be resumed, nor shared by processes.

    `job` is a folder for a job that several processes share, `log` a file for what they print. `observed` is the last
    epoch that was observed before an interruption.
    """

    checkpoint: Path | Place | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    job: Path | Place | None = None
    log: Path | None = None
    observed: int = 0


class FitSeed(Protocol):
    """Trains one seed somewhere: `Engine.fit`."""

    def __call__(
        self,
        prepared: Prepared,
        seed: int,
        files: SeedFiles | None = None,
        *,
        observe: Observe | None = None,
        progress: Progress = silent,
    ) -> Fitted: ...


class SeedFolder(Protocol):
    """Keeps what every seed learned."""

    def found(self, seed: int) -> Bundle | None:
        """The bundle of a seed that was trained before."""

    def files(self, seed: int) -> SeedFiles:
        """Where its training may leave files."""

    def lines(self, seed: int) -> Observe | None:
        """What observes its epochs."""

    def keep(self, seed: int, bundle: Bundle) -> None:
        """A seed is trained."""


class NoFolder:
    """For training that leaves nothing behind."""

    def found(self, seed: int) -> Bundle | None:
        return None

    def files(self, seed: int) -> SeedFiles:
        return SeedFiles()

    def lines(self, seed: int) -> Observe | None:
        return None

    def keep(self, seed: int, bundle: Bundle) -> None:
        pass


def train_seeds(
    prepared: Prepared,
    fit_seed: FitSeed,
    folder: SeedFolder | None = None,
    *,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> tuple[dict[int, Bundle], int]:
    """Bundles of all seeds, those that `folder` lacks trained by `fit_seed`; and the best seed by validation rows."""
    folder = NoFolder() if folder is None else folder
    bundles: dict[int, Bundle] = {}
    for seed in prepared.recipe.training.seeds:
        bundle = folder.found(seed)
        if bundle is None:
            observers = [one for one in (folder.lines(seed), observe) if one is not None]
            files = folder.files(seed)
            fitted = fit_seed(prepared, seed, files, observe=_observe_all(observers), progress=progress)
            bundle = bundle_of(prepared, fitted, seed)
            folder.keep(seed, bundle)
        bundles[seed] = bundle
    return bundles, best_seed(bundles)


def fit_prepared(
    prepared: Prepared, seed: int, machine: Machine, *, observe: Observe | None = None, progress: Progress = silent
) -> Fitted:
    """Train one seed in this process."""
    return fit(
        lambda: first_model(prepared),
        prepared.train,
        prepared.valid,
        prepared.recipe.training,
        beside=beside_of(prepared),
        seed=seed,
        machine=machine,
        observe=observe,
        progress=progress,
    )


def bundle_of(prepared: Prepared, fitted: Fitted, seed: int) -> Bundle:
    """A fitted model as it is saved, calibrated by its validation rows."""
    train, valid = prepared.train.targets, prepared.valid
    counts = class_counts(train, len(prepared.classes))
    report: dict[str, Any] = {
        "seed": seed,
        "epoch": fitted.epoch,
        "epochs": fitted.epochs,
        "valid": fitted.valid if valid is not None else {},
        "metric": metric_of(prepared)[0],
        "stopped": fitted.stopped,
        "train_rows": len(prepared.train),
        "valid_rows": 0 if valid is None else len(valid),
        "class_counts": counts.tolist(),
        "base": {} if valid is None else trivial_scores(counts, len(train), valid.targets),
    }
    temperature = 1.0
    if valid is not None and len(valid) and prepared.recipe.training.calibrate:
        calibration = calibrate(fitted.model, valid)
        if calibration is not None:
            report["calibration"], temperature = asdict(calibration), calibration.temperature
    if fitted.solved:
        report["solved"] = fitted.solved
    if prepared.stage:
        report["stage"] = prepared.stage
    if (beside := beside_of(prepared)) is not None and beside.rows is not None:
        report["unlabelled_rows"] = len(beside.rows)
    if prepared.shape.parts:  # what is made where features are missing means something on this graph alone
        report["structure"] = prepared.store.manifest.structure
    if prepared.reduced_from is not None:
        report["reduced_from"] = prepared.reduced_from
    labels, two = prepared.train.store.labels, len(prepared.classes) == 2 and not prepared.multi_label
    return Bundle(
        prepared.recipe, prepared.shape, prepared.classes, prepared.multi_label, fitted.weights, report,
        prepared.statistics, prepared.columns, "string" if labels is None else labels.class_type,
        temperature=temperature, positive=prepared.classes[rarer_class(train)] if two else None,
    )  # fmt: skip


def metric_of(prepared: Prepared) -> tuple[str, str | None]:
    """The metric that validation goes by, and a sentence where a person would not expect it."""
    valid = None if prepared.valid is None else prepared.valid.targets
    return resolve_metric(prepared.recipe.training, prepared.train.targets, prepared.multi_label, valid)


def _observe_all(observers: list[Callable[[dict[str, Any]], None]]) -> Observe | None:
    def observe(line: dict[str, Any]) -> None:
        for one in observers:
            one(line)

    return observe if observers else None
