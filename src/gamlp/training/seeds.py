"""Train every seed of a recipe, and say which is the best by validation rows: the only place where this is done.

With `training.members` a seed is several models, each from first weights of its own, which are blended into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn

from gamlp.io import Place, Ranges, State, TakeTally, tally_here
from gamlp.models import blend_recipe
from gamlp.progress import Progress, silent
from gamlp.training.batches import HopRows
from gamlp.training.blending import blended, fitted_of, shares_of
from gamlp.training.bundle import Bundle, best_seed
from gamlp.training.calibration import Calibration, calibrate, calibration_rows
from gamlp.training.loop import CHECKPOINT_SECONDS, Fitted, Machine, Observe, fit
from gamlp.training.metrics import metric_by_counts
from gamlp.training.rows import Prepared, beside_of
from gamlp.training.sent_bundles import SentBundles
from gamlp.training.trivial import trivial_scores_of
from gamlp.training.warm import first_model

_BETWEEN_MEMBERS = 1_000_003  # from a seed to the next of its members: a list of seeds that people write never meets it
_SEEDS = 1 << 63


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
    """Keeps what every seed learned, and until it is trained each of its members, where it has several."""

    def found(self, seed: int, member: int | None = None) -> Bundle | None:
        """The bundle of a seed that was trained before."""

    def files(self, seed: int, member: int | None = None) -> SeedFiles:
        """Where its training may leave files."""

    def lines(self, seed: int, member: int | None = None) -> Observe | None:
        """What observes its epochs."""

    def keep(self, seed: int, bundle: Bundle, member: int | None = None) -> None:
        """A seed is trained; what its members left may go."""


class NoFolder:
    """For training that leaves nothing behind."""

    def found(self, seed: int, member: int | None = None) -> Bundle | None:
        return None

    def files(self, seed: int, member: int | None = None) -> SeedFiles:
        return SeedFiles()

    def lines(self, seed: int, member: int | None = None) -> Observe | None:
        return None

    def keep(self, seed: int, bundle: Bundle, member: int | None = None) -> None:
        pass


def train_seeds(
    prepared: Prepared,
    fit_seed: FitSeed,
    folder: SeedFolder | None = None,
    *,
    take: TakeTally | None = None,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> tuple[dict[int, Bundle], int]:
    """Bundles of all seeds, those that `folder` lacks trained by `fit_seed`; and the best seed by validation rows.

    `take` has validation rows read elsewhere where models are calibrated; without it, here.
    """
    folder = NoFolder() if folder is None else folder
    bundles: dict[int, Bundle] = {}
    for seed in prepared.recipe.training.seeds:
        bundle = folder.found(seed)
        if bundle is None:
            own, fitted, members = _fit_seed(prepared, seed, fit_seed, folder, take, observe, progress)
            bundle = bundle_of(own, fitted, seed, members, take)
            folder.keep(seed, bundle)
        bundles[seed] = bundle
    return bundles, best_seed(bundles)


def _fit_seed(
    prepared: Prepared,
    seed: int,
    fit_seed: FitSeed,
    folder: SeedFolder,
    take: TakeTally | None,
    observe: Observe | None,
    progress: Progress,
) -> tuple[Prepared, Fitted, list[dict[str, Any]]]:
    """A seed's model with the recipe that it is of: the recipe's own, or a blend's and what is told of its members."""
    count = prepared.recipe.training.members
    if count == 1:
        told = _observe_all([folder.lines(seed), observe])
        return prepared, fit_seed(prepared, seed, folder.files(seed), observe=told, progress=progress), []
    bundles = [_member(prepared, seed, number, fit_seed, folder, take, observe, progress) for number in range(count)]
    positive = None if prepared.multi_label else prepared.train.label_counts.rarer
    shares = shares_of(bundles, prepared.valid, metric_of(prepared)[0], positive)
    names = ("seed", "epoch", "epochs", "valid", "stopped")
    members = [{"weight": share, **{name: one.report[name] for name in names}} for one, share in zip(bundles, shares)]
    picked = [(one, share) for one, share in zip(bundles, shares) if share > 0]
    if len(picked) == 1:
        alone, _ = picked[0]
        facts = {name: alone.report[name] for name in ("epoch", "epochs", "valid", "stopped")}
        return prepared, fitted_of(prepared, facts, alone.weights), members
    recipe = blend_recipe(
        [one.recipe for one, _ in picked], [share for _, share in picked], multi_label=prepared.multi_label,
        temperatures=[one.temperature for one, _ in picked],
    )  # fmt: skip
    own = replace(prepared, recipe=recipe)
    fitted = blended(own, [one for one, _ in picked])
    return own, replace(fitted, epochs=sum(one["epochs"] for one in members)), members


def _member(
    prepared: Prepared,
    seed: int,
    number: int,
    fit_seed: FitSeed,
    folder: SeedFolder,
    take: TakeTally | None,
    observe: Observe | None,
    progress: Progress,
) -> Bundle:
    """One of the models that are blended, trained or found; its lines are its seed's, and say which it is."""
    found = folder.found(seed, number)
    if found is not None:
        return found
    own, count = member_seed(seed, number), prepared.recipe.training.members
    both = _observe_all([folder.lines(seed, number), observe])

    def tell(line: dict[str, Any]) -> None:
        if both is not None:
            both({**line, "seed": seed, "member": number})

    def told(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        progress(f"seed {seed}, model {number + 1} of {count}", done, total, unit, note)

    fitted = fit_seed(prepared, own, folder.files(seed, number), observe=tell, progress=told)
    bundle = bundle_of(prepared, fitted, own, take=take)
    folder.keep(seed, bundle, number)
    return bundle


def member_seed(seed: int, number: int) -> int:
    """The seed of a member's first weights, order of rows and dropout; the first has the seed itself."""
    return (seed + _BETWEEN_MEMBERS * number) % _SEEDS


def fit_blend(
    prepared: Prepared, seed: int, machine: Machine, *, observe: Observe | None = None, progress: Progress = silent
) -> tuple[Prepared, Fitted]:
    """Train one seed in this process, blended where it has several members; with the recipe that the model is of."""

    def fit_seed(
        prepared: Prepared, seed: int, files: SeedFiles | None = None, *, observe: Observe | None = None,
        progress: Progress = silent,
    ) -> Fitted:  # fmt: skip
        return fit_prepared(prepared, seed, machine, observe=observe, progress=progress)

    own, fitted, _ = _fit_seed(prepared, seed, fit_seed, NoFolder(), None, observe, progress)
    return own, replace(fitted, model=fitted.model.to(machine.device))


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


def bundle_of(
    prepared: Prepared,
    fitted: Fitted,
    seed: int,
    members: Sequence[dict[str, Any]] = (),
    take: TakeTally | None = None,
) -> Bundle:
    """A fitted model as it is saved, calibrated by its validation rows; of a blend, with what is told of `members`.

    `take` has them read elsewhere.
    """
    train, valid = prepared.train.label_counts, prepared.valid
    counts, many = train.of_class, prepared.multi_label
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
        "base": {}
        if valid is None
        else trivial_scores_of(counts, train.rows, valid.label_counts.of_class, len(valid), many),
    }
    if members:
        report["members"] = list(members)
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
    labels, two = prepared.train.store.labels, len(prepared.classes) == 2 and not many
    bundle = Bundle(
        prepared.recipe, prepared.shape, prepared.classes, many, fitted.weights, report,
        prepared.statistics, prepared.columns, "string" if labels is None else labels.class_type,
        positive=prepared.classes[train.rarer] if two else None,
    )  # fmt: skip
    if valid is None or not len(valid) or not prepared.recipe.training.calibrate:
        return bundle
    calibration = _calibration(bundle, fitted, calibration_rows(valid), take)
    if calibration is None:
        return bundle
    report["calibration"] = asdict(calibration)
    return replace(bundle, temperature=calibration.temperature)


def _calibration(bundle: Bundle, fitted: Fitted, rows: HopRows, take: TakeTally | None) -> Calibration | None:
    """By these rows, here or where `take` has them read: one answer, since every step of the fit sees all of them."""
    work = CalibrationWork(SentBundles({0: bundle}), rows, fitted.model)
    (state,) = (take or tally_here)(work, [(0, len(rows))], "calibrate")
    return None if not state["found"].size else Calibration.of(state["found"].tolist())


@dataclass(frozen=True)
class CalibrationWork:
    """Calibration as one range of a tally; the rows are few, whatever the graph.

    `model` is the bundle's, in this process; another one makes it of the bundle.
    """

    sent: SentBundles
    rows: HopRows
    model: nn.Module | None = None

    def __call__(self, ranges: Ranges) -> State:
        with self.sent.opened() as (bundles, _):
            found = calibrate(bundles[0].model() if self.model is None else self.model, self.rows)
        return {"found": np.array([] if found is None else astuple(found), np.float64)}

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibrationWork, (self.sent, self.rows)


def metric_of(prepared: Prepared) -> tuple[str, str | None]:
    """The metric that validation goes by, and a sentence where a person would not expect it."""
    valid = None if prepared.valid is None else prepared.valid.label_counts
    return metric_by_counts(prepared.recipe.training, prepared.train.label_counts, valid)


def _observe_all(observers: Sequence[Callable[[dict[str, Any]], None] | None]) -> Observe | None:
    known = [one for one in observers if one is not None]

    def observe(line: dict[str, Any]) -> None:
        for one in known:
            one(line)

    return observe if known else None
