"""Edges of relations on their way from tables into a graph: spilled to disk, then sorted into blocks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.folder import GraphWriter
from gamlp.graph.ingest.buckets import Buckets, bucket_count
from gamlp.graph.ingest.edges import EdgesTable, too_heavy
from gamlp.graph.ingest.report import IngestReport
from gamlp.graph.relations import DeclaredRelation
from gamlp.io import read_ahead
from gamlp.progress import Progress

_FOLDER = "buckets"


@dataclass
class Spilled:
    """The edges of one relation while tables are read: entries of it, and of its reverse where it has one."""

    relation: DeclaredRelation
    weight: str | None  # the column of weights
    forward: Buckets
    backward: Buckets | None
    as_of: str | None = None  # the part of a split by time at whose end these edges are there
    earlier: tuple[Spilled, ...] = ()

    def add(self, sources: Array, targets: Array, weights: Array | None, since: Array | None = None) -> None:
        """Row = target, neighbour = source."""
        for period, earlier in enumerate(self.earlier):
            assert since is not None
            there = since <= period
            earlier.add(sources[there], targets[there], None if weights is None else weights[there])
        # Of a symmetric relation both directions one after the other: duplicates add up in the order of the table.
        self.forward.add(targets, sources, weights, symmetric=self.relation.symmetric)
        if self.backward is not None:
            self.backward.add(sources, targets, weights)


@dataclass
class RelationsBuild:
    """All relations of a graph: declared in the manifest as they come, filled, then sorted into blocks."""

    writer: GraphWriter
    counts: Mapping[str, int]  # nodes by type
    memory: int  # for sorting
    parts: tuple[str, ...] = ()  # of a split by time, at whose ends edges are kept as they were
    spilled: dict[str, Spilled] = field(default_factory=dict)

    def declare(self, relation: DeclaredRelation, table: EdgesTable | None) -> Spilled:
        """A relation whose edges come from this table, or that has none."""
        earlier = tuple(self._spilled(relation, table, part) for part in self.parts)
        self.spilled[relation.name] = replace(self._spilled(relation, table), earlier=earlier)
        return self.spilled[relation.name]

    def _spilled(self, relation: DeclaredRelation, table: EdgesTable | None, as_of: str | None = None) -> Spilled:
        weight = None if table is None else table.weight
        at_most = 0 if table is None else table.table.count_at_most()
        ends = relation.source, relation.target
        forward = self._buckets(relation.name, ends, weight is not None, at_most, relation, relation.reverse, as_of)
        backward = None
        if relation.reverse is not None:
            backward = self._buckets(
                relation.reverse, ends[::-1], weight is not None, at_most, relation, relation.name, as_of
            )
        return Spilled(relation, weight, forward, backward, as_of)

    def write(self, report: IngestReport, progress: Progress) -> None:
        """Sort one relation after the other; buckets go as soon as they are sorted."""
        every = [each for one in self.spilled.values() for each in (one, *one.earlier)]
        rows = sum(buckets.rows for one in every for buckets in _both(one))
        done = 0
        for one in every:
            for name, buckets in zip((one.relation.name, one.relation.reverse), _both(one)):
                assert name is not None
                entries = 0
                for block in read_ahead(buckets.blocks()):  # one is sorted while another is written
                    if block.weights is not None and not np.isfinite(block.weights).all():
                        raise too_heavy(one.weight)
                    self.writer.block(block, name, one.as_of)
                    entries += len(block.neighbours)
                    done += block.stop - block.start
                    progress("sort", done, rows, "rows")
                buckets.close()
                report.count_entries(name, entries, one.as_of)
            if one.as_of is not None:
                continue
            merged = one.forward.entries - report.entries[one.relation.name]
            report.duplicates_merged += merged // (2 if one.relation.symmetric else 1)
        shutil.rmtree(self.writer.folder / _FOLDER)

    def _buckets(
        self,
        name: str,
        ends: tuple[str, str],
        weighted: bool,
        at_most: int,
        relation: DeclaredRelation,
        reverse: str | None,
        as_of: str | None,
    ) -> Buckets:
        source, target = ends
        self.writer.relation(
            directed=not relation.symmetric, weighted=weighted, name=name, source=source, target=target,
            reverse=reverse, as_of=as_of,
        )  # fmt: skip
        rows = self.counts[target]
        count = bucket_count(at_most * (2 if relation.symmetric else 1), rows, weighted, self.memory)
        others = None if relation.inside else self.counts[source]
        folder = self.writer.folder / _FOLDER / (as_of or "all") / name
        return Buckets(folder, rows, weighted, count, self.memory, others)


def _both(one: Spilled) -> list[Buckets]:
    return [one.forward] if one.backward is None else [one.forward, one.backward]
