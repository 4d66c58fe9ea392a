"""Whether neighbours agree: how often an edge between labelled nodes joins equal labels, and how often by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.graph import Graph, Labels, Relation

MOST_ENTRIES = 20_000_000  # of the rows that are asked about; of more, rows are drawn
_CHUNK = 1 << 20  # entries (with many labels a node: entries × classes) that are looked at at a time


@dataclass(frozen=True)
class Homophily:
    """`agree`: of a node's labels at one end of an edge, the share that the other end has too.

    `chance`: the same for ends that are joined at random, each as often as it has edges. `edges` counts what was
    looked at, an undirected edge twice; `sampled`: some of the rows were drawn for it.
    """

    agree: float
    chance: float
    edges: int
    sampled: bool = False

    @property
    def above_chance(self) -> float:
        """(agree - chance) / (1 - chance): 1 where all neighbours agree, 0 where they do as often as by chance."""
        return (self.agree - self.chance) / (1 - self.chance) if self.chance < 1 else 0.0


def edge_homophily(
    graph: Graph, rows: Array, *, labels: Labels | None = None, most: int = MOST_ENTRIES, seed: int = 0
) -> Homophily | None:
    """Over edges whose both ends are among `rows` (training rows: no other label is looked at).

    Of relations that join the target type with itself; None where there is no such edge. `labels` are the graph's own
    unless they are given.

    >>> labels = Labels(np.array([0, 0, 1, 1], np.int32), ("a", "b"))
    >>> path = Graph.from_arrays([[0, 1, 2], [1, 2, 3]], np.eye(4), labels)
    >>> edge_homophily(path, np.arange(4))
    Homophily(agree=0.6666666666666666, chance=0.5, edges=6, sampled=False)
    """
    labels = graph.nodes.labels if labels is None else labels
    if labels is None:
        return None
    relations = [one for one in graph.relations.values() if one.source == one.target == graph.target and one.blocks]
    rows = np.asarray(rows, np.int64)
    wanted = np.zeros(graph.nodes.count, bool)
    wanted[rows] = True
    wanted &= labels.known()
    chosen = np.flatnonzero(wanted)
    degrees = sum((relation.degrees()[chosen] for relation in relations), np.zeros(len(chosen), np.int64))
    sampled = int(degrees.sum()) > most
    if sampled:
        order = np.random.default_rng(seed).permutation(len(chosen))
        chosen = np.sort(chosen[order[: max(1, int(np.searchsorted(np.cumsum(degrees[order]), most)))]])
    counts, size = _Counts(labels), max(1, _CHUNK // (len(labels.classes) if labels.multi_label else 1))
    for relation in relations:
        for ends, others in _entries(relation, chosen, size):
            inside = wanted[others]
            counts.add(ends[inside], others[inside])
    return counts.found(sampled)


class _Counts:
    """Labels at either end of edges, and how many both ends have."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.here, self.there = np.zeros(len(labels.classes)), np.zeros(len(labels.classes))
        self.both, self.edges = 0.0, 0

    def add(self, ends: Array, others: Array) -> None:
        if self.labels.multi_label:
            one, other = self.labels.hot(ends), self.labels.hot(others)
            here, there, both = one.sum(0), other.sum(0), float(np.einsum("ec,ec->", one, other))
        else:
            one, other = self.labels.values[ends], self.labels.values[others]
            here, there = (np.bincount(classes, minlength=len(self.here)) for classes in (one, other))
            both = float(np.count_nonzero(one == other))
        self.here += here
        self.there += there
        self.both += both
        self.edges += len(ends)

    def found(self, sampled: bool) -> Homophily | None:
        labels = self.here.sum()
        if not labels:
            return None
        chance = float(self.here @ self.there / (labels * self.edges))
        return Homophily(self.both / float(labels), chance, self.edges, sampled)


def _entries(relation: Relation, rows: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """(row, neighbour) of the entries of these rows, `size` at a time however many neighbours a row has."""
    for block in relation.blocks:
        own = rows[(rows >= block.start) & (rows < block.stop)]
        if not len(own):
            continue
        begins = np.asarray(block.offsets[own - block.start])
        ends = np.cumsum(np.asarray(block.offsets[own - block.start + 1]) - begins)
        for first in range(0, int(ends[-1]), size):
            at = np.arange(first, min(first + size, int(ends[-1])))
            row = np.searchsorted(ends, at, side="right")
            before = np.concatenate([[0], ends])[row]
            yield own[row], np.asarray(block.neighbours[begins[row] + at - before])
