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
class Link:
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
    links: list[Link]
    labels: np.ndarray
    roles: np.ndarray
    order: list[str] = field(default_factory=list)

    def graph(self) -> Graph:
        types = {}
        for kind, count in self.counts.items():
            values = self.features[kind]
            features = None if values is None else Features(values)
            answers = (Labels(self.labels, tuple("abcde")), Split(self.roles)) if kind == TARGET else (None, None)
            types[kind] = Nodes(kind, count, Ids(count), features, *answers)
        relations = {}
        for link in self.links:
            pairs = np.array(link.edges, np.int64).reshape(-1, 2)
            weights = None if link.weights is None else np.array(link.weights, np.float32)
            for name, reverse, rows, columns, source, target in (
                (link.name, f"rev-{link.name}", pairs[:, 1], pairs[:, 0], link.source, link.target),
                (f"rev-{link.name}", link.name, pairs[:, 0], pairs[:, 1], link.target, link.source),
            ):
                loops = link.source == link.target
                block = Block.from_edges(
                    rows, columns, weights, start=0, stop=self.counts[target], symmetric=False, drop_loops=loops
                )
                relations[name] = Relation(name, source, target, True, (block,), reverse)
        return Graph("typed", types, relations, TARGET)

    def reached(self, links: tuple[str, ...]) -> list[str]:
        """Types that the links connect with the target, which comes first."""
        found = {TARGET}
        for _ in self.links:
            for link in self.links:
                if link.name in links and found & {link.source, link.target}:
                    found |= {link.source, link.target}
        return [TARGET, *(kind for kind in self.counts if kind in found and kind != TARGET)]

    def matrix(self, links: tuple[str, ...]) -> np.ndarray:
        """The subset as one dense adjacency matrix over the reached types, numbered one type after the other."""
        kinds = self.reached(links)
        start = dict(zip(kinds, itertools.accumulate([0, *(self.counts[kind] for kind in kinds)])))
        size = sum(self.counts[kind] for kind in kinds)
        chosen = [link for link in self.links if link.name in links and link.source in kinds]
        total = np.zeros((size, size))
        for link in chosen:
            edges = [(start[link.source] + a, start[link.target] + b) for a, b in link.edges]
            # Unweighted pairs of one relation are one edge, even where another relation of the view has weights.
            for source, target, weight in _merged(edges, link.weights):
                for row, column in ((target, source), (source, target)):
                    total[row, column] += weight
        if all(link.weights is None for link in chosen):
            return (total > 0).astype(float)
        return total

    def first(self, links: tuple[str, ...], kinds: list[str]) -> np.ndarray:
        """X^(0) over the reached types: features of some of them, zero rows elsewhere."""
        width = max(values.shape[1] for kind in kinds if (values := self.features[kind]) is not None)
        parts = []
        for kind in self.reached(links):
            values = self.features[kind] if kind in kinds else None
            parts.append(np.zeros((self.counts[kind], width)) if values is None else values.astype(np.float64))
        return np.concatenate(parts)

    def first_labels(self, links: tuple[str, ...]) -> np.ndarray:
        hot = np.zeros((len(self.matrix(links)), 5))
        for row in np.flatnonzero(self.roles == 1):
            hot[row, self.labels[row]] = 1.0
        return hot

    def hops(self, links: tuple[str, ...], first: np.ndarray, count: int, r: float, loops: bool) -> np.ndarray:
        """Hops of the target's rows."""
        operator = dense.operator(self.matrix(links), r, loops)
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
    counts = {kind: draw(st.integers(1, 8)) for kind in ("author", TARGET, "venue", "field")}
    seed = draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    ends = [(TARGET, TARGET), ("author", TARGET), (TARGET, "venue"), ("author", "field"), ("author", TARGET)]
    names = ["cites", "writes", "appears-in", "works-on", "reviews"]
    weighted = draw(st.booleans())
    links = []
    for name, (source, target) in zip(names, ends):
        size = draw(st.sampled_from([0, 3, 12]))
        edges = [(int(random.integers(counts[source])), int(random.integers(counts[target]))) for _ in range(size)]
        heavy = weighted and draw(st.booleans())
        weights = [float(weight) for weight in random.integers(1, 9, size) / 4] if heavy else None
        links.append(Link(name, source, target, edges, weights))
    features: dict[str, np.ndarray | None] = {}
    for kind, count in counts.items():
        width = 5 if one_width else draw(st.integers(1, 9))
        lacks = kind == "venue" and not all_features
        features[kind] = None if lacks else random.normal(size=(count, width)).astype(np.float32)
    roles = random.integers(0, 4, counts[TARGET]).astype(np.int8)
    roles[0] = 1
    return TypedCase(counts, features, links, random.integers(0, 5, counts[TARGET]).astype(np.int32), roles)
