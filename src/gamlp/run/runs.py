"""From names and folders to trained runs, scores and predictions: what the verbs do."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.explain import Explanation, WeightsByDegree, explain_model
from gamlp.graph import Graph, digest, fingerprint, rows_by_id
from gamlp.graph.datasets.load import open_or_load
from gamlp.io import PeakMemory
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.report import Observed, write_report
from gamlp.run.predictions import Written, check_suffix, choose_rows, write_predictions
from gamlp.run.prepare import from_store, plan_of, without_folds
from gamlp.run.source import Source, settled
from gamlp.run.train import HERE, Resources, evaluate_rows, evaluate_run, hops_for, prepare, summary, train_run
from gamlp.training.bundle import Bundle, make_model
from gamlp.training.checks import check_store, check_trainable, with_classes
from gamlp.training.device import choose_device
from gamlp.training.loop import Observe
from gamlp.training.run_folder import About, RunFolder
from gamlp.training.typed import expected_shape

_OWN = {"hops", "made", "training-hops", "training-graph", "graph", "seeds", "recipe.yaml", "tables.json"}
_IN_RUN = "./"  # an origin that begins so lies inside the run folder, and moves with it


@dataclass(frozen=True)
class Trained:
    """A finished run. `notes` are sentences a person should read."""

    run: RunFolder
    recipe: Recipe
    bundles: dict[int, Bundle]
    notes: list[str] = field(default_factory=list)

    @property
    def valid(self) -> dict[str, Any] | None:
        """Mean and deviation over seeds, or None without validation rows."""
        reports = [bundle.report["valid"] for bundle in self.bundles.values()]
        return summary(reports) if reports[0] else None

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
    source: Source,
    recipe: Recipe,
    out: Path,
    *,
    valid: Source | None = None,
    resume: bool = False,
    resources: Resources = HERE,
    observe: Observe | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train every seed into a run folder. What can be refused is refused before anything is written."""
    valid_graph = None if valid is None else valid.opened
    recipe, notes = settled(source, recipe, valid_graph)
    about = About(
        graph=source.origin,
        valid_graph=None if valid is None else valid.origin,
        store="hops" if source.store is None else source.store.place.resolved().url,
    )
    choose_device(resources.device)
    run = RunFolder.create(out, about, recipe, resume=resume) if (out / "run.json").exists() else None
    if run is None:
        _check_free(out)
        _check_makes(source, recipe)
    fresh, finished = run is None, run is not None and run.bundle_path.exists()
    with PeakMemory() as peak:
        begun = time.monotonic()
        if source.store is not None:
            prepared = from_store(source.store, recipe)
        else:
            prepared = prepare(
                source.opened, recipe, out, valid_graph=valid_graph, resources=resources, progress=progress
            )
        took = time.monotonic() - begun
        run = run or RunFolder.create(out, about, recipe, resume=resume)
        kept = run.timings()
        if not finished and source.store is None:  # an interrupted propagation goes on: its parts add up
            run.note_timings(preparation=kept.get("preparation", 0.0) + took)
        try:
            bundles = train_run(prepared, run, resources=resources, observe=observe, progress=progress)
        except GamlpError:
            if fresh:  # nothing was learned: the same --out may be used with a better recipe
                run.forget()
            raise
    if not finished:
        run.note_timings(peak_memory=max(kept.get("peak_memory", 0), peak.bytes))
    return Trained(run, recipe, bundles, notes)


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
    check_trainable(graph)
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    train = split.train[labels.known()[split.train]]
    if not len(train):
        raise GamlpError(f"no training row of graph '{graph.name}' has a label", hint="mark labelled rows 'train'")
    if not labels.many and len(present := np.unique(labels.values[train])) < 2:
        raise GamlpError(
            f"every training row is '{labels.classes[present[0]]}'", hint="training needs at least two classes"
        )
    make_model(recipe, expected_shape(graph, recipe))


def evaluate(
    run: RunFolder,
    graph: Graph | None = None,
    *,
    trust: str | None = None,
    own: Graph | None = None,
    weights: WeightsByDegree | None = None,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Scores of the run's own test rows, or of another graph's labelled rows: its test rows where it has some.

    Writes the report. `own` is the run's graph and `weights` are its weights over hops, where they are known already.
    """
    bundles, device = run.bundles(trust), choose_device(resources.device)
    if graph is None:
        store, begun = HopStore.open(run.store_path()), time.monotonic()
        observed = Observed(own or _graph_at_hand(run, store, progress))
        report = evaluate_run(run, trust=trust, resources=resources, watching=observed.watch)
        run.note_timings(evaluation=time.monotonic() - begun)
        page = write_report(run, bundles, store, observed, report, weights=weights, device=device)
        return {**report, "many": next(iter(bundles.values())).many, "report": str(page)}
    bundle = next(iter(bundles.values()))
    graph = with_classes(graph, bundle.classes)
    labels, split = graph.nodes.labels, graph.nodes.split
    known = np.zeros(0, bool) if labels is None else labels.known()
    if not known.any():
        raise GamlpError(f"graph '{graph.name}' has no labels to compare with", hint="gamlp predict needs none")
    test = split is not None and known[split.test].any()
    rows = split.test[known[split.test]] if split is not None and test else np.flatnonzero(known)
    with _hops_beside(bundle, graph, run.path, resources, progress) as store:
        observed, part = Observed(graph), "test" if test else "labelled"
        report = evaluate_rows(bundles, store, rows, resources, observed.watch)
        page = write_report(run, bundles, store, observed, report, part=part, elsewhere=graph.name, device=device)
    return {"graph": graph.name, "part": part, **report, "many": bundle.many, "report": str(page)}


def _graph_at_hand(run: RunFolder, store: HopStore, progress: Progress) -> Graph | None:
    try:
        return graph_of(run, store, progress)
    except GamlpError:
        return None  # the report then names nodes by their rows


def predict(
    place: Path,
    out: Path,
    *,
    graph: Graph | None = None,
    rows: str = "all",
    each_class: bool = True,
    batch_size: int | None = None,
    trust: str | None = None,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Written:
    """Predictions of a run's own graph, or of another one, for a run folder or a bare bundle."""
    check_suffix(out)
    device = choose_device(resources.device)
    with opened(place, graph, out.parent, trust=trust, resources=resources, progress=progress) as read:
        return write_predictions(
            read.bundle, read.store, read.graph.nodes.ids, out,
            rows=choose_rows(read.store, rows), each_class=each_class, batch_size=batch_size, device=device,
            progress=progress,
        )  # fmt: skip


def explain(
    place: Path,
    ids: Sequence[str] = (),
    *,
    graph: Graph | None = None,
    beside: Path | None = None,
    trust: str | None = None,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Explanation:
    """Explain a run folder, or a bundle on a graph, and the nodes of these ids.

    Hops of another graph are made in `beside` for as long as they are needed. (default: where the run or bundle is)
    """
    folder = beside or (place.parent if place.is_file() else place)
    if graph is not None:
        rows_by_id(graph, ids)  # a misspelt id is told before hops are made
    with opened(place, graph, folder, trust=trust, resources=resources, progress=progress) as read:
        return explain_model(read.bundle, read.store, read.graph, ids, choose_device(resources.device))


@dataclass(frozen=True)
class Opened:
    """A trained model with the nodes it is asked about."""

    bundle: Bundle
    store: HopStore
    graph: Graph


@contextmanager
def opened(
    place: Path,
    graph: Graph | None,
    beside: Path,
    *,
    trust: str | None = None,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Iterator[Opened]:
    """A run folder with its own graph, or a run or a bare bundle with another one, whose hops are made in `beside`."""
    run = None if place.is_file() else RunFolder.open(place)
    bundle = Bundle.load(place if run is None else run.bundle_path, trust)
    if graph is not None:
        with _hops_beside(bundle, graph, beside, resources, progress) as store:
            yield Opened(bundle, store, graph)
        return
    if run is None:
        raise GamlpError("a bundle alone knows no nodes", file=place, hint="say which: --graph GRAPH")
    if not (run.store_path() / "store.json").exists():
        raise GamlpError("the hops of the run are gone", file=run.store_path(), hint="give its graph: --graph GRAPH")
    store = HopStore.open(run.store_path())
    check_store(store, without_folds(plan_of(bundle.recipe)))
    yield Opened(bundle, store, graph_of(run, store, progress))


def graph_of(run: RunFolder, store: HopStore, progress: Progress = silent) -> Graph:
    """The graph that a run's hops were made of, opened again."""
    about = run.about()
    origin = about.valid_graph or about.graph
    if origin is None:
        raise GamlpError("the run does not know its graph's place", file=run.path, hint="say it: --graph GRAPH")
    inside = origin.graph.startswith(_IN_RUN)
    place = str(run.path / origin.graph) if inside else origin.graph
    try:
        graph = open_or_load(place, origin.data_dir, origin.seed, progress)
    except GamlpError as error:
        raise GamlpError(f"the run's graph '{place}' cannot be opened", file=run.path, hint="--graph GRAPH") from error
    if fingerprint.structure(graph) != store.manifest.structure:
        raise GamlpError(
            f"the run's graph '{place}' has changed since training", file=run.path, hint="predict with --graph GRAPH"
        )
    return graph


@contextmanager
def _hops_beside(
    bundle: Bundle, graph: Graph, place: Path, resources: Resources, progress: Progress
) -> Iterator[HopStore]:
    """Hops of another graph for as long as they are needed; an interrupted propagation is gone on with."""
    said = bundle.recipe.model_dump(mode="json")
    key = [fingerprint.structure(graph), graph.name, said["propagation"], said["relations"]]
    folder = place / f".hops-{digest(key)}"
    try:
        yield hops_for(bundle, graph, folder, resources, progress)
    except KeyboardInterrupt:
        raise
    except Exception:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
