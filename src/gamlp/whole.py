"""The whole path with sensible defaults: tables or a graph → a trained run, its scores, and what it listens to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.explain import WeightsByDegree, weights_by_degree
from gamlp.files import write_json
from gamlp.graph.graph import Graph
from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.pipeline import HERE, Resources, rows_of
from gamlp.prediction import Written
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.runs import Trained, evaluate, predict, train
from gamlp.training.bundle import Bundle
from gamlp.training.device import choose_device
from gamlp.training.run_folder import Origin, RunFolder
from gamlp.training.source import Source

_TABLES = "tables.json"


@dataclass(frozen=True)
class Outcome:
    """`test` is None without labelled test rows, `predictions` where the graph was given as a graph."""

    trained: Trained
    test: dict[str, Any] | None
    weights: WeightsByDegree | None
    predictions: Written | None


def from_tables(
    edges: Path, nodes: Path, out: Path, *, memory: int | None = None, progress: Progress = silent
) -> Source:
    """The graph of two tables, inside the run folder; ingested once, and other tables are refused there."""
    folder, known = out / "graph", out / _TABLES
    now = [_seen(edges), _seen(nodes)]
    if folder.exists():
        before = json.loads(known.read_text()) if known.exists() else None
        if before != now:
            raise GamlpError("holds a run on other tables", file=out, hint="choose another --out")
    else:
        ingest(IngestOptions(edges=edges, nodes=nodes, out=folder, memory=memory, name=out.name), progress)
        write_json(known, now)
    return Source(str(folder), Origin(graph="./graph"), Graph.open(folder))


def _seen(table: Path) -> list[Any]:
    """A table's place with the size and time of its files."""
    files = sorted(path for path in table.rglob("*") if path.is_file()) if table.is_dir() else [table]
    if not table.exists():
        raise GamlpError("there is no such table", file=table)
    return [str(table.resolve()), [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]]


def whole(
    source: Source,
    recipe: Recipe,
    out: Path,
    *,
    predictions: bool = False,
    resources: Resources = HERE,
    progress: Progress = silent,
) -> Outcome:
    """Train what is not trained yet, score test rows where there are some, and look at the weights over hops."""
    trained = train(source, recipe, out, resume=True, resources=resources, progress=progress)
    bundle = trained.bundles[best(trained)]
    store = HopStore.open(trained.run.store_path())
    written = None
    if predictions:
        trust = bundle.recipe.model.name
        written = predict(out, out / "predictions.parquet", trust=trust, resources=resources, progress=progress)
    return Outcome(
        trained, _test(trained.run, store, bundle, resources), listening(bundle, source, store, resources), written
    )


def best(trained: Trained) -> int:
    """The seed whose bundle is the run's."""
    chosen = Bundle.load(trained.run.bundle_path, trained.recipe.model.name)
    return int(chosen.report["seed"])


def listening(bundle: Bundle, source: Source, store: HopStore, resources: Resources = HERE) -> WeightsByDegree | None:
    """Weights over hops by degree, of all stored rows or many of them; None where the graph is not at hand."""
    if source.graph is None:
        return None
    kept = store.signals["features"].rows
    rows = np.arange(store.manifest.nodes) if kept is None else np.asarray(kept)
    device = choose_device(resources.device)
    read = rows_of(store, bundle.recipe, rows)
    return weights_by_degree(bundle.model().to(device), read, source.graph.relation.degrees(), device=device)


def _test(run: RunFolder, store: HopStore, bundle: Bundle, resources: Resources) -> dict[str, Any] | None:
    """Scores of test rows, those of a run that was evaluated before as they are written there."""
    split, labels = store.split, store.labels
    if split is None or labels is None or not labels.known()[split.test].any():
        return None
    if run.evaluation_path.exists():
        found: dict[str, Any] = json.loads(run.evaluation_path.read_text())
        return found
    return evaluate(run, trust=bundle.recipe.model.name, resources=resources)
