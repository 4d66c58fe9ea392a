"""One method at one size: seconds of its parts and peak memory, measured in a process of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gamlp.bench.own_process import in_own_process
from gamlp.graph import Graph, Split
from gamlp.peers import Report, Workspace, run
from gamlp.recipe import Recipe, load_yaml
from gamlp.run import Resources

_ENOUGH_SECONDS = 8.0  # a point that took longer is not repeated


def measure_in_process(graph: Path, recipe: Recipe, repeats: int, scratch: Path) -> dict[str, Any]:
    """`measure_here` in a process of its own, on one thread."""
    content: dict[str, Any] = in_own_process(_measure, graph, recipe.to_yaml(), repeats, scratch)
    return content


def _measure(graph: Path, recipe: str, repeats: int, scratch: Path) -> dict[str, Any]:
    return measure_here(Graph.open(graph), Recipe.of(load_yaml(recipe)), repeats, scratch)


def measure_here(graph: Graph, recipe: Recipe, repeats: int, scratch: Path) -> dict[str, Any]:
    """Seconds of preparation, of an epoch and of inference, each the least of the repeats; peak memory of the first.

    Before it, a small graph is run once, so that nothing is imported or set up within the measurement.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    assert graph.nodes.features is not None and graph.nodes.labels is not None
    small = _small(graph.nodes.features.width, len(graph.nodes.labels.classes))
    _timed(small, recipe.changed({"training.epochs": 1}), scratch)
    begun = time.monotonic()
    first, epoch = _timed(graph, recipe, scratch)
    seconds = [(first.seconds.preparation, epoch, first.seconds.inference)]
    while len(seconds) < repeats and time.monotonic() - begun < _ENOUGH_SECONDS:
        report, epoch = _timed(graph, recipe, scratch)
        seconds.append((report.seconds.preparation, epoch, report.seconds.inference))
    preparation, epoch, inference = np.min(seconds, axis=0).tolist()
    return {
        "seconds.preparation": preparation,
        "seconds.training": epoch,
        "seconds.inference": inference,
        "peak_memory": first.peak_memory,
        "parameters": first.parameters,
        "repeats": len(seconds),
    }


def _timed(graph: Graph, recipe: Recipe, scratch: Path) -> tuple[Report, float]:
    """A run with hops made anew, and its quickest epoch: the first one also reads the rows into memory."""
    ends: list[float] = []
    with TemporaryDirectory(dir=scratch) as folder:
        workspace = Workspace(Path(folder), Resources(threads=1), observe=lambda line: ends.append(time.monotonic()))
        report = run(graph, recipe, 0, workspace)
    took = np.diff(ends)
    return report, float(took.min()) if len(took) else report.seconds.training / max(1, report.epochs)


def _small(features: int, classes: int) -> Graph:
    count = max(64, 4 * classes)
    around = np.arange(count)
    graph = Graph.from_arrays(
        [around, (around + 1) % count],
        np.random.default_rng(0).standard_normal((count, features)).astype(np.float32),
        around % classes,
        split=Split((1 + 2 * (around >= count // 2)).astype(np.int8)),
    )
    return replace(graph, name="small")
