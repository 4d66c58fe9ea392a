"""An edge table → edges by the rows of their ends, relation by relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.ingest.columns import BadRows, CheckedRows, Column, is_null, is_text, numbers, plain, shown
from gamlp.graph.ingest.ids import IdMap, missing
from gamlp.graph.ingest.nodes import check_ids, choose
from gamlp.graph.ingest.tables import Table
from gamlp.graph.ingest.time_split import EdgePeriods
from gamlp.graph.ingest.times import Cut, TimeColumn, holds_times, time_by_name
from gamlp.graph.ingest.uses import ColumnUse, edge_uses
from gamlp.graph.relations import ONE_RELATION, DeclaredRelation, RelationEnds, with_article
from gamlp.io import read_ahead
from gamlp.kernel import UNKNOWN_ROW
from gamlp.progress import Progress

MOST_RELATIONS = 1000
_PEEK, _PEEK_ROWS = 1 << 16, 100  # bytes and rows that are looked at to know what a column holds
End = Literal["source", "target"]


@dataclass(frozen=True)
class EdgeNames:
    """Names of columns; None: the usual name if there is such a column, empty: leave it out."""

    src: str = "src"
    dst: str = "dst"
    weight: str | None = None
    relation: str | None = None
    time: str | None = None


class EdgeSink(Protocol):
    """Where the edges of a relation go."""

    def add(self, sources: Array, targets: Array, weights: Array | None, since: Array | None) -> None:
        """Append edges by the rows of their ends; `since` of a split by time: the period of each."""
        ...


@dataclass(frozen=True)
class EdgeRelations:
    """Relations of a batch and which of them each edge is of (`of=None`: all are of the first).

    A relation that is not declared is None, and its edges are bad.
    """

    relation_names: list[DeclaredRelation | None]
    of: Array | None = None

    def relation(self, edge: int) -> DeclaredRelation | None:
        return self.relation_names[0 if self.of is None else self.of[edge]]

    def inside(self) -> Array | bool:
        """Edges within one type, the only ones that can be self-loops."""
        within = np.asarray([relation is not None and relation.inside for relation in self.relation_names], bool)
        return bool(within[0]) if self.of is None else within[self.of]

    def parts(self, good: Array) -> Iterator[tuple[DeclaredRelation, Array]]:
        """Relations with good edges, and which edges these are."""
        for number, relation in enumerate(self.relation_names):
            picked = good if self.of is None else good & (self.of == number)
            if relation is not None and picked.any():
                yield relation, picked

    def rows(self, column: Column, end: End, ids: Mapping[str, IdMap]) -> Array:
        """Rows of ids in the type that each edge's relation joins at this end."""
        types = [None if relation is None else str(getattr(relation, end)) for relation in self.relation_names]
        if types[0] is not None and (self.of is None or len(set(types)) == 1):
            return ids[types[0]].rows(column)
        assert self.of is not None
        rows = np.full(len(column), UNKNOWN_ROW, np.int32)
        for node_type in {node_type for node_type in types if node_type is not None}:
            picked = np.isin(self.of, [number for number, other in enumerate(types) if other == node_type])
            rows[picked] = ids[node_type].rows(column.filter(pa.array(picked)))
        return rows


@dataclass
class EdgesTable:
    """An edge table with the columns that were chosen from it; `name`: the one relation that all of it is."""

    table: Table
    names: EdgeNames
    relation_ends: RelationEnds = field(default_factory=RelationEnds)
    name: str | None = None
    before: Cut | None = None  # edges at this time or later are left out
    by_period: bool = False  # the split is by time
    weight: str | None = field(init=False)
    relation: str | None = field(init=False)
    time: str | None = field(init=False)
    read: int = 0
    loops: int = 0
    later: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weight = choose(self.table, self.names.weight, "weight")
        self.relation = None if self.name else choose(self.table, self.names.relation, "relation")
        self.table.need([self.names.src, self.names.dst])
        self.time = self._find_time()

    def spill(
        self,
        ids: Mapping[str, IdMap],
        create: Callable[[DeclaredRelation], EdgeSink],
        bad: BadRows,
        size: int,
        progress: Progress,
        periods: EdgePeriods | None = None,
    ) -> None:
        """Map ids to rows of the types that are joined, and append edges to what `create` makes of their relation."""
        relations: dict[str, EdgeSink] = {}
        cuts = [*([] if self.before is None else [self.before]), *(() if periods is None else periods.cuts)]
        clock = TimeColumn(self.time, cuts) if self.time is not None and cuts else None
        columns = [name for name in (self.names.src, self.names.dst, self.weight, self.relation) if name]
        columns += [] if clock is None else [clock.name]
        total = self.table.count()
        stage = "edges" if self.name is None else f"edges: {self.name}"
        # The next batch is decoded while ids of this one are looked up.
        for batch in read_ahead(self.table.batches(list(dict.fromkeys(columns)), size, bad.ragged())):
            rows = CheckedRows(batch, bad)
            # Where there are several types, a relation says in which of them ids are looked up.
            typed = self._edge_relations(rows) if self.relation_ends.alone is None else None
            sources, targets = self._ends(rows, ids, typed)
            weights = read_weights(rows, self.weight) if self.weight else None
            edge_relations = self._edge_relations(rows) if typed is None else typed
            times = None if clock is None else clock.read(rows, needed=True)
            if self.before is not None and times is not None:
                later = rows.good & ~self.before.keeps(times)
                self.later += int(np.count_nonzero(later))
                rows.good &= ~later
            since = None
            if periods is not None:
                ends = ((one.source, one.target, picked) for one, picked in edge_relations.parts(rows.good))
                since = periods.of(times, sources, targets, ends)
            loops = (sources == targets) & rows.good & edge_relations.inside()
            self.loops += int(np.count_nonzero(loops))
            self.read += batch.columns.num_rows
            for relation, picked in edge_relations.parts(rows.good):
                if relation.name not in relations:
                    relations[relation.name] = self._create(create, relation, len(relations), rows, picked)
                _add(relations[relation.name], sources, targets, weights, since, picked & ~loops)
            progress(stage, self.read, total, "edges")
        self.notes += [] if clock is None else clock.notes()

    def _find_time(self) -> str | None:
        """The column of times: the one that is named, else one with a usual name, else one that holds times."""
        if self.names.time:
            self.table.need([self.names.time])
            return self.names.time
        taken = (self.names.src, self.names.dst, self.weight, self.relation)
        free = [name for name in self.table.column_names if name not in taken] if self.names.time is None else []
        found = time_by_name(free) or self._holding_times(free)
        if found is None and self.before is not None:
            raise GamlpError(
                "no column of times, which --before asks for", file=self.table.place, hint="name it with --time COLUMN"
            )
        return found

    def _holding_times(self, names: list[str]) -> str | None:
        """The first of these columns whose first rows hold times; of a table that cannot be read more is said later."""
        schema = self.table.schema()
        names = [
            name for name in names if schema.names.count(name) == 1 and not pa.types.is_nested(schema.field(name).type)
        ]
        try:
            batch = next(iter(self.table.batches(names, _PEEK, lambda _: None, _PEEK_ROWS)), None) if names else None
        except GamlpError:
            return None
        columns = [] if batch is None else batch.columns.columns
        return next((name for name, column in zip(names, columns) if holds_times(plain(column))), None)

    def uses(self) -> list[ColumnUse]:
        """What every column is used for."""
        table = "edges" if self.name is None else f"edges {self.name}"
        found = edge_uses(
            table, self.table.all_column_names, self.names, self.weight, self.relation, self.name, self.time
        )
        told = [str(self.before)] if self.before is not None else []
        told += ["by periods of the split"] if self.by_period else []
        about = ", ".join(told) or "of no use without --before"
        return [replace(one, about=about) if one.use == "time" else one for one in found]

    def _edge_relations(self, rows: CheckedRows) -> EdgeRelations:
        if self.relation is None:
            return EdgeRelations([self.relation_ends.of(self.name or ONE_RELATION)])
        names, relation_of = read_relations(rows, self.relation)
        relations = [self.relation_ends.of(name) for name in names]
        undeclared = np.asarray([relation is None for relation in relations], bool)[relation_of]
        refuse_undeclared(rows, self.relation, names, relation_of, undeclared)
        return EdgeRelations(relations, relation_of)

    def _ends(self, rows: CheckedRows, ids: Mapping[str, IdMap], typed: EdgeRelations | None) -> tuple[Array, Array]:
        names = (self.names.src, self.names.dst)
        columns = [check_ids(rows, name, of="node") for name in names]
        if typed is not None:
            ends: tuple[End, End] = ("source", "target")
            found = [typed.rows(column, end, ids) for end, column in zip(ends, columns)]
            for name, end, column, row_of in zip(names, ends, columns, found):
                _refuse_strangers(rows, name, column, row_of < 0, typed, end, ids)
            return found[0], found[1]
        (known,) = ids.values()
        if known.by_hash and columns[0].type == columns[1].type:  # one lookup: it builds a hash table
            both = known.rows(pa.concat_arrays(columns))
            found = [both[: len(columns[0])], both[len(columns[0]) :]]
        else:
            found = [known.rows(column) for column in columns]
        for name, column, row_of in zip(names, columns, found):
            refuse_unknown(rows, name, column, row_of < 0)
        return found[0], found[1]

    def _create(
        self,
        create: Callable[[DeclaredRelation], EdgeSink],
        relation: DeclaredRelation,
        number: int,
        rows: CheckedRows,
        picked: Array,
    ) -> EdgeSink:
        row = rows.batch.row(int(np.argmax(picked)))
        if number >= MOST_RELATIONS:
            raise too_many_relations(file=rows.batch.file, row=row, column=self.relation)
        try:
            return create(relation)
        except GamlpError as error:  # a name that cannot be one
            raise GamlpError(
                error.problem, file=rows.batch.file, row=row, column=self.relation, hint=error.hint
            ) from error


def _add(
    entries: EdgeSink, sources: Array, targets: Array, weights: Array | None, since: Array | None, chosen: Array
) -> None:
    if not chosen.any():
        return
    if not chosen.all():
        sources, targets = sources[chosen], targets[chosen]
        weights = None if weights is None else weights[chosen]
        since = None if since is None else since[chosen]
    entries.add(sources, targets, weights, since)


def _refuse_strangers(
    rows: CheckedRows,
    name: str,
    column: Column,
    unknown: Array,
    edge_relations: EdgeRelations,
    end: End,
    ids: Mapping[str, IdMap],
) -> None:
    """An end that is no node of the type its relation joins makes the edge bad, though another type may have it."""

    def problem(edge: int) -> str:
        relation = edge_relations.relation(edge)
        assert relation is not None
        expected, node = str(getattr(relation, end)), shown(column, edge)
        one = column.slice(edge, 1)
        other = next((node_type for node_type, known in ids.items() if int(known.rows(one)[0]) >= 0), None)
        return stranger(node, relation.name, expected, other)

    rows.refuse("unknown node", unknown, name, problem)


def stranger(node: str, relation: str, expected: str, other: str | None = None) -> str:
    """What is said of an end that is no node of the type expected; `other`: the type that has it."""
    if other is None:
        return f"node '{node}' is not in the table of type '{expected}', which relation '{relation}' expects"
    return f"'{node}' is {with_article(other)}, where relation '{relation}' expects {with_article(expected)}"


def refuse_undeclared(
    rows: CheckedRows, column: str, names: Sequence[str], relation_of: Array, undeclared: Array
) -> None:
    """A relation of which nobody said what it joins makes the edge bad."""
    rows.refuse(
        "relation without --join",
        undeclared,
        column,
        lambda i: f"no --join says which types relation '{names[relation_of[i]]}' joins",
        "add --join NAME=SOURCE:TARGET",
    )


def refuse_unknown(rows: CheckedRows, name: str, column: Column, unknown: Array) -> None:
    """An end of an edge that no node is makes the edge bad."""
    rows.refuse("unknown node", unknown, name, lambda i: f"node '{shown(column, i)}' is not in the node table")


def read_weights(rows: CheckedRows, name: str) -> Array:
    """float32, finite and not negative; an edge with another one is bad."""
    column = rows.column(name)
    rows.refuse("missing weight", is_null(column), name, lambda _: "missing weight")
    values, readable = numbers(column, pa.float64())
    rows.refuse("bad weight", ~readable, name, lambda i: f"'{shown(column, i)}' is not a number")
    with np.errstate(over="ignore"):
        narrow: Array = values.astype(np.float32)
    rows.refuse(
        "bad weight",
        ~np.isfinite(narrow) | (narrow < 0),
        name,
        lambda i: f"a weight of {values[i]:g}",
        "weights are finite and not negative",
    )
    rows.refuse(
        "bad weight",
        (narrow == 0) & (values != 0),
        name,
        lambda i: f"a weight of {values[i]:g}, which is zero in float32",
        "rescale the weights",
    )
    return narrow


def read_relations(rows: CheckedRows, name: str) -> tuple[list[str], Array]:
    """Names of relations, and which of them each edge is of."""
    column = rows.column(name)
    if not (is_text(column) or pa.types.is_integer(column.type)):
        raise GamlpError(f"relations are {column.type}", file=rows.batch.file, column=name, hint="name them by strings")
    rows.refuse("missing relation", missing(column), name, lambda _: "missing relation")
    text = column if is_text(column) else column.cast(pa.large_string())
    coded: Any = text.fill_null("").dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)


def too_many_relations(**place: Any) -> GamlpError:
    """What is said of a column with more names than could be relations."""
    return GamlpError(f"more than {MOST_RELATIONS} different relations", hint="is it the column of relations?", **place)


def too_heavy(column: str | None) -> GamlpError:
    """What is said where duplicates of an edge add up to infinity."""
    return GamlpError("the weights of an edge add up to more than float32 holds", column=column)
