"""A graph or its hops and a recipe → a run folder with a trained model for every seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import PeakMemory, Place, TakeTally, Trust, is_url, names_of, row_ranges, seen_by_all
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.run.preparation import prepare
from gamlp.run.resources import LOCAL, Resources
from gamlp.run.seen_ids import seen_hashes, seen_of, write_seen
from gamlp.run.source import Source, as_source, default_recipe, resolve_recipe
from gamlp.training import (
    HOPS,
    STAGES,
    About,
    Bundle,
    LabelCounts,
    Observe,
    Prepared,
    RunFolder,
    SeedFolder,
    StageEnd,
    Stages,
    StageStart,
    blend_words,
    check_trainable,
    check_warm,
    choose_device,
    expected_shape,
    from_store,
    in_stage,
    make_model,
    mean_valid,
    metric_of,
    run_stages,
    summary,
    teach,
    train_seeds,
    valid_rows,
    warm_bundle,
    writing_run,
)

_OWN = {
    "hops",
    "made",
    "training-hops",
    "training-graph",
    "as-of",
    "graph",
    "seeds",
    "recipe.yaml",
    "tables.json",
    "ingest.json",
    "warm.safetensors",
    "portfolio",
    "leaderboard.json",
    "stages",
}
_ROWS = 1 << 20  # ids hashed at a time
_WARM = "warm.safetensors"  # the bundle that training started from


@dataclass(frozen=True)
class Trained:
    """A finished run. `notes` are sentences a person should read."""

    run: RunFolder
    recipe: Recipe
    bundles: dict[int, Bundle]
    notes: list[str] = field(default_factory=list)

    @property
    def valid(self) -> dict[str, Any] | None:
        """Mean and deviation over seeds, and what a constant answer gets; None without validation rows."""
        reports = [bundle.valid for bundle in self.bundles.values()]
        base = next(iter(self.bundles.values())).report.get("base")
        return summary(reports) | ({"base": base} if base else {}) if reports[0] else None

    @property
    def broken(self) -> list[str]:
        """A sentence for each seed whose loss became NaN."""
        return [
            f"seed {seed}: {bundle.report['stopped']}; the weights of epoch {bundle.report['epoch']} are kept, "
            "and a lower training.learning_rate may help"
            for seed, bundle in self.bundles.items()
            if bundle.report["stopped"].startswith("the loss")
        ]


def train(
    source: Source | Graph | str | Path,
    recipe: Recipe | str | Path | dict[str, Any] | None = None,
    out: str | Path = "run",
    *,
    valid: Source | Graph | str | Path | None = None,
    resume: bool = False,
    warm: str | Path | None = None,
    trust: Trust = None,
    resources: Resources = LOCAL,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train every seed into a run folder. What can be refused is refused before anything is written.

    source: a graph or its folder, the name of a dataset, or a store of hops.
    recipe: a Recipe, the name of a shipped one, a YAML file or a dict. (default: the dataset's own, or the defaults)
    out: the run folder to write, or with `resume` to go on with.
    valid: another graph to validate on.
    warm: a run folder or bundle whose weights training starts from; refused where they do not fit.
    trust: the model of one's own that the recipe may name, whose code then runs.
    resources: memory, threads, device, processes, and the engine.
    observe: is called with every epoch's numbers.
    progress: is told how far the work is.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     trained = train("karate", {"training": {"epochs": 5}}, f"{folder}/run")
    ...     sorted(trained.bundles), trained.run.bundle_path.exists()
    ([0], True)
    """
    source, valid = as_source(source), None if valid is None else as_source(valid)
    recipe, out = Recipe.of(default_recipe(source) if recipe is None else recipe, trust=trust), Path(out)
    with writing_run(out):
        return _train(source, recipe, out, valid, resume, warm, trust, resources, observe, progress)


def _train(
    source: Source,
    recipe: Recipe,
    out: Path,
    valid: Source | None,
    resume: bool,
    warm: str | Path | None,
    trust: Trust,
    resources: Resources,
    observe: Observe | None,
    progress: Progress,
) -> Trained:
    valid_graph = None if valid is None else valid.opened
    recipe, notes = resolve_recipe(source, recipe, valid_graph)
    about, trust = _about(source, valid), (*names_of(trust), *_typed(source, valid))
    choose_device(resources.device)
    if recipe.training.stages > 1 and isinstance(seen_by_all(out), Place):
        raise GamlpError(
            "stages are trained in a folder", file=out, hint="give one that all machines see, or leave out --stages"
        )
    run = RunFolder.create(out, about, recipe, resume=resume, trust=trust) if (out / "run.json").exists() else None
    if run is None:
        check_start(source, recipe, out)
    fresh, finished = run is None, run is not None and run.bundle_path.exists()
    with PeakMemory() as peak:
        begun = time.monotonic()
        if source.store is not None:
            prepared = from_store(source.store, recipe)
        else:
            prepared = prepare(
                source.opened, recipe, seen_by_all(out), valid_graph=valid_graph, resources=resources, progress=progress
            )
        took = time.monotonic() - begun
        if run is not None and (out / _WARM).exists():
            warm = out / _WARM  # what it started from, also where that is gone or another by now
        if warm is not None and not finished:
            prepared, said = _start_from(prepared, warm, out, trust)
            notes = [*notes, said]
        if (said_of_metric := metric_of(prepared)[1]) is not None:
            notes = [*notes, said_of_metric]
        run = run or RunFolder.create(out, about, recipe, resume=resume, trust=trust)
        kept = run.timings()
        if not finished and source.store is None:  # an interrupted propagation goes on: its parts add up
            run.note_timings(preparation=kept.get("preparation", 0.0) + took)
        with closing(resources.open_engine()) as engine:
            _note_seen(run, prepared, source.graph, valid_graph, partial(engine.tally, run.shared))
        try:
            if recipe.training.stages > 1:
                bundles, said_of_stages = _train_stages(prepared, run, source.graph, resources, observe, progress)
                notes = [*notes, *said_of_stages]
            else:
                bundles = train_run(prepared, run, resources=resources, observe=observe, progress=progress)
        except GamlpError:
            if fresh:  # nothing was learned: the same --out may be used with a better recipe
                run.forget()
            raise
    if not finished:
        run.note_timings(peak_memory=max(kept.get("peak_memory", 0), peak.bytes))
    return Trained(run, recipe, bundles, [*notes, *_drawn(bundles), *_blended(bundles)])


def adopt_trained(source: Source, recipe: Recipe, out: Path, trained: RunFolder, valid: Source | None = None) -> None:
    """Make a seed that was trained elsewhere the run's own: `train` with this recipe then finds it; done twice, once.

    The recipe is one that was resolved, and has one seed. Curves come first: a bundle says that all is there.
    """
    run = RunFolder.create(out, _about(source, valid), recipe, resume=True, trust=_typed(source, valid))
    (seed,) = recipe.training.seeds
    if not run.seed_path(seed).exists():
        if trained.metrics_path.exists():
            Place.of(run.metrics_path).put_file(trained.metrics_path)
        Place.of(run.seed_path(seed)).put_file(trained.seed_path(seed))


def _about(source: Source, valid: Source | None) -> About:
    store = "hops" if source.store is None else source.store.place.resolved().url
    return About(graph=source.origin, valid_graph=None if valid is None else valid.origin, store=store)


def _typed(source: Source, valid: Source | None) -> list[str]:
    """Places that a person named; a store's graph is what the store says: nobody has typed it, but the store's."""
    stores = [] if source.store is None else [source.store.place.resolved().url]
    return [
        *stores, *(one.origin.graph for one in (source, valid) if one is not None and one.origin and one.store is None)
    ]  # fmt: skip


def train_run(
    prepared: Prepared,
    run: RunFolder,
    *,
    resources: Resources = LOCAL,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> dict[int, Bundle]:
    """Train every seed of the recipe that the run lacks; the best by validation becomes the run's bundle."""
    with closing(resources.open_engine()) as engine:
        take = partial(engine.tally, run.shared)
        bundles, best = train_seeds(prepared, engine.fit, run, take=take, observe=observe, progress=progress)
    run.choose(best)
    return bundles


def _train_stages(
    prepared: Prepared,
    run: RunFolder,
    graph: Graph | None,
    resources: Resources,
    observe: Observe | None,
    progress: Progress,
) -> tuple[dict[int, Bundle], list[str]]:
    """Every stage in a run folder of its own below `stages`; seeds of the one that is kept become the run's."""
    if run.bundle_path.exists():
        return run.bundles(), run.stage_words()

    def own_store(stage: Prepared) -> bool:
        return stage.store is not prepared.store

    def folder_of(stage: Prepared) -> RunFolder:
        about, place = run.about(), run.stage_path(stage.stage)
        shared = about.store if Path(about.store).is_absolute() or is_url(about.store) else f"../../{about.store}"
        about = about.model_copy(update={"store": HOPS if own_store(stage) else shared})
        made = RunFolder.create(place, about, run.recipe(), resume=True, trust=run.trust)
        return replace(made, checkpoint_seconds=run.checkpoint_seconds)

    stages = train_stages(prepared, graph, run.path / STAGES, folder_of, resources, observe, progress)
    for number, end in enumerate(stages.ends):
        RunFolder(run.stage_path(number)).choose(end.result[1])
    kept = stages.ends[stages.kept].prepared
    run.adopt(run.stage_path(stages.kept), own_store=own_store(kept), words=stages.words)
    return run.bundles(), stages.words


def train_stages(
    prepared: Prepared,
    graph: Graph | None,
    folder: Path,
    folder_of: Callable[[Prepared], SeedFolder],
    resources: Resources = LOCAL,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Stages[tuple[dict[int, Bundle], int]]:
    """All stages of a recipe: bundles of all seeds of each, and the best seed. What they begin with is in `folder`."""
    with closing(resources.open_engine()) as engine:

        def fit_stage(stage: Prepared) -> StageEnd[tuple[dict[int, Bundle], int]]:
            told = in_stage(progress, stage.stage) if prepared.recipe.training.stages > 1 else progress
            take = partial(engine.tally, seen_by_all(folder))
            bundles, best = train_seeds(stage, engine.fit, folder_of(stage), take=take, observe=observe, progress=told)
            valid = mean_valid([bundle.report["valid"] for bundle in bundles.values()])
            plain = replace(bundles[best], temperature=1.0)
            return StageEnd(stage, (bundles, best), valid, plain.model)

        def begin(stage: int, before: StageEnd[Any]) -> StageStart:
            return teach(
                prepared, before, graph, folder / str(stage), engine,
                stage=stage, device=choose_device(resources.device), progress=in_stage(progress, stage),
            )  # fmt: skip

        return run_stages(prepared, fit_stage, begin)


def _start_from(prepared: Prepared, warm: str | Path, out: Path, trust: Trust) -> tuple[Prepared, str]:
    """Weights to start from, kept with the run: it can go on when they are gone."""
    bundle, place = warm_bundle(warm, trust), out / _WARM
    check_warm(prepared, bundle)
    bundle.save(place)
    said = f"training starts from the weights of '{warm}' (epoch {bundle.report.get('epoch', '?')})"
    return replace(prepared, warm=str(place)), said


def _note_seen(
    run: RunFolder, prepared: Prepared, graph: Graph | None, valid_graph: Graph | None, take: TakeTally
) -> None:
    """Of a store the ids are not known here: `gamlp evaluate` finds them where its graph can be opened."""
    if graph is None or Place.of(run.seen_path).exists():
        return
    if valid_graph is None:
        write_seen(run.seen_path, seen_of(prepared.store, graph, ("train", "valid"), take))
        return
    labels, split, rows = graph.nodes.labels, graph.nodes.split, valid_rows(valid_graph)
    assert labels is not None and split is not None
    trained = (seen_hashes(graph, some[labels.known_at(some)]) for some in split.parts("train"))
    chosen = (seen_hashes(valid_graph, rows[begin:end]) for begin, end in row_ranges(len(rows), _ROWS))
    write_seen(run.seen_path, chain(trained, chosen))


def check_start(source: Source, recipe: Recipe, out: Path) -> None:
    """Refuse a folder that holds something else, and what cannot be trained, before anything is written."""
    _check_free(out)
    _check_makes(source, recipe)


def _drawn(bundles: dict[int, Bundle]) -> list[str]:
    """A sentence where a model was solved from some of its training rows."""
    for bundle in bundles.values():
        rows, there = int(bundle.report.get("solved", {}).get("rows", 0)), bundle.report["train_rows"]
        if 0 < rows < there:
            name = bundle.recipe.model.name
            return [f"'{name}' learned from {rows:,} of the {there:,} training rows, drawn by the seed"]
    return []


def _blended(bundles: dict[int, Bundle]) -> list[str]:
    """A sentence for each seed that is several models."""
    said = {seed: blend_words(bundle.report) for seed, bundle in bundles.items()}
    return [f"seed {seed} is {words}" for seed, words in said.items() if words is not None]


def _check_free(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise GamlpError("is a file where a folder is to be written", file=out, hint="choose another --out")
    if out.is_dir() and any(path.name not in _OWN and not path.name.startswith(".") for path in out.iterdir()):
        raise GamlpError("is not empty and holds no run", file=out, hint="choose another --out")


def _check_makes(source: Source, recipe: Recipe) -> None:
    """Labels of two classes, and a model that can be made: known before hops are propagated."""
    if source.store is not None:
        prepared = from_store(source.store, recipe)
        make_model(recipe, prepared.shape)
        return
    graph = source.opened
    check_trainable(graph, recipe)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    counts = LabelCounts.of_parts(split.parts("train"), labels)
    if not counts.rows:
        raise GamlpError(f"no training row of graph '{graph.name}' has a label", hint="mark labelled rows 'train'")
    if not labels.multi_label and len(present := counts.present) < 2:
        raise GamlpError(
            f"every training row is '{labels.classes[present[0]]}'", hint="training needs at least two classes"
        )
    make_model(recipe, expected_shape(graph, recipe))
