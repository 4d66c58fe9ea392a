"""The links of a graph as triples (head, relation, tail) over the nodes of all types, numbered type after type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.graph import Array, Graph


@dataclass(frozen=True)
class Triples:
    """One triple an edge of one direction of each link: 8 bytes each; its place says its link.

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

    def batches(self, rows: Array, size: int, draws: np.random.Generator) -> Iterator[tuple[int, Array]]:
        """(link, rows) of all ascending `rows` in random order, a batch of one link only: its negatives are shared."""
        bounds = np.searchsorted(rows, np.concatenate([[0], self.stops]))
        parts = list(pairwise(bounds.tolist()))
        order = np.concatenate([draws.permutation(rows[begin:end]) for begin, end in parts])
        cuts = [
            (link, at, min(at + size, end)) for link, (begin, end) in enumerate(parts) for at in range(begin, end, size)
        ]
        for which in draws.permutation(len(cuts)):
            link, begin, end = cuts[which]
            yield link, order[begin:end]

    def others(self, link: int, number: int, draws: np.random.Generator) -> tuple[Array, Array]:
        """Heads and tails to corrupt triples with: of the types that the link joins, all of them where they are few."""
        heads, tails = (
            start + (np.arange(count) if count <= number else draws.integers(0, count, number))
            for start, count in zip(self.starts[link], self.counts[link])
        )
        return heads, tails


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
