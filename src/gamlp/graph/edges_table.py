"""The edge table → entries (row, neighbour, weight) in buckets, relation by relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.buckets import Buckets
from gamlp.graph.columns import BadRows, Column, Rows, is_null, is_text, numbers, shown
from gamlp.graph.graph import Array
from gamlp.graph.ids import IdMap, missing
from gamlp.graph.nodes_table import check_ids, choose
from gamlp.graph.tables import Table
from gamlp.progress import Progress

ONE_RELATION = "edge"
MOST_RELATIONS = 1000


@dataclass(frozen=True)
class EdgeNames:
    """Names of columns; None: the usual name if there is such a column, empty: leave it out."""

    src: str = "src"
    dst: str = "dst"
    weight: str | None = None
    relation: str | None = None


@dataclass
class EdgesTable:
    """An edge table with the columns that were chosen from it."""

    table: Table
    names: EdgeNames
    directed: bool
    weight: str | None = field(init=False)
    relation: str | None = field(init=False)
    read: int = 0
    loops: int = 0

    def __post_init__(self) -> None:
        self.weight = choose(self.table, self.names.weight, "weight")
        self.relation = choose(self.table, self.names.relation, "relation")
        self.table.need([self.names.src, self.names.dst])

    def entries_at_most(self) -> int:
        """A guess at the number of entries, to choose a number of buckets by."""
        return self.table.count_at_most() * (1 if self.directed else 2)

    def spill(
        self, ids: IdMap, create: Callable[[str], Buckets], bad: BadRows, size: int, progress: Progress
    ) -> dict[str, Buckets]:
        """Map ids to rows and append entries to the buckets of their relation; `create(name)` makes them."""
        relations: dict[str, Buckets] = {}
        columns = [name for name in (self.names.src, self.names.dst, self.weight, self.relation) if name]
        total = self.table.count()
        for batch in self.table.batches(list(dict.fromkeys(columns)), size, bad.ragged()):
            rows = Rows(batch, bad)
            sources, targets = self._ends(rows, ids)
            weights = read_weights(rows, self.weight) if self.weight else None
            kinds, kind_of = read_relations(rows, self.relation) if self.relation else ([ONE_RELATION], None)
            loops = (sources == targets) & rows.good
            self.loops += int(np.count_nonzero(loops))
            self.read += batch.columns.num_rows
            kept = rows.good & ~loops
            for number, name in enumerate(kinds):
                picked = rows.good if kind_of is None else rows.good & (kind_of == number)
                if name not in relations and picked.any():
                    relations[name] = self._create(create, name, len(relations), rows, picked)
                chosen = kept if kind_of is None else kept & picked
                if chosen.any():
                    self._add(relations[name], sources, targets, weights, chosen)
            progress("edges", self.read, total, "edges")
        return relations

    def _ends(self, rows: Rows, ids: IdMap) -> tuple[Array, Array]:
        ends = []
        for name in (self.names.src, self.names.dst):
            ends.append((name, check_ids(rows, name, of="node")))
        columns = [column for _, column in ends]
        if ids.by_hash and columns[0].type == columns[1].type:  # one lookup: it builds a hash table
            both = ids.rows(pa.concat_arrays(columns))
            found = [both[: len(columns[0])], both[len(columns[0]) :]]
        else:
            found = [ids.rows(column) for column in columns]
        for (name, column), row_of in zip(ends, found):
            refuse_unknown(rows, name, column, row_of < 0)
        return found[0], found[1]

    def _create(self, create: Callable[[str], Buckets], name: str, number: int, rows: Rows, picked: Array) -> Buckets:
        row = rows.batch.row(int(np.argmax(picked)))
        if number >= MOST_RELATIONS:
            raise too_many_relations(file=rows.batch.file, row=row, column=self.relation)
        try:
            return create(name)
        except GamlpError as error:  # a name that cannot be one
            raise GamlpError(
                error.problem, file=rows.batch.file, row=row, column=self.relation, hint=error.hint
            ) from error

    def _add(self, buckets: Buckets, sources: Array, targets: Array, weights: Array | None, chosen: Array) -> None:
        if not chosen.all():
            sources, targets = sources[chosen], targets[chosen]
            weights = None if weights is None else weights[chosen]
        if self.directed:
            buckets.add(targets, sources, weights)
            return
        # Both directions of an edge one after the other: duplicates then add up in the order of the table.
        buckets.add(
            np.stack([targets, sources], 1).ravel(),
            np.stack([sources, targets], 1).ravel(),
            None if weights is None else np.repeat(weights, 2),
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
