"""`gamlp run DATASET --model METHOD` for methods without a bundle: reports by seed, scores, predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, digest, fingerprint
from gamlp.io import LOCK, Place, atomic_file, save_array, write_json, write_text
from gamlp.peers.contract import Report, Seconds, Task, Workspace, labelled
from gamlp.peers.registry import method, run
from gamlp.progress import Progress, silent
from gamlp.recipe import Recipe
from gamlp.report import SeedScores, Timings, content_of_probabilities, write_page
from gamlp.run import LOCAL, Resources, Written, write_probabilities
from gamlp.training import METHOD_RUN, best_of, by_time, class_counts, summary, trivial_scores, writing_run

_ROWS = 100_000
_BEFORE = {
    LOCK,
    "graph",
    "tables.json",
    "ingest.json",
    "seeds",
    "recipe.yaml",
}  # may be there before METHOD_RUN


@dataclass(frozen=True)
class Single:
    """A finished run of a method: a report for every seed, and the chances of the best by validation."""

    path: Path
    method: str
    reports: dict[int, Report]
    best: int
    probabilities: Array
    predictions: Written
    multi_label: bool = False
    words: list[str] = field(default_factory=list)  # whether to trust it
    base: dict[str, dict[str, float]] = field(default_factory=dict)  # what a constant answer gets, by part

    def scores(self, part: str) -> dict[str, Any]:
        """Mean and deviation over seeds of `valid` or `test`, and what a constant answer gets."""
        found = summary([getattr(report, part) for report in self.reports.values()])
        return found | ({"base": self.base[part]} if self.base.get(part) else {})


def run_method(
    graph: Graph, recipe: Recipe, out: Path, *, resources: Resources = LOCAL, progress: Progress = silent
) -> Single:
    """Run every seed that the folder lacks, then write scores and predictions of all nodes."""
    with writing_run(out):
        return _run_method(graph, recipe, out, resources, progress)


def _run_method(graph: Graph, recipe: Recipe, out: Path, resources: Resources, progress: Progress) -> Single:
    known = method(recipe.model.name)
    if by_time(graph, recipe):
        raise GamlpError(
            f"'{recipe.model.name}' reads the whole graph, and the split of '{graph.name}' is by time: "
            "training rows would see later edges",
            hint="set propagation.as_of_split false if that is meant",
        )
    before = _others_names(out)
    fresh = _claim(graph, recipe, out)
    reports: dict[int, Report] = {}
    try:
        for seed in recipe.training.seeds:
            reports[seed] = _seed(Task(graph), recipe, seed, out, resources, progress)
    except GamlpError:
        if fresh and not reports:  # nothing was learned: the same --out may be used with a better recipe
            _forget(out, before)
        raise
    best = best_of({seed: report.valid for seed, report in reports.items()}, recipe.training)
    probabilities = np.load(_probabilities_path(out, best), mmap_mode="r", allow_pickle=False)
    labels = graph.nodes.labels
    assert labels is not None
    written = write_probabilities(
        _parts(probabilities),
        len(probabilities),
        labels,
        graph.nodes.ids,
        out / "predictions.parquet",
        progress=progress,
    )
    rows = {part: labels.values[labelled(graph, part)] for part in ("train", "valid", "test")}
    counts = class_counts(rows["train"], len(labels.classes))
    base = {part: trivial_scores(counts, len(rows["train"]), rows[part]) for part in ("valid", "test")}
    single = Single(out, known.name, reports, best, probabilities, written, labels.multi_label, base=base)
    scores = {"seeds": {seed: report.as_json() for seed, report in reports.items()}, **single.scores("test")}
    words = _write_page(single, graph, recipe)
    about = {**scores, "valid": single.scores("valid"), "many": labels.multi_label, "words": words}
    write_json(out / "evaluation.json", about)
    return replace(single, words=words)


def _write_page(single: Single, graph: Graph, recipe: Recipe) -> list[str]:
    """The same report.html that a run of GAMLP gets, without what only a model on hops can tell; its words."""
    reports = single.reports
    seeds = [
        SeedScores(seed, one.valid, one.test, one.epoch, one.epochs, one.seconds.training, one.stopped)
        for seed, one in reports.items()
    ]
    times = Timings(
        max(one.seconds.preparation for one in reports.values()),
        sum(one.seconds.training for one in reports.values()),
        sum(one.seconds.inference for one in reports.values()),
        max(one.peak_memory for one in reports.values()),
    )
    texts = [(single.path / "seeds" / f"{seed}.metrics.jsonl").read_text() for seed in reports]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    content = content_of_probabilities(
        graph, {single.best: single.probabilities}, seeds, recipe,
        lines=lines, timings=times, parameters=reports[single.best].parameters,
    )  # fmt: skip
    write_page(content, single.path / "report.html")
    return [*content["words"]["said"], *content["words"]["doubts"]]


def _claim(graph: Graph, recipe: Recipe, out: Path) -> bool:
    """The folder is new (gives True), or holds the same run."""
    known_by = [fingerprint.structure(graph), fingerprint.features(graph), fingerprint.targets(graph)]
    about = {"graph": digest(known_by), "name": graph.name, "recipe": recipe.model_dump(mode="json")}
    known = out / METHOD_RUN
    if known.exists():
        if json.loads(known.read_text()) != about:
            raise GamlpError("holds another run", file=out, hint="choose another --out")
        return False
    if out.exists() and (not out.is_dir() or any(path.name not in _BEFORE for path in out.iterdir())):
        raise GamlpError("is not empty and holds no run of this method", file=out, hint="choose another --out")
    (out / "seeds").mkdir(parents=True, exist_ok=True)
    write_text(out / "recipe.yaml", recipe.to_yaml())
    write_json(known, about)
    return True


def _others_names(out: Path) -> set[str]:
    """Names of what is in the folder before the run; a graph that was made of tables for it is its own."""
    found = {path.name for path in out.iterdir()}
    return found - {"graph", "tables.json", "ingest.json"} if "tables.json" in found else found


def _forget(out: Path, before: set[str]) -> None:
    """Remove what the run made."""
    for path in out.iterdir():
        if path.name != LOCK and path.name not in before:  # the lock is its holder's to remove
            Place.of(path).remove()


def _seed(task: Task, recipe: Recipe, seed: int, out: Path, resources: Resources, progress: Progress) -> Report:
    """A seed's report, from its file where it was run before."""
    path = out / "seeds" / f"{seed}.json"
    if path.exists():
        content = json.loads(path.read_text())
        return Report(**{**content, "seconds": Seconds(**content["seconds"])})
    lines: list[dict[str, Any]] = []
    workspace = Workspace(out / "hops", resources, probabilities=True, observe=lines.append, progress=progress)
    report = run(task, recipe, seed, workspace)
    assert report.probabilities is not None
    with atomic_file(_probabilities_path(out, seed)) as new:
        save_array(new, report.probabilities)
    write_text(out / "seeds" / f"{seed}.metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write_json(path, report.as_json())
    return replace(report, probabilities=None)


def _probabilities_path(out: Path, seed: int) -> Path:
    return out / "seeds" / f"{seed}.npy"


def _parts(probabilities: Array) -> Iterator[tuple[Array, Array]]:
    for begin in range(0, len(probabilities), _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, len(probabilities)))
        yield rows, np.asarray(probabilities[begin : begin + len(rows)])
