"""The whole path with sensible defaults: tables or a graph → a trained run, its scores, and what it listens to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.explain import WeightsByDegree
from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, as_paths, ingest
from gamlp.io import write_json
from gamlp.progress import Progress, silent
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.report import Observed, listening, write_report
from gamlp.run.predictions import Written
from gamlp.run.runs import Trained, evaluate, predict, train
from gamlp.run.source import Source
from gamlp.run.train import HERE, Resources, evaluate_rows
from gamlp.training.bundle import Bundle
from gamlp.training.device import choose_device
from gamlp.training.run_folder import Origin

_TABLES = "tables.json"


@dataclass(frozen=True)
class Outcome:
    """`test` is None without labelled test rows, `predictions` where the graph was given as a graph."""

    trained: Trained
    test: dict[str, Any] | None
    weights: WeightsByDegree | None
    predictions: Written | None
    report: Path


@dataclass(frozen=True)
class Tables:
    """A user's tables: one of edges and one of nodes, or one for each relation and type by its name."""

    edges: str | dict[str, str]
    nodes: str | dict[str, str]
    joins: dict[str, tuple[str, str]] = field(default_factory=dict)
    target: str | None = None

    def ingest(self, folder: Path, name: str, resources: Resources, progress: Progress) -> None:
        """Their graph."""
        how = IngestOptions(
            as_paths(self.edges),
            as_paths(self.nodes),
            folder,
            memory=resources.memory,
            name=name,
            joins=self.joins,
            target=self.target,
        )
        if resources.spark is None:
            ingest(how, progress)
            return
        from gamlp.spark.ingest.ingest import ingest_on_spark

        ingest_on_spark(resources.spark, self.edges, self.nodes, folder, how, resources.blocks, progress)

    def seen(self, *, by_name: bool) -> list[Any]:
        """What tells these tables from others, and from themselves after a change."""
        places: list[Any] = [
            _seen(table, by_name=by_name)
            if isinstance(table, str)
            else {name: _seen(place, by_name=by_name) for name, place in table.items()}
            for table in (self.edges, self.nodes)
        ]
        about = {name: list(ends) for name, ends in self.joins.items()} | ({"": self.target} if self.target else {})
        return [*places, about] if about else places


def from_tables(tables: Tables, out: Path, *, resources: Resources = HERE, progress: Progress = silent) -> Source:
    """The graph of tables, inside the run folder; ingested once, and other tables are refused there."""
    folder, known = out / "graph", out / _TABLES
    now = tables.seen(by_name=resources.spark is not None)
    if folder.exists():
        before = json.loads(known.read_text()) if known.exists() else None
        if before != now:
            raise GamlpError("holds a run on other tables", file=out, hint="choose another --out")
    else:
        tables.ingest(folder, out.name, resources, progress)
        write_json(known, now)
    return Source(str(folder), Origin(graph="./graph"), Graph.open(folder))


def _seen(name: str, *, by_name: bool) -> list[Any]:
    """A table's place with the size and time of its files; Spark may know it `by_name` alone."""
    table = Path(name)
    if by_name and not table.exists():
        return [name, []]
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
        written = _predict(out, bundle.recipe.model.name, resources, progress)
    weights = listening(bundle, source.graph, store, choose_device(resources.device))
    test = _test(trained, source, store, weights, resources)
    return Outcome(trained, test, weights, written, trained.run.report_path)


def _predict(out: Path, trust: str, resources: Resources, progress: Progress) -> Written | None:
    target = out / "predictions.parquet"
    if resources.spark is None:
        return predict(out, target, trust=trust, resources=resources, progress=progress)
    from gamlp.spark.writing import predict_on_spark

    if (target / "_SUCCESS").exists():  # of a run that was interrupted later
        return None
    return predict_on_spark(out, target, resources=resources, trust=trust, progress=progress)


def best(trained: Trained) -> int:
    """The seed whose bundle is the run's."""
    chosen = Bundle.load(trained.run.bundle_path, trained.recipe.model.name)
    return int(chosen.report["seed"])


def _test(
    trained: Trained, source: Source, store: HopStore, weights: WeightsByDegree | None, resources: Resources
) -> dict[str, Any] | None:
    """Scores of test rows, those of a run that was evaluated before as they are written there; and the report."""
    run, trust = trained.run, trained.recipe.model.name
    split, labels = store.split, store.labels
    known = None if split is None or labels is None else labels.known()
    if split is not None and known is not None and known[split.test].any():
        if run.evaluation_path.exists() and run.report_path.exists():
            found: dict[str, Any] = json.loads(run.evaluation_path.read_text())
            return found
        return evaluate(run, trust=trust, own=source.graph, weights=weights, resources=resources)
    if not run.report_path.exists():
        observed, scores = Observed(source.graph), None
        if split is not None and known is not None and known[split.valid].any():
            rows = split.valid[known[split.valid]]
            scores = evaluate_rows(trained.bundles, store, rows, resources, observed.watch)
        device = choose_device(resources.device)
        write_report(run, trained.bundles, store, observed, scores, part="valid", weights=weights, device=device)
    return None
