"""Small graphs of several types and relations, for Hypothesis, as the package holds them and as plain lists."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from gamlp.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split
from tests.conformance import dense

TARGET = "paper"


@dataclass(frozen=True)
class CaseRelation:
    """Edges between two types, as pairs (source, target)."""

    name: str
    source: str
    target: str
    edges: list[tuple[int, int]]
    weights: list[float] | None = None


@dataclass(frozen=True)
class TypedCase:
    """Types by name with their features (None: none), and links between them."""

    counts: dict[str, int]
    features: dict[str, np.ndarray | None]
    relations: list[CaseRelation]
    labels: np.ndarray
    roles: np.ndarray
    order: list[str] = field(default_factory=list)

    def graph(self) -> Graph:
        types = {}
        for node_type, count in self.counts.items():
            values = self.features[node_type]
            features = None if values is None else Features(values)
            targets = (Labels(self.labels, tuple("abcde")), Split(self.roles)) if node_type == TARGET else (None, None)
            types[node_type] = Nodes(node_type, count, Ids(count), features, *targets)
        relations = {}
        for relation in self.relations:
            pairs = np.array(relation.edges, np.int64).reshape(-1, 2)
            weights = None if relation.weights is None else np.array(relation.weights, np.float32)
            for name, reverse, rows, columns, source, target in (
                (relation.name, f"rev-{relation.name}", pairs[:, 1], pairs[:, 0], relation.source, relation.target),
                (f"rev-{relation.name}", relation.name, pairs[:, 0], pairs[:, 1], relation.target, relation.source),
            ):
                loops = relation.source == relation.target
                block = Block.from_edges(
                    rows, columns, weights, start=0, stop=self.counts[target], symmetric=False, drop_loops=loops
                )
                relations[name] = Relation(name, source, target, True, (block,), reverse)
        return Graph("typed", types, relations, TARGET)

    def reached(self, relations: tuple[str, ...]) -> list[str]:
        """Types that the links connect with the target, which comes first."""
        found = {TARGET}
        for _ in self.relations:
            for relation in self.relations:
                if relation.name in relations and found & {relation.source, relation.target}:
                    found |= {relation.source, relation.target}
        return [TARGET, *(node_type for node_type in self.counts if node_type in found and node_type != TARGET)]

    def matrix(self, relations: tuple[str, ...]) -> np.ndarray:
        """The subset as one dense adjacency matrix over the reached types, numbered one type after the other."""
        node_types = self.reached(relations)
        start = dict(zip(node_types, itertools.accumulate([0, *(self.counts[node_type] for node_type in node_types)])))
        size = sum(self.counts[node_type] for node_type in node_types)
        chosen = [
            relation for relation in self.relations if relation.name in relations and relation.source in node_types
        ]
        total = np.zeros((size, size))
        for relation in chosen:
            edges = [(start[relation.source] + a, start[relation.target] + b) for a, b in relation.edges]
            # Unweighted pairs of one relation are one edge, even where another relation of the view has weights.
            for source, target, weight in _merged(edges, relation.weights):
                for row, column in ((target, source), (source, target)):
                    total[row, column] += weight
        if all(relation.weights is None for relation in chosen):
            return (total > 0).astype(float)
        return total

    def first(self, relations: tuple[str, ...], node_types: list[str]) -> np.ndarray:
        """X^(0) over the reached types: features of some of them, zero rows elsewhere."""
        width = max(values.shape[1] for node_type in node_types if (values := self.features[node_type]) is not None)
        parts = []
        for node_type in self.reached(relations):
            values = self.features[node_type] if node_type in node_types else None
            parts.append(np.zeros((self.counts[node_type], width)) if values is None else values.astype(np.float64))
        return np.concatenate(parts)

    def first_labels(self, relations: tuple[str, ...]) -> np.ndarray:
        hot = np.zeros((len(self.matrix(relations)), 5))
        for row in np.flatnonzero(self.roles == 1):
            hot[row, self.labels[row]] = 1.0
        return hot

    def hops(self, relations: tuple[str, ...], first: np.ndarray, count: int, r: float, loops: bool) -> np.ndarray:
        """Hops of the target's rows."""
        operator = dense.operator(self.matrix(relations), r, loops)
        return dense.hops(operator, first, count)[: self.counts[TARGET]]


def _merged(edges: list[tuple[int, int]], weights: list[float] | None) -> list[tuple[int, int, float]]:
    found: dict[tuple[int, int], float] = {}
    for position, (source, target) in enumerate(edges):
        if source == target:
            continue
        found[source, target] = 1.0 if weights is None else found.get((source, target), 0.0) + weights[position]
    return [(source, target, weight) for (source, target), weight in found.items()]


@st.composite
def typed_cases(draw: st.DrawFn, *, one_width: bool = False, all_features: bool = False) -> TypedCase:
    """Four types, up to five links: inside the target, to it, beyond it, empty ones, two between the same types."""
    counts = {node_type: draw(st.integers(1, 8)) for node_type in ("author", TARGET, "venue", "field")}
    seed = draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    ends = [(TARGET, TARGET), ("author", TARGET), (TARGET, "venue"), ("author", "field"), ("author", TARGET)]
    names = ["cites", "writes", "appears-in", "works-on", "reviews"]
    weighted = draw(st.booleans())
    relations = []
    for name, (source, target) in zip(names, ends):
        size = draw(st.sampled_from([0, 3, 12]))
        edges = [(int(random.integers(counts[source])), int(random.integers(counts[target]))) for _ in range(size)]
        heavy = weighted and draw(st.booleans())
        weights = [float(weight) for weight in random.integers(1, 9, size) / 4] if heavy else None
        relations.append(CaseRelation(name, source, target, edges, weights))
    features: dict[str, np.ndarray | None] = {}
    for node_type, count in counts.items():
        width = 5 if one_width else draw(st.integers(1, 9))
        lacks = node_type == "venue" and not all_features
        features[node_type] = None if lacks else random.normal(size=(count, width)).astype(np.float32)
    roles = random.integers(0, 4, counts[TARGET]).astype(np.int8)
    roles[0] = 1
    return TypedCase(counts, features, relations, random.integers(0, 5, counts[TARGET]).astype(np.int32), roles)
