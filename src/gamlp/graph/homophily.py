"""Whether neighbours agree: how often an edge between labelled nodes joins equal labels, and how often by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.graph.graph import Graph, Labels, Relation
from gamlp.graph.id_hash import hash_key, id_hashes
from gamlp.graph.sent_parts import TargetRelations, relation_degrees
from gamlp.io import State

MOST_ENTRIES = 20_000_000  # of the rows that are asked about; of more, a share of the rows is
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
    relations = TargetRelations(graph).among_targets
    rows = np.asarray(rows, np.int64)
    wanted = np.zeros(graph.nodes.count, bool)
    wanted[rows] = True
    wanted &= labels.known()
    chosen = np.flatnonzero(wanted)
    share = drawn_share(sum(int(relation_degrees(relation, chosen).sum()) for relation in relations), most)
    counts = AgreementCounts(labels)
    counts.add_rows(relations, drawn_rows(chosen, share, seed), lambda others: wanted[others])
    return counts.found(share < 1)


def drawn_share(entries: int, most: int = MOST_ENTRIES) -> float:
    """The share of rows that are looked at, so that about `most` entries are; 1: all."""
    return 1.0 if entries <= most else most / entries


def drawn_rows(rows: Array, share: float, seed: int = 0) -> Array:
    """That share of rows, by a hash of their numbers: which of them does not depend on the others."""
    if share >= 1:
        return rows
    hashes = id_hashes(pa.array(np.asarray(rows, np.int64)), hash_key(seed, "homophily"))
    return np.asarray(rows[(hashes >> np.uint64(11)) * 2.0**-53 < share])


class AgreementCounts:
    """Labels at either end of edges, and how many both ends have; what was counted of other rows is merged."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.here, self.there = np.zeros(len(labels.classes)), np.zeros(len(labels.classes))
        self.both, self.edges = 0.0, 0

    def add_rows(self, relations: Sequence[Relation], rows: Array, inside: Callable[[Array], Array]) -> None:
        """Edges of these rows; `inside` says which other ends count."""
        size = max(1, _CHUNK // (len(self.labels.classes) if self.labels.multi_label else 1))
        for relation in relations:
            for ends, others in _entries(relation, rows, size):
                chosen = inside(others)
                self.add(ends[chosen], others[chosen])

    def add(self, ends: Array, others: Array) -> None:
        """Edges whose both ends count."""
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

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        return {"here": self.here, "there": self.there, "both": np.array(self.both), "edges": np.array(self.edges)}

    def merge(self, state: State) -> None:
        """Add what was counted of other rows."""
        self.here, self.there = self.here + state["here"], self.there + state["there"]
        self.both += float(state["both"])
        self.edges += int(state["edges"])

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
