"""All nodes that a question may name: those of the graph, and newcomers that were kept; and hops of new ones."""

from __future__ import annotations

from typing import Any

from gamlp.arrays import Array
from gamlp.graph import Graph, Labels
from gamlp.serve.cells import CellReader, cell_readers
from gamlp.serve.edges import NodeEdges, read_edges
from gamlp.serve.frozen_hops import HeardSignal
from gamlp.serve.generation import Generation
from gamlp.serve.ids import IdBook
from gamlp.serve.overlay import content_of
from gamlp.serve.questions import Id, NewNode, Refusal

NewHops = dict[str, Array]  # by signal, `[hops + 1, width]`


def _open_all(graph: Graph) -> None:
    """Read or map, and verify, what answers look at, before there are any: a folder may be replaced meanwhile."""
    for relation in graph.relations.values():
        for block in relation.blocks:
            _ = block.offsets, block.neighbours
    for part in (graph.nodes.labels, graph.nodes.split):
        if part is not None:
            _ = part.values if isinstance(part, Labels) else part.roles


class KnownNodes:
    """Newcomers of a type have rows behind the graph's, in the order in which they came."""

    def __init__(self, generation: Generation, signals: list[HeardSignal]) -> None:
        self.graph, self.signals = generation.graph, signals
        self.ids = IdBook(self.graph)
        self.readers: dict[str, CellReader] = cell_readers(generation.bundle, generation.given, self.graph)
        self.edges: dict[str, list[NodeEdges]] = {name: [] for name in self.graph.node_types}
        self._contents: dict[tuple[str, Id], dict[str, Any]] = {}
        _open_all(self.graph)
        _ = generation.store.labels, generation.store.split
        self._by_time = bool(generation.bundle.recipe.propagation.as_of_split or generation.given.earlier)

    @property
    def newcomers(self) -> int:
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        """Newcomers by type."""
        return {node_type: self.ids.newcomers(node_type) for node_type in self.graph.node_types}

    def shorten(self, counts: dict[str, int]) -> None:
        """Forget the newest newcomers of each type, down to so many."""
        if counts == self.counts():
            return
        for key in self.ids.shorten(counts):
            self._contents.pop(key, None)
        for signal in self.signals:
            signal.shorten(counts)
        for node_type, count in counts.items():
            del self.edges[node_type][count:]

    def type_of(self, node: NewNode) -> str:
        node_type = node.node_type or self.graph.target
        if node_type not in self.graph.node_types:
            known = ", ".join(self.graph.node_types)
            raise Refusal(422, f"the graph has no nodes of type '{node_type}'", hint=f"there are: {known}")
        return node_type

    def kept_before(self, node_type: str, node: NewNode) -> int | None:
        """The number of a newcomer that was kept with the same content; one with another content is refused."""
        at = None if node.id is None else self.ids.newcomer(node_type, node.id)
        if at is not None and self._contents[self._key(node_type, node)] != content_of(node):
            raise Refusal(409, f"newcomer '{node.id}' is known with other cells or edges", hint="give it another id")
        return at

    def kept_hops(self, at: int) -> NewHops:
        """Of a newcomer of the type that is classified, by its number."""
        target = self.graph.target
        return {signal.name: signal.kept[target].hops[at] for signal in self.signals}

    def hops_of(self, node_type: str, node: NewNode, *, keep: bool) -> tuple[NewHops, NodeEdges, list[str]]:
        """(hops, edges, what was new or left out) of a new node; `keep`: others may hear it from now on."""
        if self._by_time:
            raise Refusal(
                422, "the graph is split by time, and a newcomer would need its edges as they were then",
                hint="ingest all tables together",
            )  # fmt: skip
        if node.id is not None and self.ids.in_graph(node_type, node.id):
            raise Refusal(409, f"node '{node.id}' is in the graph already", hint="ask for it by its id")
        first, notes = self.readers[node_type].read(node)
        edges = read_edges(self.graph, self.ids, node_type, node)
        reached = [signal for signal in self.signals if node_type in signal.view.types]
        found = [signal.of(node_type, first, edges) for signal in reached]
        if keep and node.id is not None:
            for signal, (hops, enter) in zip(reached, found):
                signal.keep(node_type, hops, enter)
            self._contents[self._key(node_type, node)] = content_of(node)
            self.edges[node_type].append(edges)
            self.ids.add(node_type, node.id)
        return {signal.name: hops for signal, (hops, _) in zip(reached, found)}, edges, [*notes, *edges.notes]

    def degree(self, row: int) -> int:
        """Neighbours of a node of the graph that is classified, over all relations that lead to it."""
        found = 0
        for relation in self.graph.relations.values():
            if relation.target == self.graph.target:
                for block in relation.blocks:
                    if block.start <= row < block.stop:
                        at = row - block.start
                        found += int(block.offsets[at + 1] - block.offsets[at])
        return found

    def _key(self, node_type: str, node: NewNode) -> tuple[str, Id]:
        assert node.id is not None
        return node_type, self.ids.plain(node_type, node.id)
