"""What every reader is given, and how it writes features and edges without holding them twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import UNKNOWN, Block, Labels
from gamlp.graph.ingest import Buckets, bucket_count
from gamlp.graph.relations import REVERSE
from gamlp.progress import Progress, silent

_DENSE = 64 << 20  # bytes of a sparse matrix made dense at a time
_LABELS = 1 << 20  # labels converted at a time


@dataclass(frozen=True)
class RawRelation:
    """Edges of one relation by the rows of their ends, source → target: (type, nodes) of both."""

    name: str
    source: tuple[str, int]
    target: tuple[str, int]
    edges: tuple[Array, Array]
    weights: Array | None = None

    def turned(self) -> RawRelation:
        """The same edges the other way."""
        return RawRelation(REVERSE + self.name, self.target, self.source, self.edges[::-1], self.weights)


@dataclass(frozen=True)
class Conversion:
    """Raw files of one dataset on their way into a graph folder."""

    raw: Path
    writer: GraphWriter
    memory: int = 2 << 30
    options: dict[str, Any] = field(default_factory=dict)
    progress: Progress = silent

    def file(self, name: str) -> Path:
        return self.raw / name.format(**self.options)

    def write_dense(self, parts: Iterable[Array], width: int, count: int, node_type: str = "node") -> None:
        """Features from consecutive ranges of rows."""
        values = self.writer.features(width, node_type=node_type)
        row = 0
        for part in parts:
            values[row : row + len(part)] = part
            row += len(part)
            self.progress("features", row, count, "rows")
        if row != count:
            raise GamlpError(f"{row} rows of features for {count} nodes of type '{node_type}'", file=self.raw)

    def write_sparse(self, matrix: Any, node_type: str = "node") -> None:
        """A scipy CSR matrix as dense float32, block by block."""
        count, width = matrix.shape
        step = max(1, _DENSE // (4 * max(1, width)))
        parts = (matrix[row : row + step].toarray() for row in range(0, count, step))
        self.write_dense(parts, width, count, node_type)

    def write_edges(self, chunks: Iterable[tuple[Array, Array]], nodes: int, most: int) -> None:
        """The undirected relation of a homogeneous graph from chunks of (source, target): `most` in all."""
        self.writer.relation(directed=False, weighted=False)
        count = bucket_count(2 * most, nodes, False, self.memory // 2)
        buckets = Buckets(self.writer.folder / ".buckets", nodes, False, count, self.memory // 2)
        done = 0
        try:
            for source, target in chunks:
                _check_nodes(self.raw, nodes, source, target)
                source, target = source.astype(np.int32), target.astype(np.int32)
                buckets.add(target, source, None)
                buckets.add(source, target, None)
                done += len(source)
                self.progress("edges", done, most, "edges")
            for block in buckets.blocks():
                self.writer.block(block)
                self.progress("rows", block.stop, nodes, "rows")
        finally:
            buckets.close()

    def write_relations(self, relations: Sequence[RawRelation]) -> None:
        """Relations of a heterogeneous graph, directed as the data has them, each with its reverse.

        That is the one of them which holds the same edges the other way, found by content; where there is none it is
        made. A relation inside a type that is its own reverse has no direction.
        """
        forward = {relation.name: self._block(relation) for relation in relations}
        reverse: dict[str, str | None] = {}
        for relation in relations:
            name, backward = relation.name, None
            if name not in reverse:
                backward = self._block(relation.turned())
                reverse |= _paired(relation, backward, relations, forward, reverse)
            directed = reverse[name] is not None
            self._write(relation, forward[name], directed, reverse[name])
            if backward is not None and reverse[name] == REVERSE + name:
                self._write(relation.turned(), backward, directed, name)

    def _block(self, relation: RawRelation) -> Block:
        for (_, count), end in zip((relation.source, relation.target), relation.edges):
            _check_nodes(self.raw, count, end)
        # Node 3 of one type and node 3 of another are no self-loop.
        options = {"symmetric": False, "drop_loops": relation.source == relation.target}
        return Block.from_edges(
            relation.edges[1], relation.edges[0], relation.weights, start=0, stop=relation.target[1], **options
        )

    def _write(self, relation: RawRelation, block: Block, directed: bool, reverse: str | None) -> None:
        self.writer.relation(
            directed=directed,
            weighted=relation.weights is not None,
            name=relation.name,
            source=relation.source[0],
            target=relation.target[0],
            reverse=reverse,
        )
        self.writer.block(block, relation.name)


def _paired(
    relation: RawRelation,
    backward: Block,
    relations: Sequence[RawRelation],
    forward: Mapping[str, Block],
    taken: Mapping[str, str | None],
) -> dict[str, str | None]:
    """Reverses by name: of this relation, and of another where that is it."""
    if relation.source == relation.target and _same(forward[relation.name], backward):
        return {relation.name: None}
    for other in relations:
        turned = (other.source, other.target) == (relation.target, relation.source)
        if turned and other.name not in taken and other is not relation and _same(forward[other.name], backward):
            return {relation.name: other.name, other.name: relation.name}
    return {relation.name: REVERSE + relation.name}


def _same(one: Block, other: Block) -> bool:
    """Whether two blocks hold the same entries; weights that were added up in another order may differ a little."""
    if not (np.array_equal(one.offsets, other.offsets) and np.array_equal(one.neighbours, other.neighbours)):
        return False
    if one.weights is None or other.weights is None:
        return one.weights is other.weights
    return bool(np.allclose(one.weights, other.weights))


def _check_nodes(place: Path, nodes: int, *ends: Array) -> None:
    for end in ends:
        if len(end) and (int(end.min()) < 0 or int(end.max()) >= nodes):
            wrong = int(end.max()) if int(end.max()) >= nodes else int(end.min())
            raise GamlpError(f"an edge names node {wrong} of {nodes}", file=place, hint="fetch the files again")


def numbered(values: Array, classes: int) -> Labels:
    """Labels whose classes are named by their numbers; NaN and negative are unknown."""
    values = values.reshape(len(values))
    known = np.empty(len(values), np.int32)
    for row in range(0, len(values), _LABELS):
        part = np.nan_to_num(values[row : row + _LABELS].astype(np.float64), nan=UNKNOWN)
        known[row : row + _LABELS] = np.clip(part, UNKNOWN, classes)
    if len(known) and int(known.max()) >= classes:
        raise GamlpError(f"a label beyond the {classes} classes", hint="fetch the files again")
    return Labels(known, tuple(str(number) for number in range(classes)), "integer")
