"""Parts of a graph to train on: its edges by target, what some nodes induce, and sampled neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.peers.contract import options_of
from gamlp.peers.tensors import GraphRows, GraphTensors, Sampler
from gamlp.recipe import Recipe

NEIGHBOURS: dict[str, Any] = {"fanouts": [25, 10]}


@dataclass(frozen=True)
class Incoming:
    """A graph's edges by target (CSR): node v hears from sources[offsets[v] : offsets[v + 1]]."""

    offsets: Array
    sources: Array
    weights: Array | None

    @property
    def degrees(self) -> Array:
        return np.diff(self.offsets)

    def positions(self, nodes: Array) -> tuple[Array, Array]:
        """Where the edges into these nodes stand, node after node, and how many each has."""
        first, counts = self.offsets[nodes], self.offsets[nodes + 1] - self.offsets[nodes]
        before = np.cumsum(counts) - counts
        return np.repeat(first - before, counts) + np.arange(counts.sum()), counts

    def mean_weights(self) -> Array:
        """Of every edge u → v its share in v's mean: w / Σ w, or 1 / d; float32."""
        weights = np.ones(len(self.sources), np.float32) if self.weights is None else self.weights
        targets = np.repeat(np.arange(len(self.offsets) - 1), self.degrees)
        sums = np.bincount(targets, weights, minlength=len(self.offsets) - 1)
        return np.asarray(weights / sums[targets], np.float32)


@dataclass(frozen=True)
class SampledPart(GraphTensors):
    """A sampled part; its edges are sorted by target.

    `within[k]` counts its first nodes, those at most k steps from the rows asked for (empty: in no order): a layer
    need not be computed farther out than it is heard. `normalised`: weights are those of the mean, as they are.
    """

    within: tuple[int, ...] = ()
    normalised: bool = False


def incoming(tensors: GraphTensors) -> Incoming:
    """A graph's edges by target, made once."""
    if "incoming" not in tensors.kept:
        sources, targets = tensors.edges.numpy()
        weights = None if tensors.weights is None else tensors.weights.numpy()
        if np.any(targets[1:] < targets[:-1]):
            order = np.argsort(targets, kind="stable")
            sources, targets, weights = sources[order], targets[order], None if weights is None else weights[order]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=tensors.nodes))])
        tensors.kept["incoming"] = Incoming(offsets, sources, weights)
    found: Incoming = tensors.kept["incoming"]
    return found


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], of a dense matrix or of a sparse one in CSR."""
    if x.layout != torch.sparse_csr:
        return x.index_select(0, rows)
    entries = Incoming(x.crow_indices().numpy(), x.col_indices().numpy(), None)
    found, counts = entries.positions(rows.numpy())
    pick = torch.from_numpy(found)
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
    return torch.sparse_csr_tensor(
        offsets, x.col_indices()[pick], x.values()[pick], (len(rows), x.shape[1]), check_invariants=False
    )


def induced_part(tensors: GraphTensors, nodes: Array, rows: Array) -> tuple[SampledPart, Array]:
    """Nodes (ascending) with every edge between them, rows among them asked for; and where these edges stood."""
    near = incoming(tensors)
    local = np.full(tensors.nodes, -1)
    local[nodes] = np.arange(len(nodes))
    found, counts = near.positions(nodes)
    sources = local[near.sources[found]]
    inside = sources >= 0
    targets = np.repeat(np.arange(len(nodes)), counts)
    found = found[inside]
    edges = np.stack([sources[inside], targets[inside]])
    asked = local[rows]
    return _part(tensors, nodes, edges, found, asked[asked >= 0]), found


def neighbourhood(
    tensors: GraphTensors, rows: Array, fanouts: Sequence[int | None], generator: torch.Generator | None = None
) -> SampledPart:
    """Rows, and step by step the neighbours that they hear: at step k at most `fanouts[k]` a node (None: all).

    Each node draws its neighbours once, without replacement, when it is first reached; all layers use them.
    """
    near = incoming(tensors)
    local = np.full(tensors.nodes, -1)
    local[rows] = np.arange(len(rows))
    nodes, edges, places, within = [rows], [], [], [len(rows)]
    for fanout in fanouts:
        found, counts = _drawn(near, nodes[-1], fanout, generator)
        sources = near.sources[found]
        new = np.unique(sources[local[sources] < 0])
        local[new] = np.arange(within[-1], within[-1] + len(new))
        first = within[-1] - len(nodes[-1])
        edges.append(np.stack([local[sources], first + np.repeat(np.arange(len(counts)), counts)]))
        nodes.append(new)
        places.append(found)
        within.append(within[-1] + len(new))
    asked = np.arange(len(rows))
    return _part(
        tensors, np.concatenate(nodes), np.concatenate(edges, 1), np.concatenate(places), asked, tuple(within)
    )  # fmt: skip


def whole_neighbourhood(tensors: GraphTensors, steps: int) -> GraphTensors:
    """What decides the rows asked for in a net of so many layers, exactly, and no more; made once.

    Exact for nets that weigh what a node hears by what that node alone hears.
    """
    if tensors.rows is None or (isinstance(tensors, SampledPart) and tensors.within):
        return tensors
    made: list[tuple[Tensor, int, SampledPart]] = tensors.kept.setdefault("neighbourhoods", [])
    for rows, depth, part in made:
        if rows is tensors.rows and depth == steps:
            return part
    part = neighbourhood(tensors, tensors.rows.numpy(), [None] * steps)
    made.append((tensors.rows, steps, part))
    return part


def _part(
    tensors: GraphTensors, nodes: Array, edges: Array, places: Array, rows: Array, within: tuple[int, ...] = ()
) -> SampledPart:  # fmt: skip
    weights = incoming(tensors).weights
    origin = torch.from_numpy(nodes)
    return SampledPart(
        take_rows(tensors.x, origin),
        torch.from_numpy(edges),
        None if weights is None else torch.from_numpy(weights[places]),
        torch.from_numpy(rows),
        origin if tensors.origin is None else tensors.origin[origin],
        within=within,
        normalised=isinstance(tensors, SampledPart) and tensors.normalised,
    )


def _drawn(
    near: Incoming, nodes: Array, fanout: int | None, generator: torch.Generator | None
) -> tuple[Array, Array]:  # fmt: skip
    """Edges into these nodes, at most `fanout` each: their places, node after node, and how many each has."""
    degrees = near.offsets[nodes + 1] - near.offsets[nodes]
    if fanout is None or not np.any(degrees > fanout):
        return near.positions(nodes)
    counts = np.minimum(degrees, fanout)
    ranks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    more = degrees > fanout
    ranks[np.repeat(more, counts)] = _subsets(degrees[more], fanout, generator).ravel()
    return np.repeat(near.offsets[nodes], counts) + ranks, counts


def _subsets(sizes: Array, count: int, generator: torch.Generator | None) -> Array:
    """Of each range(size), `count` different numbers (Floyd's algorithm for all at once): `[len(sizes), count]`."""
    uniform = torch.rand((count, len(sizes)), generator=generator, dtype=torch.float64).numpy()
    chosen = np.full((len(sizes), count), -1)
    for step in range(count):
        last = sizes - count + step
        tried = (uniform[step] * (last + 1)).astype(np.int64)
        chosen[:, step] = np.where((chosen == tried[:, None]).any(1), last, tried)
    return chosen


@dataclass(frozen=True)
class NeighbourSampler:
    """Batches of rows in random order, each with its sampled neighbourhood (GraphSAGE)."""

    tensors: GraphTensors
    rows: Array
    fanouts: Sequence[int | None]
    batch: int

    def __call__(self, generator: torch.Generator) -> Iterator[GraphTensors]:
        order = torch.randperm(len(self.rows), generator=generator).numpy()
        for start in range(0, len(order), self.batch):
            yield neighbourhood(self.tensors, self.rows[order[start : start + self.batch]], self.fanouts, generator)


def neighbour_sampler(train: GraphRows[GraphTensors], recipe: Recipe, seed: int) -> Sampler:
    """Neighbour sampling by the recipe's `fanouts`, one a layer."""
    fanouts = options_of(recipe, NEIGHBOURS)["fanouts"]
    if not all(isinstance(one, int) and one > 0 for one in fanouts) or len(fanouts) != recipe.model.layers:
        raise GamlpError(
            f"'model.options.fanouts' is {fanouts} with {recipe.model.layers} layers",
            hint="give one number of neighbours a layer, such as [25, 10]",
        )
    return NeighbourSampler(train.tensors, np.asarray(train.rows, np.int64), fanouts, recipe.training.batch_size)
