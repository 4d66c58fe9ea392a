"""Batches of an edge table → entries (row, neighbour, weight) packed by block of rows, with notes on bad edges.

Pure Arrow and numpy, by the rules of `gamlp ingest`: this runs in tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ONE_RELATION, ONE_TYPE, DeclaredRelation, check_name
from gamlp.graph.ingest import (
    EARLIER,
    MOST_RELATIONS,
    Column,
    Cut,
    EdgePeriods,
    OnBad,
    TimeColumn,
    as_text,
    check_ids,
    id_integers,
    is_null,
    numbers,
    plain,
    read_relations,
    read_weights,
    refuse_undeclared,
    refuse_unknown,
    shown,
    stranger,
    too_many_relations,
)
from gamlp.spark.ingest.block_files import relation_as_of
from gamlp.spark.ingest.notes import NotedRows, Notes, id_key, note_batch, without_ragged
from gamlp.spark.ingest.table_times import TableTimes

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


class Packs:
    """Entries by relation until there are enough of them to be put into packs by block."""

    def __init__(self) -> None:
        self.entries = 0
        self._parts: dict[tuple[str, int], list[tuple[Array, Array, Array | None]]] = {}

    def add(
        self,
        relation: DeclaredRelation,
        sources: Array,
        targets: Array,
        weights: Array | None,
        *sizes: int,
        as_of: str | None = None,
    ) -> int:
        """Row = target, neighbour = source; both ways where edges have no direction, or in a reverse.

        `sizes`: rows of a block of sources and of targets. Returns how many entries the relation itself is given.
        `as_of`: of the relation as it was when that part of a split by time ended.
        """
        own = self._parts.setdefault((relation_as_of(relation.name, as_of), sizes[1]), [])
        own.append((targets, sources, weights))
        if relation.symmetric:
            own.append((sources, targets, weights))
        elif relation.reverse is not None:
            key = relation_as_of(relation.reverse, as_of)
            self._parts.setdefault((key, sizes[0]), []).append((sources, targets, weights))
        count = len(sources) * (2 if relation.symmetric else 1)
        self.entries += count if relation.reverse is None else 2 * count
        return count

    def taken(self) -> list[tuple[Any, ...]]:
        """(relation, block, rows, neighbours, weights, note) of all entries; there are none afterwards."""
        found: list[tuple[Any, ...]] = []
        for (relation, size), parts in self._parts.items():
            rows, neighbours = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
            weights = None if parts[0][2] is None else np.concatenate([part[2] for part in parts])
            block = rows // size
            order = np.argsort(block, kind="stable")
            bounds = np.flatnonzero(np.diff(block[order], prepend=-1, append=-1))
            for begin, end in pairwise(bounds):
                some = order[begin:end]
                heavy = None if weights is None else weights[some].tobytes()
                pack = rows[some].tobytes(), neighbours[some].tobytes(), heavy
                found.append((relation, int(block[some[0]]), *pack, None))
        self._parts, self.entries = {}, 0
        return found


def pack_batch(packs: list[tuple[Any, ...]]) -> Any:
    """Packs, and notes in their place, as rows for Spark."""
    columns = list(zip(*packs)) if packs else [()] * len(PACKS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PACKS)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKS)


_PACK = 1 << 20  # entries of a task that are put into packs at a time


@dataclass(frozen=True)
class EdgeEnd:
    """The nodes at one end of edges: their type, how many, whether ids are integers, and rows of a block."""

    integers: bool
    count: int
    size: int
    node_type: str = ONE_TYPE
    is_range: bool = False  # ids are the row numbers themselves


@dataclass(frozen=True)
class ReadRelations:
    """Where relations join several types: those that one reading of a table is for, and all that are declared.

    A table is read once for every pair of types; the `first` reading tells of rows that are of no relation.
    """

    names: tuple[str, ...]
    declared: tuple[str, ...]
    first: bool = True


@dataclass(frozen=True)
class EdgeChecks:
    """Which columns of an edge table hold what, and how they are read; `name`: the one relation that all of it is."""

    table: str
    src: str
    dst: str
    weight: str | None
    relation: str | None
    directed: bool
    on_bad: OnBad
    source: EdgeEnd
    target: EdgeEnd
    ragged: str | None = None
    name: str | None = None
    chosen: ReadRelations | None = None
    times: TableTimes | None = None  # where edges are left out, or kept as of earlier, by their times
    before: Cut | None = None
    periods: EdgePeriods | None = None

    def keys(self, found: pa.Schema) -> pa.Schema:
        """The columns of `edge_keys`, given those of the table."""
        fields = [(name, pa.int64() if end.integers else pa.string()) for name, _, end in self.ends()]
        extra = [(name, found.field(column).type) for name, column in self._extra()]
        return pa.schema([*fields, *extra, ("note", pa.string())])

    def ends(self) -> list[tuple[str, str, EdgeEnd]]:
        """Of both ends: what it is called here, its column, its nodes."""
        return [("src", self.src, self.source), ("dst", self.dst, self.target)]

    def declared(self, name: str) -> DeclaredRelation:
        return DeclaredRelation(name, self.source.node_type, self.target.node_type, self.directed)

    @property
    def first(self) -> bool:
        return self.chosen is None or self.chosen.first

    def _extra(self) -> list[tuple[str, str]]:
        time = None if self.times is None else self.times.column
        named = (("weight", self.weight), ("relation", self.relation), ("time", time))
        return [(name, column) for name, column in named if column]


def edge_keys(batches: Iterator[Any], checks: EdgeChecks) -> Iterator[Any]:
    """Ends of edges as the ids of nodes are, beside weights and relations as they were; last a row of notes."""
    notes, schema = Notes(facts={"read": 0}), None
    try:
        for batch in batches:
            schema = checks.keys(batch.schema)
            batch = without_ragged(batch, checks.ragged, notes if checks.first else Notes(), checks.on_bad)
            notes.facts["read"] += batch.num_rows if checks.first else 0
            batch = _of_relations(batch, checks, notes)
            rows = _noted(batch, checks, notes, checks.src, checks.dst)
            columns = [check_ids(rows, column, of="node") for _, column, _ in checks.ends()]
            keys = [_keys(rows, at, column, checks) for at, column in enumerate(columns)]
            extra = [batch.column(column) for _, column in checks._extra()]
            found = pa.RecordBatch.from_arrays([*keys, *extra, pa.nulls(batch.num_rows, pa.string())], schema=schema)
            yield found.filter(pa.array(rows.good))
    except GamlpError as error:
        notes.die(error)
        for _ in batches:
            pass
    if schema is not None:  # no batch: nothing to tell
        yield note_batch(schema, notes)


def _of_relations(batch: Any, checks: EdgeChecks, notes: Notes) -> Any:
    """Edges of the relations that this reading is for; where there are several types, that comes before all else."""
    if checks.chosen is None or checks.relation is None:
        return batch
    wanted, declared = set(checks.chosen.names), set(checks.chosen.declared)
    rows = _noted(batch, checks, notes if checks.first else Notes(), checks.src, checks.dst)
    names, of = read_relations(rows, checks.relation)
    refuse_undeclared(rows, checks.relation, names, of, np.asarray([name not in declared for name in names], bool)[of])
    chosen = np.asarray([name in wanted for name in names], bool)[of]
    return batch.filter(pa.array(chosen & rows.good))


def _keys(rows: NotedRows, at: int, column: Column, checks: EdgeChecks) -> Column:
    _, name, end = checks.ends()[at]
    if not end.integers:
        return as_text(column).cast(pa.string())
    values, readable = id_integers(column)
    _refuse_unknown(rows, at, name, column, ~readable, checks)
    return pa.array(values)


def _refuse_unknown(rows: NotedRows, at: int, name: str, column: Column, unknown: Array, checks: EdgeChecks) -> None:
    """An end that is no node; where there are several types, the driver can tell whether it is one of another."""
    if checks.chosen is None:
        refuse_unknown(rows, name, column, unknown)
        return
    node_type = checks.ends()[at][2].node_type
    relations = None if checks.relation is None else rows.column(checks.relation)

    def relation(row: int) -> str:
        return checks.name or ("" if relations is None else str(relations[row].as_py()))

    def about(row: int) -> dict[str, str]:
        return {"node": shown(column, row), "relation": relation(row), "expected": node_type}

    rows.refuse("unknown node", unknown, name, lambda row: stranger(**about(row)), about=about)


def _noted(batch: Any, checks: EdgeChecks, notes: Notes, src: str, dst: str) -> NotedRows:
    ends = plain(batch.column(src)), plain(batch.column(dst))

    def name(row: int) -> tuple[list[Any], str]:
        keys = [id_key(end[row].as_py()) for end in ends]
        texts = ["…" if end[row].as_py() in (None, "") else shown(end, row) for end in ends]
        return [*keys[0], *keys[1]], f"edge {texts[0]} → {texts[1]}"

    return NotedRows(batch, checks.table, notes, checks.on_bad, name)


def edge_rows(
    batches: Iterator[Any], checks: EdgeChecks, rows_of: Mapping[str, Callable[[Column], Array]] | None = None
) -> Iterator[Any]:
    """`edge_keys` with `src_row` and `dst_row`, null where no node has such an id; `rows_of` tells rows by the end.

    Where ids are the row numbers themselves, no table of ids is needed.
    """
    for batch in edge_keys(batches, checks):
        for name, _, end in checks.ends():
            column = batch.column(name)
            if end.is_range:
                values, known = numbers(column, pa.int64())
                known &= (values >= 0) & (values < end.count)
                rows = np.where(known, values, 0).astype(np.int32)
            elif rows_of is not None:
                rows = rows_of[name](column)
                known = rows >= 0
            else:
                continue
            batch = batch.append_column(f"{name}_row", pa.array(rows, mask=~known))
        yield batch


def edge_entries(batches: Iterator[Any], checks: EdgeChecks) -> Iterator[Any]:
    """Packs of entries, one for each relation and block; block -1: notes."""
    notes = Notes(facts={"loops": 0, "entries": 0, "later": 0, "relations": []})
    named = replace(
        checks, src="src", dst="dst", weight=checks.weight and "weight", relation=checks.relation and "relation"
    )
    packs, clock = Packs(), None if checks.times is None else checks.times.clock("time")
    try:
        for batch in batches:
            passing = batch.column("note").drop_null()
            if len(passing):
                yield pack_batch([(None, -1, None, None, None, text) for text in passing.to_pylist()])
                batch = batch.filter(pa.array(is_null(batch.column("note"))))
            _add(batch, named, checks, notes, packs, clock)
            if packs.entries >= _PACK:
                yield pack_batch(packs.taken())
    except GamlpError as error:
        if notes.fatal is None:
            error.column = dict(checks._extra()).get(str(error.column), error.column)
            notes.die(error)
        for _ in batches:
            pass
    notes.facts["naive"] = 0 if clock is None else clock.naive
    yield pack_batch([*packs.taken(), (None, -1, None, None, None, notes.json())])


def _add(
    batch: Any, named: EdgeChecks, checks: EdgeChecks, notes: Notes, packs: Packs, clock: TimeColumn | None
) -> None:
    rows = _noted(batch, named, notes, "src", "dst")
    ends = []
    for at, (name, original, _) in enumerate(checks.ends()):
        found, known = numbers(batch.column(f"{name}_row"), pa.int32())
        _refuse_unknown(rows, at, original, batch.column(name), ~known, named)
        ends.append(found.astype(np.int32))
    sources, targets = ends
    rows.calls = dict(checks._extra())
    weights = read_weights(rows, "weight") if named.weight else None
    names, relation_of = read_relations(rows, "relation") if named.relation else ([checks.name or ONE_RELATION], None)
    times = None if clock is None else clock.read(rows, needed=True)
    if checks.before is not None and times is not None:
        later = rows.good & ~checks.before.keeps(times)
        notes.facts["later"] += int(np.count_nonzero(later))
        rows.good &= ~later
    since = None
    if checks.periods is not None:
        ends_of = [(checks.source.node_type, checks.target.node_type, rows.good)]
        since = checks.periods.of(times, sources, targets, ends_of)
    loops = (sources == targets) & rows.good if checks.declared("").inside else np.zeros(len(sources), bool)
    notes.facts["loops"] += int(np.count_nonzero(loops))
    for number, name in enumerate(names):
        picked = rows.good if relation_of is None else rows.good & (relation_of == number)
        if not picked.any():
            continue
        _declare(name, notes, rows, int(np.argmax(picked)), checks)
        relation, sizes = checks.declared(name), (checks.source.size, checks.target.size)
        chosen = picked & ~loops
        part = sources[chosen], targets[chosen], None if weights is None else weights[chosen]
        notes.facts["entries"] += packs.add(relation, *part, *sizes)
        if since is None:
            continue
        for period, as_of in enumerate(EARLIER):
            there = chosen & (since <= period)
            part = sources[there], targets[there], None if weights is None else weights[there]
            packs.add(relation, *part, *sizes, as_of=as_of)


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
