"""Batches of an edge table → entries (row, neighbour, weight) packed by block of rows, with notes on bad edges.

Pure Arrow and numpy, by the rules of `gamlp ingest`: this runs in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.columns import Column, OnBad, is_null, numbers, plain, shown
from gamlp.graph.edges_table import (
    MOST_RELATIONS,
    read_relations,
    read_weights,
    refuse_unknown,
    too_many_relations,
)
from gamlp.graph.folder import check_name
from gamlp.graph.graph import Array
from gamlp.graph.ids import as_text
from gamlp.graph.joins import ONE_RELATION
from gamlp.graph.nodes_table import check_ids
from gamlp.graph.spark.node_checks import note_batch, without_ragged
from gamlp.graph.spark.notes import NotedRows, Notes, id_key

_PACK = 1 << 20  # entries of a task that are put into packs at a time
PACKS = pa.schema(
    [
        ("relation", pa.string()),
        ("block", pa.int32()),
        ("rows", pa.binary()),
        ("neighbours", pa.binary()),
        ("weights", pa.binary()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class EdgeChecks:
    """Which columns of an edge table hold what, and how they are read."""

    table: str
    src: str
    dst: str
    weight: str | None
    relation: str | None
    directed: bool
    on_bad: OnBad
    integers: bool  # the ids of nodes
    nodes: int
    size: int  # rows of a block
    ragged: str | None = None

    def keys(self, found: pa.Schema) -> pa.Schema:
        """The columns of `edge_keys`, given those of the table."""
        key = pa.int64() if self.integers else pa.string()
        extra = [(name, found.field(column).type) for name, column in self._extra()]
        return pa.schema([("src", key), ("dst", key), *extra, ("note", pa.string())])

    def _extra(self) -> list[tuple[str, str]]:
        return [(name, column) for name, column in (("weight", self.weight), ("relation", self.relation)) if column]


def edge_keys(batches: Iterator[Any], checks: EdgeChecks) -> Iterator[Any]:
    """Ends of edges as the ids of nodes are, beside weights and relations as they were; last a row of notes."""
    notes, schema = Notes(facts={"read": 0}), None
    try:
        for batch in batches:
            schema = checks.keys(batch.schema)
            batch = without_ragged(batch, checks.ragged, notes, checks.on_bad)
            rows = _noted(batch, checks, notes, checks.src, checks.dst)
            ends = [(name, check_ids(rows, name, of="node")) for name in (checks.src, checks.dst)]
            keys = [_keys(rows, name, column, checks.integers) for name, column in ends]
            notes.facts["read"] += batch.num_rows
            extra = [batch.column(column) for _, column in checks._extra()]
            found = pa.RecordBatch.from_arrays([*keys, *extra, pa.nulls(batch.num_rows, pa.string())], schema=schema)
            yield found.filter(pa.array(rows.good))
    except GamlpError as error:
        notes.die(error)
        for _ in batches:
            pass
    if schema is not None:  # no batch: nothing to tell
        yield note_batch(schema, notes)


def _keys(rows: NotedRows, name: str, column: Column, integers: bool) -> Column:
    if not integers:
        return as_text(column).cast(pa.string())
    values, readable = numbers(column, pa.int64())
    refuse_unknown(rows, name, column, ~readable)
    return pa.array(values)


def _noted(batch: Any, checks: EdgeChecks, notes: Notes, src: str, dst: str) -> NotedRows:
    ends = plain(batch.column(src)), plain(batch.column(dst))

    def name(row: int) -> tuple[list[Any], str]:
        keys = [id_key(end[row].as_py()) for end in ends]
        texts = ["…" if end[row].as_py() in (None, "") else shown(end, row) for end in ends]
        return [*keys[0], *keys[1]], f"edge {texts[0]} → {texts[1]}"

    return NotedRows(batch, checks.table, notes, checks.on_bad, name)


def rows_of_range(batches: Iterator[Any], checks: EdgeChecks) -> Iterator[Any]:
    """Where ids are the row numbers themselves, no table of ids is needed to find rows."""
    for batch in edge_keys(batches, checks):
        rows = []
        for name in ("src", "dst"):
            values, known = numbers(batch.column(name), pa.int64())
            known &= (values >= 0) & (values < checks.nodes)
            rows.append(pa.array(np.where(known, values, 0).astype(np.int32), mask=~known))
        names = [*batch.schema.names, "src_row", "dst_row"]
        yield pa.RecordBatch.from_arrays([*batch.columns, *rows], names=names)


def edge_entries(batches: Iterator[Any], checks: EdgeChecks) -> Iterator[Any]:
    """Packs of entries, one for each relation and block; block -1: notes."""
    notes = Notes(facts={"loops": 0, "entries": 0, "relations": []})
    named = replace(
        checks, src="src", dst="dst", weight=checks.weight and "weight", relation=checks.relation and "relation"
    )
    packs = _Packs(checks.size)
    try:
        for batch in batches:
            passing = batch.column("note").drop_null()
            if len(passing):
                yield _pack_batch([(None, -1, None, None, None, text) for text in passing.to_pylist()])
                batch = batch.filter(pa.array(is_null(batch.column("note"))))
            _add(batch, named, checks, notes, packs)
            if packs.entries >= _PACK:
                yield _pack_batch(packs.taken())
    except GamlpError as error:
        if notes.fatal is None:
            error.column = checks.relation if error.column == "relation" else error.column
            notes.die(error)
        for _ in batches:
            pass
    yield _pack_batch([*packs.taken(), (None, -1, None, None, None, notes.json())])


def _add(batch: Any, named: EdgeChecks, checks: EdgeChecks, notes: Notes, packs: _Packs) -> None:
    rows = _noted(batch, named, notes, "src", "dst")
    ends = []
    for name, original in (("src", checks.src), ("dst", checks.dst)):
        found, known = numbers(batch.column(f"{name}_row"), pa.int32())
        refuse_unknown(rows, original, batch.column(name), ~known)
        ends.append(found.astype(np.int32))
    sources, targets = ends
    rows.calls = {"weight": checks.weight or "", "relation": checks.relation or ""}
    weights = read_weights(rows, "weight") if named.weight else None
    kinds, kind_of = read_relations(rows, "relation") if named.relation else ([ONE_RELATION], None)
    loops = (sources == targets) & rows.good
    notes.facts["loops"] += int(np.count_nonzero(loops))
    for number, name in enumerate(kinds):
        picked = rows.good if kind_of is None else rows.good & (kind_of == number)
        if not picked.any():
            continue
        _declare(name, notes, rows, int(np.argmax(picked)), checks)
        chosen = picked & ~loops
        part = sources[chosen], targets[chosen], None if weights is None else weights[chosen]
        notes.facts["entries"] += packs.add(name, *part, checks.directed)


def _declare(name: str, notes: Notes, rows: NotedRows, row: int, checks: EdgeChecks) -> None:
    known = notes.facts["relations"]
    if name in known:
        return
    try:
        check_name(name)
        if len(known) >= MOST_RELATIONS:
            raise too_many_relations()
    except GamlpError as error:
        error.column = checks.relation
        notes.die(error, *rows.name(row))
        raise
    known.append(name)


class _Packs:
    """Entries by relation until there are enough of them to be put into packs by block."""

    def __init__(self, size: int) -> None:
        self.entries = 0
        self._size = size
        self._parts: dict[str, list[tuple[Array, Array, Array | None]]] = {}

    def add(self, relation: str, sources: Array, targets: Array, weights: Array | None, directed: bool) -> int:
        """Row = target, neighbour = source; both ways where edges have no direction. Returns how many entries."""
        parts = self._parts.setdefault(relation, [])
        parts.append((targets, sources, weights))
        if not directed:
            parts.append((sources, targets, weights))
        count = len(sources) * (1 if directed else 2)
        self.entries += count
        return count

    def taken(self) -> list[tuple[Any, ...]]:
        """(relation, block, rows, neighbours, weights, note) of all entries; there are none afterwards."""
        found: list[tuple[Any, ...]] = []
        for relation, parts in self._parts.items():
            rows, neighbours = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
            weights = None if parts[0][2] is None else np.concatenate([part[2] for part in parts])
            block = rows // self._size
            order = np.argsort(block, kind="stable")
            bounds = np.flatnonzero(np.diff(block[order], prepend=-1, append=-1))
            for begin, end in pairwise(bounds):
                some = order[begin:end]
                heavy = None if weights is None else weights[some].tobytes()
                pack = rows[some].tobytes(), neighbours[some].tobytes(), heavy
                found.append((relation, int(block[some[0]]), *pack, None))
        self._parts, self.entries = {}, 0
        return found


def _pack_batch(packs: list[tuple[Any, ...]]) -> Any:
    columns = list(zip(*packs)) if packs else [()] * len(PACKS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PACKS)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKS)
