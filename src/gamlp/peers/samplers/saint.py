"""GraphSAINT's parts: subgraphs drawn at random, with what makes their mean and their loss unbiased."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.peers.contract import options_of
from gamlp.peers.samplers.neighbours import Incoming, incoming, induced_part
from gamlp.peers.tensors import GraphRows, GraphTensors, Sampler
from gamlp.recipe import Recipe

SAINT: dict[str, Any] = {"sampler": "walk", "roots": 2000, "steps": 2, "budget": 1000, "coverage": 50}
_PATIENCE = 1000  # draws in a row without a row to train on
_BEFORE = 0x5A1  # the draws that estimate have random numbers of their own
DrawNodes = Callable[[torch.Generator], Array]


@dataclass(frozen=True)
class Corrections:
    """From C(v) and C(u → v), how often N drawn parts held a node or an edge.

    `mean[u → v]` = Ã(v, u) · C(v) / C(u → v), so that E[Σ mean · h | v is in] = Σ Ã h; `share[v]` = N / (C(v) rows),
    so that E[Σ share · loss] = mean loss. What was never drawn counts as drawn once. `parts`: in an epoch.
    """

    mean: Array
    share: Array
    parts: int


@dataclass(frozen=True)
class SaintSampler:
    """An epoch: so many drawn node sets, each with every edge inside it, corrected."""

    tensors: GraphTensors
    rows: Array
    draw: DrawNodes
    corrections: Corrections

    def __call__(self, generator: torch.Generator) -> Iterator[GraphTensors]:
        for _ in range(self.corrections.parts):
            nodes, rows = drawn_with_rows(self.draw, self.rows, generator)
            part, edges = induced_part(self.tensors, nodes, rows)
            yield replace(
                part,
                weights=torch.from_numpy(self.corrections.mean[edges]),
                share=torch.from_numpy(self.corrections.share[rows]),
                normalised=True,
                kept={},
            )


def drawn_with_rows(draw: DrawNodes, rows: Array, generator: torch.Generator) -> tuple[Array, Array]:
    """A node set that holds some of the rows, and those rows."""
    for _ in range(_PATIENCE):
        nodes = draw(generator)
        found = np.intersect1d(nodes, rows, assume_unique=True)
        if len(found):
            return nodes, found
    raise GamlpError(
        f"{_PATIENCE} drawn parts held no row to train on", hint="raise model.options.budget, or draw by walk"
    )


def estimate(
    tensors: GraphTensors, rows: Array, draw: DrawNodes, coverage: int, generator: torch.Generator
) -> Corrections:
    """Draw parts until a row was in `coverage` of them on average, and count."""
    near = incoming(tensors)
    of_nodes, of_edges = np.zeros(tensors.nodes, np.int64), np.zeros(len(near.sources), np.int32)
    parts = held = 0
    while held < coverage * len(rows) or not parts:
        nodes, found = drawn_with_rows(draw, rows, generator)
        of_nodes[nodes] += 1
        of_edges[edges_inside(near, nodes)] += 1
        parts, held = parts + 1, held + len(found)
    of_nodes, of_edges = np.maximum(of_nodes, 1), np.maximum(of_edges, 1)
    targets = np.repeat(np.arange(tensors.nodes), near.degrees)
    mean = (near.mean_weights() * of_nodes[targets] / of_edges).astype(np.float32)
    share = (parts / (of_nodes * len(rows))).astype(np.float32)
    return Corrections(mean, share, max(1, round(parts * len(rows) / held)))


def edges_inside(near: Incoming, nodes: Array) -> Array:
    """Places of the edges with both ends among the nodes."""
    inside = np.zeros(len(near.offsets) - 1, bool)
    inside[nodes] = True
    found, _ = near.positions(nodes)
    return np.asarray(found[inside[near.sources[found]]])


def walks(near: Incoming, starts: Array, roots: int, steps: int) -> DrawNodes:
    """Nodes of `roots` random walks of `steps` steps, begun at random `starts`; who has no neighbour stays."""
    degrees = near.degrees

    def draw(generator: torch.Generator) -> Array:
        uniform = torch.rand((steps + 1, roots), generator=generator, dtype=torch.float64).numpy()
        here = starts[(uniform[0] * len(starts)).astype(np.int64)]
        seen = [here]
        for numbers in uniform[1:]:
            walking = degrees[here] > 0
            step = near.offsets[here[walking]] + (numbers[walking] * degrees[here[walking]]).astype(np.int64)
            here = here.copy()
            here[walking] = near.sources[step]
            seen.append(here)
        return np.unique(np.concatenate(seen))

    return draw


def nodes_by_norm(near: Incoming, budget: int) -> DrawNodes:
    """`budget` draws of nodes, u with probability ∝ ‖Ã(:, u)‖²."""
    squares = np.bincount(near.sources, near.mean_weights().astype(np.float64) ** 2, len(near.offsets) - 1)
    chosen = _by_weight(squares, budget)
    return lambda generator: np.unique(chosen(generator))


def edges_by_degree(near: Incoming, budget: int) -> DrawNodes:
    """The ends of `budget` drawn edges, u → v with probability ∝ 1/d(u) + 1/d(v)."""
    targets = np.repeat(np.arange(len(near.offsets) - 1), near.degrees)
    inverse = 1 / np.maximum(near.degrees, 1)
    chosen = _by_weight(inverse[near.sources] + inverse[targets], budget)

    def draw(generator: torch.Generator) -> Array:
        edges = chosen(generator)
        return np.unique(np.concatenate([near.sources[edges], targets[edges]]))

    return draw


def _by_weight(weights: Array, count: int) -> DrawNodes:
    """`count` draws with replacement, each place by its weight."""
    if not len(weights) or not weights.sum():
        raise GamlpError("a graph without edges has none to sample by", hint="draw by walk: model.options.sampler")
    ends = np.cumsum(weights / weights.sum())

    def draw(generator: torch.Generator) -> Array:
        uniform = torch.rand(count, generator=generator, dtype=torch.float64).numpy()
        return np.asarray(np.searchsorted(ends, uniform * ends[-1], side="right").clip(max=len(ends) - 1))

    return draw


def saint_sampler(train: GraphRows[GraphTensors], recipe: Recipe, seed: int) -> Sampler:
    """GraphSAINT by the recipe. Walks begin at rows to train on: of a training graph, these are all its nodes."""
    options = options_of(recipe, SAINT)
    near, rows = incoming(train.tensors), np.unique(np.asarray(train.rows, np.int64))
    kind, budget = options["sampler"], max(1, options["budget"])
    if kind == "walk":
        draw = walks(near, rows, max(1, options["roots"]), options["steps"])
    elif kind in ("node", "edge"):
        draw = nodes_by_norm(near, budget) if kind == "node" else edges_by_degree(near, budget)
    else:
        raise GamlpError(f"'model.options.sampler' is '{kind}'", hint="choose from walk, node, edge")
    state = int(np.random.SeedSequence([seed, _BEFORE]).generate_state(1, np.uint64)[0] >> 1)
    generator = torch.Generator().manual_seed(state)
    corrections = estimate(train.tensors, rows, draw, max(1, options["coverage"]), generator)
    return SaintSampler(train.tensors, rows, draw, corrections)
