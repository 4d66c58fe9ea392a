"""A view: some relations of a graph as one homogeneous graph over the types they connect with the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from gamlp.errors import GamlpError
from gamlp.graph import fingerprint
from gamlp.graph.graph import Graph
from gamlp.io import digest

Direction = Literal["in", "out"]  # a node hears those whose edges lead to it, or those that its own edges lead to
Directions = Literal["in", "out", "both"]
_LONGEST = 100  # characters of a name that is still a part of file names


@dataclass(frozen=True)
class View:
    """Nodes are numbered type after type, the target first: type i has the numbers starts[i] .. starts[i + 1].

    A target node's number is its row, so that rows that are kept mean the same in every view. The view of a
    homogeneous graph has no name, unless its directions are told apart: `out` runs against the edges.
    """

    name: str
    relation_pairs: tuple[str, ...]
    relations: tuple[str, ...]
    types: tuple[str, ...]
    starts: tuple[int, ...]
    direction: Direction | None = None

    @property
    def turned(self) -> bool:
        """Whether a node hears those that its edges lead to: Aᵀ in the place of A."""
        return self.direction == "out"

    @property
    def count(self) -> int:
        return self.starts[-1]

    def start(self, node_type: str) -> int:
        return self.starts[self.types.index(node_type)]

    def called(self, signal: str, node_type: str | None = None) -> str:
        """The name of a signal on this view: `features@paper-author@author`; plain on a homogeneous graph."""
        if not self.name:
            return signal
        return f"{signal}@{self.name}" if node_type is None else f"{signal}@{self.name}@{node_type}"

    def directed(self, graph: Graph) -> bool:
        """Whether some edge leads one way alone: an undirected relation, or one with its reverse, does not."""
        relations = [graph.relations[name] for name in self.relations]
        return any(relation.directed and relation.reverse is None for relation in relations)

    def weighted(self, graph: Graph) -> bool:
        return any(graph.relations[name].weighted for name in self.relations)

    def structure(self, graph: Graph) -> str:
        """Changes with any edge of the view; of a homogeneous graph it is the graph's own."""
        if not self.name:
            return fingerprint.structure(graph)
        relations = sorted(fingerprint.relation(graph, name) for name in self.relations)
        content = {"types": list(self.types), "starts": list(self.starts), "relations": relations}
        return digest(content | ({"direction": self.direction} if self.direction else {}))


def whole_view(graph: Graph) -> View:
    """The one view of a homogeneous graph."""
    name = graph.relation.name
    return View("", (name,), (name,), (graph.target,), (0, graph.nodes.count))


def directed_views(graph: Graph, directions: Directions) -> list[View]:
    """Of a homogeneous graph: its one view; a view against the edges; or one along them and one against them."""
    whole = whole_view(graph)
    wanted = told_apart(directions)
    return [replace(whole, name=direction, direction=direction) for direction in wanted] or [whole]


def told_apart(directions: Directions) -> tuple[Direction, ...]:
    """Directions that are views of their own, each by its name; none where edges are followed as they lead."""
    named: dict[Directions, tuple[Direction, ...]] = {"in": (), "out": ("out",), "both": ("in", "out")}
    return named[directions]


def view_of(graph: Graph, pairs: Iterable[str]) -> View:
    """The relations of a subset that are connected with the target, and the types they connect."""
    chosen = [relation for relation in graph.relation_pairs if relation in set(pairs)]
    types = {graph.target}
    while True:
        ends = [(graph.relations[relation].source, graph.relations[relation].target) for relation in chosen]
        reached = {node_type for pair in ends if set(pair) & types for node_type in pair}
        if reached <= types:
            break
        types |= reached
    kept = tuple(relation for relation in chosen if graph.relations[relation].source in types)
    if not touches_target(graph, kept):
        raise GamlpError(
            f"the subset {'+'.join(pairs)} does not touch {graph.target}", hint="choose relations that lead to it"
        )
    ordered = (
        graph.target,
        *(node_type for node_type in graph.node_types if node_type in types and node_type != graph.target),
    )
    starts = [0]
    for node_type in ordered:
        starts.append(starts[-1] + graph.node_types[node_type].count)
    relations = tuple(name for relation in kept for name in graph.relation_pairs[relation])
    return View(view_name(kept), kept, relations, ordered, tuple(starts))


def touches_target(graph: Graph, pairs: Iterable[str]) -> bool:
    """Whether some relation leads to the target."""
    return any(graph.relations[name].target == graph.target for pair in pairs for name in graph.relation_pairs[pair])


def view_name(pairs: tuple[str, ...]) -> str:
    """`paper-author+paper-term`, or a short name where that would be too long for a file's."""
    name = "+".join(pairs)
    return name if len(name) <= _LONGEST else f"{len(pairs)}-links-{digest(list(pairs))}"
