"""An edge table → edges by the rows of their ends, relation by relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.ingest.columns import BadRows, Column, Rows, is_null, is_text, numbers, shown
from gamlp.graph.ingest.ids import IdMap, missing
from gamlp.graph.ingest.nodes import check_ids, choose
from gamlp.graph.ingest.tables import Table
from gamlp.graph.relations import ONE_RELATION, Join, Joins, a
from gamlp.kernel import UNKNOWN_ROW
from gamlp.progress import Progress

MOST_RELATIONS = 1000
End = Literal["source", "target"]


@dataclass(frozen=True)
class EdgeNames:
    """Names of columns; None: the usual name if there is such a column, empty: leave it out."""

    src: str = "src"
    dst: str = "dst"
    weight: str | None = None
    relation: str | None = None


class Entries(Protocol):
    """Where the edges of a relation go."""

    def add(self, sources: Array, targets: Array, weights: Array | None) -> None:
        """Append edges by the rows of their ends."""
        ...


@dataclass(frozen=True)
class Kinds:
    """Relations of a batch and which of them each edge is of (`of=None`: all are of the first).

    A relation that is not declared is None, and its edges are bad.
    """

    joins: list[Join | None]
    of: Array | None = None

    def join(self, edge: int) -> Join | None:
        return self.joins[0 if self.of is None else self.of[edge]]

    def inside(self) -> Array | bool:
        """Edges within one type, the only ones that can be self-loops."""
        within = np.asarray([join is not None and join.inside for join in self.joins], bool)
        return bool(within[0]) if self.of is None else within[self.of]

    def parts(self, good: Array) -> Iterator[tuple[Join, Array]]:
        """Relations with good edges, and which edges these are."""
        for number, join in enumerate(self.joins):
            picked = good if self.of is None else good & (self.of == number)
            if join is not None and picked.any():
                yield join, picked

    def rows(self, column: Column, end: End, ids: Mapping[str, IdMap]) -> Array:
        """Rows of ids in the type that each edge's relation joins at this end."""
        types = [None if join is None else str(getattr(join, end)) for join in self.joins]
        if types[0] is not None and (self.of is None or len(set(types)) == 1):
            return ids[types[0]].rows(column)
        assert self.of is not None
        rows = np.full(len(column), UNKNOWN_ROW, np.int32)
        for kind in {kind for kind in types if kind is not None}:
            picked = np.isin(self.of, [number for number, other in enumerate(types) if other == kind])
            rows[picked] = ids[kind].rows(column.filter(pa.array(picked)))
        return rows


@dataclass
class EdgesTable:
    """An edge table with the columns that were chosen from it; `name`: the one relation that all of it is."""

    table: Table
    names: EdgeNames
    joins: Joins = field(default_factory=Joins)
    name: str | None = None
    weight: str | None = field(init=False)
    relation: str | None = field(init=False)
    read: int = 0
    loops: int = 0

    def __post_init__(self) -> None:
        self.weight = choose(self.table, self.names.weight, "weight")
        self.relation = None if self.name else choose(self.table, self.names.relation, "relation")
        self.table.need([self.names.src, self.names.dst])

    def spill(
        self,
        ids: Mapping[str, IdMap],
        create: Callable[[Join], Entries],
        bad: BadRows,
        size: int,
        progress: Progress,
    ) -> None:
        """Map ids to rows of the types that are joined, and append edges to what `create` makes of their relation."""
        relations: dict[str, Entries] = {}
        columns = [name for name in (self.names.src, self.names.dst, self.weight, self.relation) if name]
        total = self.table.count()
        stage = "edges" if self.name is None else f"edges: {self.name}"
        for batch in self.table.batches(list(dict.fromkeys(columns)), size, bad.ragged()):
            rows = Rows(batch, bad)
            # Where there are several types, a relation says in which of them ids are looked up.
            typed = self._kinds(rows) if self.joins.alone is None else None
            sources, targets = self._ends(rows, ids, typed)
            weights = read_weights(rows, self.weight) if self.weight else None
            kinds = self._kinds(rows) if typed is None else typed
            loops = (sources == targets) & rows.good & kinds.inside()
            self.loops += int(np.count_nonzero(loops))
            self.read += batch.columns.num_rows
            for join, picked in kinds.parts(rows.good):
                if join.name not in relations:
                    relations[join.name] = self._create(create, join, len(relations), rows, picked)
                _add(relations[join.name], sources, targets, weights, picked & ~loops)
            progress(stage, self.read, total, "edges")

    def _kinds(self, rows: Rows) -> Kinds:
        if self.relation is None:
            return Kinds([self.joins.of(self.name or ONE_RELATION)])
        names, kind_of = read_relations(rows, self.relation)
        joins = [self.joins.of(name) for name in names]
        undeclared = np.asarray([join is None for join in joins], bool)[kind_of]
        refuse_undeclared(rows, self.relation, names, kind_of, undeclared)
        return Kinds(joins, kind_of)

    def _ends(self, rows: Rows, ids: Mapping[str, IdMap], typed: Kinds | None) -> tuple[Array, Array]:
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

    def _create(self, create: Callable[[Join], Entries], join: Join, number: int, rows: Rows, picked: Array) -> Entries:
        row = rows.batch.row(int(np.argmax(picked)))
        if number >= MOST_RELATIONS:
            raise too_many_relations(file=rows.batch.file, row=row, column=self.relation)
        try:
            return create(join)
        except GamlpError as error:  # a name that cannot be one
            raise GamlpError(
                error.problem, file=rows.batch.file, row=row, column=self.relation, hint=error.hint
            ) from error


def _add(entries: Entries, sources: Array, targets: Array, weights: Array | None, chosen: Array) -> None:
    if not chosen.any():
        return
    if not chosen.all():
        sources, targets = sources[chosen], targets[chosen]
        weights = None if weights is None else weights[chosen]
    entries.add(sources, targets, weights)


def _refuse_strangers(
    rows: Rows, name: str, column: Column, unknown: Array, kinds: Kinds, end: End, ids: Mapping[str, IdMap]
) -> None:
    """An end that is no node of the type its relation joins makes the edge bad, though another type may have it."""

    def problem(edge: int) -> str:
        join = kinds.join(edge)
        assert join is not None
        expected, told = str(getattr(join, end)), shown(column, edge)
        one = column.slice(edge, 1)
        other = next((kind for kind, known in ids.items() if int(known.rows(one)[0]) >= 0), None)
        return stranger(told, join.name, expected, other)

    rows.refuse("unknown node", unknown, name, problem)


def stranger(node: str, relation: str, expected: str, other: str | None = None) -> str:
    """What is said of an end that is no node of the type expected; `other`: the type that has it."""
    if other is None:
        return f"node '{node}' is not in the table of type '{expected}', which relation '{relation}' expects"
    return f"'{node}' is {a(other)}, where relation '{relation}' expects {a(expected)}"


def refuse_undeclared(rows: Rows, column: str, names: Sequence[str], kind_of: Array, undeclared: Array) -> None:
    """A relation of which nobody said what it joins makes the edge bad."""
    rows.refuse(
        "relation without --join",
        undeclared,
        column,
        lambda i: f"no --join says which types relation '{names[kind_of[i]]}' joins",
        "add --join NAME=SOURCE:TARGET",
    )


def refuse_unknown(rows: Rows, name: str, column: Column, unknown: Array) -> None:
    """An end of an edge that no node is makes the edge bad."""
    rows.refuse("unknown node", unknown, name, lambda i: f"node '{shown(column, i)}' is not in the node table")


def read_weights(rows: Rows, name: str) -> Array:
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
    return narrow


def read_relations(rows: Rows, name: str) -> tuple[list[str], Array]:
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
