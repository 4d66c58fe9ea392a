"""The links of a graph as triples (head, relation, tail) over the nodes of all types, numbered type after type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.graph import Array, Graph

Batch = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Triples:
    """One triple an edge of one direction of each link: 8 bytes each, and the link from where it lies.

    `heads`, `tails`: int32 entities; those of link i end at `stops[i]`. `starts[i]` and `counts[i]` are the first
    entity and the number of entities of the two types, (head, tail), that link i joins.
    """

    heads: Array
    tails: Array
    stops: Array
    starts: Array
    counts: Array

    def __len__(self) -> int:
        return len(self.heads)

    def take(self, rows: Array) -> Batch:
        """Heads, links and tails, int64."""
        links = np.searchsorted(self.stops, rows, side="right")
        return self.heads[rows].astype(np.int64), links, self.tails[rows].astype(np.int64)

    def corrupted(self, batch: Batch, number: int, draws: np.random.Generator) -> tuple[Array, Array]:
        """Other heads and other tails `[b, number]` for every triple, each of the type that its link joins there."""
        heads, links, tails = batch
        return self._others(heads, links, 0, number, draws), self._others(tails, links, 1, number, draws)

    def _others(self, entities: Array, links: Array, end: int, number: int, draws: np.random.Generator) -> Array:
        start, count = self.starts[links, end, None], self.counts[links, end, None]
        drawn = draws.integers(0, np.maximum(count - 1, 1), size=(len(entities), number))
        drawn += drawn >= entities[:, None] - start  # passing over the one that is there: uniform over all others
        return np.asarray(start + drawn % count)  # a type of one node has no other


def entity_starts(graph: Graph) -> dict[str, int]:
    """The first entity of every type."""
    counts = [nodes.count for nodes in graph.node_types.values()]
    return dict(zip(graph.node_types, np.concatenate([[0], np.cumsum(counts)]).tolist()))


def triples_of(graph: Graph) -> Triples:
    """Heads are a relation's sources, tails its targets; weights do not matter."""
    first = entity_starts(graph)
    total = sum(nodes.count for nodes in graph.node_types.values())
    if total >= 1 << 31:
        raise GamlpError(f"{total} nodes are too many to train embeddings of", hint="set relations.missing: mean")
    chosen = [graph.relations[names[0]] for names in graph.links.values()]
    most = sum(relation.entries for relation in chosen)
    heads, tails, stops, done = np.empty(most, np.int32), np.empty(most, np.int32), [], 0
    for relation in chosen:
        for rows, neighbours, _ in relation.edges():
            if not relation.directed and relation.source == relation.target:
                # Both directions are stored: one of them, by parity, so that neither end is mostly the lower number.
                once = (neighbours < rows) == ((neighbours + rows) % 2 == 0)
                rows, neighbours = rows[once], neighbours[once]
            upto = done + len(rows)
            heads[done:upto] = neighbours + first[relation.source]
            tails[done:upto] = rows + first[relation.target]
            done = upto
        stops.append(done)
    ends = [(relation.source, relation.target) for relation in chosen]
    starts = np.array([[first[kind] for kind in pair] for pair in ends], np.int64).reshape(-1, 2)
    counts = np.array([[graph.node_types[kind].count for kind in pair] for pair in ends], np.int64).reshape(-1, 2)
    return Triples(heads[:done], tails[:done], np.asarray(stops, np.int64), starts, counts)
