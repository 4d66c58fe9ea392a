"""Labels and predictions spread over edges: label propagation, and Correct & Smooth after any model.

Both are F ← α Â F + (1 - α) F^(0). As in a hop, the recursion runs on Z = D^(-r) F, so that edges need no values.
"""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels
from gamlp.io import available_memory, even_ranges, format_size, parallel_map, usable_cores
from gamlp.kernel import LANES, HopTask, hop
from gamlp.progress import Progress, silent
from gamlp.propagation import Operator, allocate, check_neighbours, factors
from gamlp.recipe import SmoothingSettings

_MATRICES = 6  # n × c at once: predictions, first values, two states, two for sums
_ENTRIES = 100_000  # of a range of rows that one thread takes at a time


def spread(
    graph: Graph,
    first: Array,
    *,
    alpha: float,
    steps: int,
    operator: Operator | None = None,
    held: Array | None = None,
    bounds: tuple[float, float] | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> Array:
    """F ← α Â F + (1 - α) F^(0), `steps` times from F = F^(0) `[n, c]`, towards (1 - α) (I - α Â)^(-1) F^(0).

    After each step the rows `held` (numbers, ascending) are F^(0) again, and values are cut to `bounds`. Beside F^(0)
    there are two matrices in memory, whatever the number of steps.

    >>> path = Graph.from_arrays([[0, 1], [1, 2]], count=3)
    >>> found = spread(path, np.array([[1.0], [0.0], [0.0]]), alpha=0.5, steps=1, operator=Operator(r=0.0))
    >>> [round(float(value), 2) for value in found[:, 0]]
    [0.75, 0.17, 0.0]
    """
    operator = operator or Operator()
    count, width = first.shape
    diagonal = factors(graph.relation, operator, count)
    enter = diagonal.enter
    here, there = (allocate(count, -(-width // LANES) * LANES, "float32") for _ in range(2))
    np.multiply(first, 1.0 if enter is None else enter[:, None], out=here[:, :width], casting="same_kind")
    step = diagonal.step * np.float32(alpha)
    for block in graph.relation.blocks:
        check_neighbours(np.asarray(block.neighbours), count)

    def finish(begin: int, end: int, state: Array) -> None:
        """What a step does to rows after their sum, while they are in the cache."""
        own = state[begin:end, :width]
        factor = 1.0 if enter is None else enter[begin:end, None]
        start = first[begin:end] * factor
        own += np.float32(1 - alpha) * start
        if bounds is not None:
            np.clip(own, bounds[0] * factor, bounds[1] * factor, out=own)
        if held is not None:
            inside = held[slice(*np.searchsorted(held, [begin, end]))] - begin
            own[inside] = start[inside]

    for number in range(1, steps + 1):
        for task, ranges in _tasks(graph, step, operator.loops, here, there, threads or usable_cores()):

            def work(limits: tuple[int, int], task: HopTask = task) -> None:
                hop(task, *limits)
                finish(task.start + limits[0], task.start + limits[1], task.dst)

            for _ in parallel_map(threads or usable_cores(), work, ranges):
                pass
        here, there = there, here
        progress("spread", number, steps, "steps")
    found = here[:, :width]
    if diagonal.leave is not None:
        found *= diagonal.leave[:, None]
    return found


def _tasks(
    graph: Graph, step: Array, loops: bool, src: Array, dst: Array, threads: int
) -> list[tuple[HopTask, list[tuple[int, int]]]]:
    found = []
    for block in graph.relation.blocks:
        offsets, neighbours = np.asarray(block.offsets), np.asarray(block.neighbours)
        weights = None if block.weights is None else np.asarray(block.weights)
        task = HopTask(offsets, neighbours, weights, step, block.start, loops, src, dst)
        found.append((task, even_ranges(offsets, max(threads, min(len(neighbours) // _ENTRIES, threads * 64)))))
    return found


def training_rows(graph: Graph) -> Array:
    """Labelled rows of the split's training part: the only labels that are spread."""
    labels, split = graph.nodes.labels, graph.nodes.split
    if labels is None or split is None or not len(rows := split.train[labels.known_at(split.train)]):
        raise GamlpError(f"graph '{graph.name}' has no labelled training rows", hint="mark labelled rows 'train'")
    return rows


def label_propagation(
    graph: Graph,
    *,
    alpha: float,
    steps: int,
    operator: Operator | None = None,
    clamped: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> Array:
    """Probabilities `[n, c]` of label propagation (Zhou et al., 2004): F / m, m the spread of 1 on training rows.

    With one label a node m is a row's sum. Where no label came, the training rows' class shares stand. `clamped`: a
    training row is its label again after each step (Zhu and Ghahramani, 2002).
    """
    rows = training_rows(graph)
    labels = _labels(graph)
    known = labels.hot(rows)
    first = np.zeros((graph.nodes.count, known.shape[1] + labels.multi_label), np.float32)
    first[rows, : known.shape[1]] = known
    if labels.multi_label:
        first[rows, -1] = 1.0
    found = spread(
        graph, first, alpha=alpha, steps=steps, operator=operator or Operator(loops=False),
        held=rows if clamped else None, threads=threads, progress=progress,
    )  # fmt: skip
    mass = found[:, -1:] if labels.multi_label else found.sum(1, keepdims=True)
    reached = mass > np.finfo(np.float32).tiny
    values = found[:, : known.shape[1]] / np.where(reached, mass, 1.0)
    return np.where(reached, values.clip(0.0, 1.0), known.mean(0)).astype(np.float32, copy=False)


def check_room(graph: Graph, memory: int | None = None) -> None:
    """Refuse a graph whose probabilities, `[n, c]` and what is spread of them, do not fit into the budget."""
    needed = _MATRICES * 4 * graph.nodes.count * len(_labels(graph).classes)
    budget = available_memory() // 2 if memory is None else memory
    if needed > budget:
        raise GamlpError(
            f"Correct & Smooth needs {format_size(needed)} for all nodes at once, beyond {format_size(budget)}",
            hint="give a larger --memory, or leave smoothing out",
        )


def correct_and_smooth(
    graph: Graph,
    probabilities: Array,
    settings: SmoothingSettings,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Array:
    """Probabilities `[n, c]` of Correct & Smooth (Huang et al., 2021) after those of a model, from training labels."""
    if probabilities.shape != (graph.nodes.count, len(_labels(graph).classes)):
        raise GamlpError(
            f"predictions of shape {probabilities.shape} "
            f"are not those of the {graph.nodes.count:,} nodes of '{graph.name}'"
        )
    found = probabilities
    if settings.correct_steps:
        found = correct(graph, found, settings, threads=threads, progress=progress)
    if settings.smooth_steps:
        found = smooth(graph, found, settings, threads=threads, progress=progress)
    found = found.clip(0.0, 1.0)
    if _labels(graph).multi_label:
        return found
    total = found.sum(1, keepdims=True)
    return np.where(total > 0, found / np.where(total > 0, total, 1.0), probabilities).astype(np.float32, copy=False)


def correct(
    graph: Graph,
    probabilities: Array,
    settings: SmoothingSettings,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Array:
    """Z + σ_i Ê_i, where Ê spreads the errors E = Y - Z of training rows, zero elsewhere.

    Autoscale: σ_i = mean |E_j|₁ over training rows / |Ê_i|₁, and |Ê| ≤ 1 on the way. Fixed scale: σ = s, and training
    rows keep their errors on the way. Rows that no error reaches stay as they are.
    """
    rows = training_rows(graph)
    error = np.zeros(probabilities.shape, np.float32)
    error[rows] = _labels(graph).hot(rows) - probabilities[rows]
    found = spread(
        graph, error, alpha=settings.correct_alpha, steps=settings.correct_steps, operator=_operator(settings),
        held=None if settings.autoscale else rows, bounds=(-1.0, 1.0) if settings.autoscale else None,
        threads=threads, progress=progress,
    )  # fmt: skip
    if not settings.autoscale:
        found *= np.float32(settings.scale)
        return probabilities + found
    size = np.abs(found).sum(1, keepdims=True)
    wanted = float(np.abs(error[rows]).sum(1).mean())
    # As in the authors' code: an error a thousand times smaller than the mean is noise, not a direction to go.
    found *= np.where(size * 1000 > wanted, wanted / np.where(size > 0, size, 1.0), 1.0)
    return probabilities + found


def smooth(
    graph: Graph,
    probabilities: Array,
    settings: SmoothingSettings,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Array:
    """H ← α Â H + (1 - α) H^(0), cut to [0, 1]; H^(0) is Y on training rows and the (corrected) Z elsewhere.

    Many labels a node are each divided by the spread of ones, which is what a row's sum is with one label.
    """
    rows = training_rows(graph)
    labels = _labels(graph)
    first = np.ones((len(probabilities), probabilities.shape[1] + labels.multi_label), np.float32)
    first[:, : probabilities.shape[1]] = probabilities
    first[rows, : probabilities.shape[1]] = labels.hot(rows)
    found = spread(
        graph, first, alpha=settings.smooth_alpha, steps=settings.smooth_steps, operator=_operator(settings),
        bounds=None if labels.multi_label else (0.0, 1.0), threads=threads, progress=progress,
    )  # fmt: skip
    return found[:, :-1] / found[:, -1:] if labels.multi_label else found


def _operator(settings: SmoothingSettings) -> Operator:
    return Operator(r=settings.r, loops=False)


def _labels(graph: Graph) -> Labels:
    if graph.nodes.labels is None:
        raise GamlpError(f"graph '{graph.name}' has no labels", hint="ingest a label column")
    return graph.nodes.labels
