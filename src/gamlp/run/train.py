"""The whole path: a graph and a recipe → hops → trained seeds → scores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import Place, write_json
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.run.prepare import (
    HERE,
    Prepared,
    Resources,
    hops_for,
    plan_of,
    prepare,
    prepare_split,
    rows_of,
    without_folds,
)
from gamlp.spark.session import session
from gamlp.spark.training import launch_spark
from gamlp.training.batches import Batches
from gamlp.training.bundle import Bundle, best_seed, make_model
from gamlp.training.checks import check_store
from gamlp.training.device import choose_device
from gamlp.training.loop import CHECKPOINT_SECONDS, Fitted, Machine, Observe, fit
from gamlp.training.ranks.job import TrainingJob, fitted_of
from gamlp.training.ranks.launch import launch_processes
from gamlp.training.run_folder import RunFolder
from gamlp.training.scores import Watch, full_report, summary

Watching = Callable[[dict[int, Bundle], HopStore, Array], dict[int, Watch]]  # who looks on, seed by seed
__all__ = ["HERE", "Prepared", "Resources", "best_seed", "evaluate_rows", "evaluate_run", "fit_seed", "hops_for"]
__all__ += ["bundle_of", "plan_of", "prepare", "prepare_split", "rows_of", "summary", "train_run"]


def fit_seed(
    prepared: Prepared, seed: int, *, machine: Machine, observe: Observe | None = None, progress: Progress = silent
) -> Fitted:
    """Train one seed."""
    return fit(
        lambda: make_model(prepared.recipe, prepared.shape),
        prepared.train,
        prepared.valid,
        prepared.recipe.training,
        seed=seed,
        machine=machine,
        observe=observe,
        progress=progress,
    )


def train_run(
    prepared: Prepared,
    run: RunFolder,
    *,
    resources: Resources = HERE,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> dict[int, Bundle]:
    """Train every seed of the recipe that the run lacks; the best by validation becomes the run's bundle."""
    device = choose_device(resources.device)
    bundles: dict[int, Bundle] = {}
    for seed in prepared.recipe.training.seeds:
        if run.seed_path(seed).exists():
            bundles[seed] = Bundle.load(run.seed_path(seed), prepared.recipe.model.name)
            run.checkpoint_path(seed).unlink(missing_ok=True)  # a kill may have come between the two
            continue
        told = _both(run.lines(seed), observe)
        if resources.processes > 1 or resources.spark is not None:
            fitted = _fit_together(prepared, seed, run, resources, checkpoint_seconds, told, progress)
        else:
            machine = Machine(device, resources.memory, run.checkpoint_path(seed), checkpoint_seconds)
            fitted = fit_seed(prepared, seed, machine=machine, observe=told, progress=progress)
        bundles[seed] = bundle_of(prepared, fitted, seed)
        run.keep(seed, bundles[seed])
    run.choose(best_seed(bundles, prepared.recipe.training.monitor))
    return bundles


def _fit_together(
    prepared: Prepared,
    seed: int,
    run: RunFolder,
    resources: Resources,
    checkpoint_seconds: float,
    observe: Observe,
    progress: Progress,
) -> Fitted:
    """Train one seed with several processes: of this machine, or of Spark's executors."""
    count, log = resources.processes, run.log_path(seed)
    here = resources.spark is None
    job = TrainingJob.of(
        prepared,
        seed,
        run.checkpoint_path(seed),
        Place.of(run.job_path(seed)),
        checkpoint_seconds=checkpoint_seconds,
        device=resources.device,
        threads=None if resources.threads is None else max(1, resources.threads // (count if here else 1)),
        memory=None if resources.memory is None else resources.memory // (count if here else 1),
    )
    run.job_path(seed).mkdir(exist_ok=True)
    told = max((line["epoch"] for line in run.metrics() if line["seed"] == seed), default=0)
    try:
        if resources.spark is None:
            found = launch_processes(job, count, log=log, told=told, observe=observe, progress=progress)
        else:
            with session(resources.spark) as spark:
                found = launch_spark(job, spark, count, told=told, observe=observe, progress=progress)
    finally:
        shutil.rmtree(run.job_path(seed), ignore_errors=True)
    log.unlink(missing_ok=True)
    return fitted_of(prepared, *found)


def _both(first: Observe, second: Observe | None) -> Observe:
    def tell(line: dict[str, Any]) -> None:
        first(line)
        if second is not None:
            second(line)

    return tell


def bundle_of(prepared: Prepared, fitted: Fitted, seed: int) -> Bundle:
    """A fitted model as it is saved."""
    kept = None
    if (known := prepared.statistics) is not None:
        kept = {name: torch.tensor(values, dtype=torch.float64) for name, values in known.model_dump().items()}
    report = {
        "seed": seed,
        "epoch": fitted.epoch,
        "epochs": fitted.epochs,
        "valid": fitted.valid if prepared.valid is not None else {},
        "stopped": fitted.stopped,
        "train_rows": len(prepared.train),
        "valid_rows": 0 if prepared.valid is None else len(prepared.valid),
    }
    if prepared.shape.parts:  # what is made where features are missing means something on this graph alone
        report["structure"] = prepared.store.manifest.structure
    if prepared.reduced_from is not None:
        report["reduced_from"] = prepared.reduced_from
    return Bundle(prepared.recipe, prepared.shape, prepared.classes, prepared.many, fitted.weights, report, kept)


def evaluate_rows(
    bundles: dict[int, Bundle],
    store: HopStore,
    rows: Array,
    resources: Resources = HERE,
    watching: Watching | None = None,
) -> dict[str, Any]:
    """Scores of rows for every seed, with their mean and deviation."""
    device = choose_device(resources.device)
    watches = {} if watching is None else watching(bundles, store, rows)
    seeds = {}
    for seed, bundle in bundles.items():
        read = rows_of(store, bundle.recipe, rows)
        batches = Batches(read, bundle.recipe.training.batch_size, device, memory=0)
        seeds[seed] = full_report(bundle.model().to(device), batches, watches.get(seed))
    return {"rows": len(rows), **summary(list(seeds.values())), "seeds": seeds}


def evaluate_run(
    run: RunFolder, *, trust: str | None = None, resources: Resources = HERE, watching: Watching | None = None
) -> dict[str, Any]:
    """Test rows of the run's own graph, read once, for every seed; written into the run."""
    bundles = run.bundles(trust)
    store = HopStore.open(run.store_path())
    first = next(iter(bundles.values()))
    check_store(store, without_folds(plan_of(first.recipe)))
    split, labels = store.split, store.labels
    assert split is not None and labels is not None
    rows = split.test[labels.known()[split.test]]
    if not len(rows):
        raise GamlpError(
            "the graph has no labelled test rows", file=store.folder, hint="evaluate on another: --graph GRAPH"
        )
    report = evaluate_rows(bundles, store, rows, resources, watching)
    report["valid"] = summary([bundle.report["valid"] for bundle in bundles.values()]) if first.report["valid"] else {}
    write_json(run.evaluation_path, report)
    return report
