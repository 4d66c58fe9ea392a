"""Edges of all relations → buckets on disk → CSR blocks of the graph folder, reverses included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gamlp.graph.buckets import Buckets, bucket_count
from gamlp.graph.edges_table import EdgesTable, too_heavy
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import Array
from gamlp.graph.ingest_report import IngestReport
from gamlp.graph.joins import Join
from gamlp.progress import Progress

_FOLDER = "buckets"


@dataclass
class Spilled:
    """The edges of one relation while tables are read: entries of it, and of its reverse where it has one."""

    join: Join
    weight: str | None  # the column of weights
    forward: Buckets
    backward: Buckets | None

    def add(self, sources: Array, targets: Array, weights: Array | None) -> None:
        """Row = target, neighbour = source."""
        if not self.join.symmetric:
            self.forward.add(targets, sources, weights)
            if self.backward is not None:
                self.backward.add(sources, targets, weights)
            return
        # Both directions of an edge one after the other: duplicates then add up in the order of the table.
        self.forward.add(
            np.stack([targets, sources], 1).ravel(),
            np.stack([sources, targets], 1).ravel(),
            None if weights is None else np.repeat(weights, 2),
        )


@dataclass
class Relations:
    """All relations of a graph: declared in the manifest as they come, filled, then sorted into blocks."""

    writer: GraphWriter
    counts: Mapping[str, int]  # nodes by type
    memory: int  # for sorting
    spilled: dict[str, Spilled] = field(default_factory=dict)

    def declare(self, join: Join, table: EdgesTable | None) -> Spilled:
        """A relation whose edges come from this table, or that has none."""
        weight = None if table is None else table.weight
        at_most = 0 if table is None else table.table.count_at_most()
        forward = self._buckets(join.name, (join.source, join.target), weight is not None, at_most, join, join.reverse)
        backward = None
        if join.reverse is not None:
            ends = join.target, join.source
            backward = self._buckets(join.reverse, ends, weight is not None, at_most, join, join.name)
        self.spilled[join.name] = Spilled(join, weight, forward, backward)
        return self.spilled[join.name]

    def write(self, report: IngestReport, progress: Progress) -> None:
        """Sort one relation after the other; buckets go as soon as they are sorted."""
        rows = sum(buckets.rows for one in self.spilled.values() for buckets in _both(one))
        done = 0
        for one in self.spilled.values():
            for name, buckets in zip((one.join.name, one.join.reverse), _both(one)):
                assert name is not None
                report.entries[name] = 0
                for block in buckets.blocks():
                    if block.weights is not None and not np.isfinite(block.weights).all():
                        raise too_heavy(one.weight)
                    self.writer.block(block, name)
                    report.entries[name] += len(block.neighbours)
                    done += block.stop - block.start
                    progress("sort", done, rows, "rows")
                buckets.close()
            merged = one.forward.entries - report.entries[one.join.name]
            report.duplicates_merged += merged // (2 if one.join.symmetric else 1)
        (self.writer.folder / _FOLDER).rmdir()

    def _buckets(
        self, name: str, ends: tuple[str, str], weighted: bool, at_most: int, join: Join, reverse: str | None
    ) -> Buckets:
        source, target = ends
        self.writer.relation(
            directed=not join.symmetric, weighted=weighted, name=name, source=source, target=target, reverse=reverse
        )
        rows = self.counts[target]
        count = bucket_count(at_most * (2 if join.symmetric else 1), rows, weighted, self.memory)
        others = None if join.inside else self.counts[source]
        return Buckets(self.writer.folder / _FOLDER / name, rows, weighted, count, self.memory, others)


def _both(one: Spilled) -> list[Buckets]:
    return [one.forward] if one.backward is None else [one.forward, one.backward]
