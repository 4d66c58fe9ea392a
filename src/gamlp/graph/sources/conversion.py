"""What every reader is given, and how it writes features and edges without holding them twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.buckets import Buckets, bucket_count
from gamlp.graph.csr import csr_block
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import UNKNOWN, Array, Labels
from gamlp.progress import Progress, silent

_DENSE = 64 << 20  # bytes of a sparse matrix made dense at a time
_LABELS = 1 << 20  # labels converted at a time


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

    def write_dense(self, parts: Iterable[Array], width: int, count: int, kind: str = "node") -> None:
        """Features from consecutive ranges of rows."""
        values = self.writer.features(width, kind=kind)
        row = 0
        for part in parts:
            values[row : row + len(part)] = part
            row += len(part)
            self.progress("features", row, count, "rows")
        if row != count:
            raise GamlpError(f"{row} rows of features for {count} nodes of type '{kind}'", file=self.raw)

    def write_sparse(self, matrix: Any, kind: str = "node") -> None:
        """A scipy CSR matrix as dense float32, block by block."""
        count, width = matrix.shape
        step = max(1, _DENSE // (4 * max(1, width)))
        parts = (matrix[row : row + step].toarray() for row in range(0, count, step))
        self.write_dense(parts, width, count, kind)

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

    def write_relation(
        self,
        name: str,
        source: tuple[str, int],
        target: tuple[str, int],
        edges: tuple[Array, Array],
        weights: Any = None,
    ) -> None:
        """One relation of a heterogeneous graph, directed as the data has it: (type, nodes) at both ends."""
        _check_nodes(self.raw, source[1], edges[0])
        _check_nodes(self.raw, target[1], edges[1])
        self.writer.relation(directed=True, weighted=weights is not None, name=name, source=source[0], target=target[0])
        # Node 3 of one type and node 3 of another are no self-loop.
        loops = source[0] == target[0]
        block = csr_block(edges[1], edges[0], weights, start=0, stop=target[1], symmetric=False, drop_loops=loops)
        self.writer.block(block, name)


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
        known[row : row + _LABELS] = np.maximum(part, UNKNOWN)
    return Labels(known, tuple(str(number) for number in range(classes)))
