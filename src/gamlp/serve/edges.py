"""Edges that a new node brings → whom it hears and who hears it, by relation; and as one list in a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Graph, View
from gamlp.serve.ids import IdBook
from gamlp.serve.questions import Ends, Id, NewNode, Refusal

_LARGEST = 1e30  # of a weight: its inverse must fit float32, as in a table


@dataclass(frozen=True)
class HeardRows:
    """Rows of one type, ascending and each once, and what their edges weigh together (None: one each)."""

    rows: Array
    weights: Array | None

    @property
    def total(self) -> float:
        """Σ of weights: a part of a degree."""
        return float(len(self.rows) if self.weights is None else self.weights.sum())


@dataclass
class NodeEdges:
    """By relation: rows that a new node hears, and rows that hear it. `notes`: what was dropped."""

    hears: dict[str, HeardRows] = field(default_factory=dict)
    heard_by: dict[str, HeardRows] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def degree(self) -> int:
        return sum(len(entries.rows) for entries in self.hears.values())


def read_edges(graph: Graph, ids: IdBook, node_type: str, node: NewNode) -> NodeEdges:
    """The entries that an ingest of these edges would make for this node."""
    found = NodeEdges()
    for name, ends in node.hears.items():
        _Pair(graph, ids, node_type, node, found, name).add(ends, leads_away=False)
    for name, ends in node.leads_to.items():
        _Pair(graph, ids, node_type, node, found, name).add(ends, leads_away=True)
    return found


class _Pair:
    """A relation with its reverse, where it has one, as a person names both."""

    def __init__(
        self, graph: Graph, ids: IdBook, node_type: str, node: NewNode, found: NodeEdges, name: str | None
    ) -> None:
        self.graph, self.ids, self.node_type, self.node, self.found = graph, ids, node_type, node, found
        pairs = graph.relation_pairs
        if name is None:
            if len(pairs) != 1:
                raise Refusal(
                    422, f"the graph has several relations: {', '.join(pairs)}", hint="name that of each edge"
                )
            name = next(iter(pairs))
        if name not in pairs:
            raise Refusal(422, f"the graph has no relation '{name}'", hint=f"there are: {', '.join(pairs)}")
        self.relation = graph.relations[pairs[name][0]]

    def add(self, ends: Ends, *, leads_away: bool) -> None:
        """Edges that lead to the node, or away from it; of two types the one that fits is meant."""
        relation = self.relation
        joins = relation.source, relation.target
        if self.node_type not in joins:
            raise Refusal(422, f"relation '{relation.name}' joins {joins[0]} to {joins[1]}, not {self.node_type}")
        if joins[0] != joins[1]:
            leads_away = self.node_type == relation.source
        elif leads_away and not relation.directed:
            raise Refusal(422, f"edges of '{relation.name}' have no direction", hint="name these nodes as neighbours")
        entries = self._entries(relation.target if leads_away else relation.source, ends)
        both_ways = not relation.directed and relation.source == relation.target
        if both_ways:
            self._put(relation.name, entries, entries)
        elif leads_away:
            self._put(relation.name, None, entries)
        else:
            self._put(relation.name, entries, None)
        if relation.reverse is not None:  # the same edges the other way
            self._put(relation.reverse, *((entries, None) if leads_away else (None, entries)))

    def _put(self, name: str, hears: HeardRows | None, heard_by: HeardRows | None) -> None:
        for into, entries in ((self.found.hears, hears), (self.found.heard_by, heard_by)):
            if entries is not None:
                into[name] = merged([into[name], entries], self.relation.weighted) if name in into else entries

    def _entries(self, other: str, ends: Ends) -> HeardRows:
        relation = self.relation
        if relation.weighted and ends.weights is None and ends.ids:
            raise Refusal(422, f"edges of '{relation.name}' have weights, and these have none", hint="give weights")
        if not relation.weighted and ends.weights is not None:
            raise Refusal(
                422, f"edges of '{relation.name}' have no weights, and these have", hint="leave the weights out"
            )
        rows, weights = self.ids.rows(other, ends.ids), None
        if ends.weights is not None:
            weights = _weights(ends)
        unknown = np.flatnonzero(rows < 0)  # the node itself is not known yet
        if len(unknown):
            strange = [ends.ids[place] for place in unknown if not self._is_itself(other, ends.ids[place])]
            if strange:
                raise self.ids.unknown(other, strange, "neighbour")
            self.found.notes.append("edges of a node with itself are left out")
            rows, weights = np.delete(rows, unknown), None if weights is None else np.delete(weights, unknown)
        return merged([HeardRows(rows, weights)], relation.weighted)

    def _is_itself(self, other: str, name: Id) -> bool:
        own = self.node.id
        return other == self.node_type and own is not None and self.ids.plain(other, name) == self.ids.plain(other, own)


def _weights(ends: Ends) -> Array:
    assert ends.weights is not None
    if len(ends.weights) != len(ends.ids):
        raise Refusal(422, f"{len(ends.weights)} weights for {len(ends.ids)} neighbours", hint="give one each")
    found = np.asarray(ends.weights, np.float32)  # as a graph keeps them
    wrong = ~(np.isfinite(found) & (found >= 0) & (found < _LARGEST)) | ((found == 0) & (np.asarray(ends.weights) != 0))
    if wrong.any():
        raise Refusal(422, f"a weight of {ends.weights[int(np.argmax(wrong))]:g}", hint="weights are finite and ≥ 0")
    return found.astype(np.float64)


def merged(parts: Sequence[HeardRows], weighted: bool) -> HeardRows:
    """Several lists as one: each row once; weights add up, edges without are one edge."""
    rows = np.concatenate([part.rows for part in parts])
    unique, places = np.unique(rows, return_inverse=True)
    if not weighted:
        return HeardRows(unique, None)
    given = [np.ones(len(part.rows)) if part.weights is None else part.weights for part in parts]
    return HeardRows(unique, np.bincount(places, weights=np.concatenate(given), minlength=len(unique)))


def in_view(graph: Graph, view: View, edges: NodeEdges, *, heard_by: bool = False) -> dict[str, HeardRows]:
    """By type: those that the node hears in a view of several relations, or those that hear it."""
    against = heard_by != view.turned  # in a view against the edges, who hears is heard
    by_relation: Mapping[str, HeardRows] = edges.heard_by if against else edges.hears
    lists: dict[str, list[HeardRows]] = {}
    for name in view.relations:
        if name in by_relation:
            relation = graph.relations[name]
            lists.setdefault(relation.target if against else relation.source, []).append(by_relation[name])
    weighted = view.weighted(graph)
    return {node_type: merged(parts, weighted) for node_type, parts in lists.items()}
