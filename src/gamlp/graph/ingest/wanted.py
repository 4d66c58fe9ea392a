"""What people say of columns (--column, --drop, --schema), and what it makes of the feature columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import LEFT_OUT, FittedColumn, known_type
from gamlp.graph.features.encoders.reading import kind_of
from gamlp.graph.ingest.tables import Table
from gamlp.graph.schema import name_some

EVERY = "*"  # the name that stands for all columns that are not named


@dataclass(frozen=True)
class WantedTypes:
    """Types of columns by name, of one node type or of all: `age`, `author:age`, and `*` for all that have no name."""

    types: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, word in self.types.items():
            known_type(word, name)
        both = next((name for name in self.drop if name in self.types), None)
        if both is not None:
            raise GamlpError(f"--drop {both} and --column {both}={self.types[both]}", hint="leave one of the two out")

    def of(self, node_type: str, name: str) -> str | None:
        """The type that a column was given; None: none."""
        for called in (f"{node_type}:{name}", name):
            if called in self.drop:
                return "drop"
            if called in self.types:
                return self.types[called]
        return self.types.get(EVERY)

    def check_known(self, columns: Mapping[str, Iterable[str]]) -> None:
        """Refuse names that are no feature column of any table; `columns`: by node type."""
        known = {name for names in columns.values() for name in names}
        known |= {f"{node_type}:{name}" for node_type, names in columns.items() for name in names}
        for option, names in (("--column", self.types), ("--drop", self.drop)):
            wrong = next((name for name in names if name not in known and name != EVERY), None)
            if wrong is not None:
                there = list(dict.fromkeys(name for names in columns.values() for name in names))
                has = f"there are: {name_some(there)}" if there else "there are none"
                raise GamlpError(f"{option} {wrong}: no such column of features", hint=has)


@dataclass(frozen=True)
class ColumnPlan:
    """What is to become of the feature columns of a table.

    wanted: columns to read, with the type that they were given; None: it is found out. fitted: of these, columns that a
    schema has a state for. left_out: columns that are not read, and why.
    """

    wanted: dict[str, str | None]
    fitted: dict[str, FittedColumn]
    left_out: dict[str, str]

    @property
    def untouched(self) -> bool:
        """Whether all columns are numbers as they are: such need no state."""
        return not self.fitted and bool(self.wanted) and all(word == "as-is" for word in self.wanted.values())


def plan_columns(
    names: Sequence[str],
    arrow_types: Mapping[str, pa.DataType],
    given: WantedTypes,
    node_type: str,
    schema: Sequence[FittedColumn] | None = None,
    **place: Any,
) -> ColumnPlan:
    """Types of a table's feature columns as they were asked for; `schema` has states of those that were fitted before.

    `place`: the file that is named where a column cannot be meant.
    """
    before = {column.name: column for column in schema or ()}
    missing = [name for name in before if name not in names and before[name].width]
    if missing:
        raise GamlpError(
            f"no column {name_some(missing)}, which the schema has",
            hint="give the same columns, or edit the schema",
            **place,
        )
    plan = ColumnPlan({}, {}, {})
    ordered = [name for name in before if name in names] + [name for name in names if name not in before]
    for name in ordered:
        word = given.of(node_type, name)
        known = before.get(name)
        if known is not None and (word is None or word == known.type):
            word = known.type
            plan.fitted.update({name: known} if known.width else {})
        elif schema is not None and word is None:
            plan.left_out[name] = "the schema has no such column"
            continue
        if word in LEFT_OUT:
            plan.left_out[name] = "--drop" if name in given.drop else f"{word}, as you asked"
            continue
        arrow = arrow_types[name]
        if kind_of(arrow) == "other":
            if word is not None and word != given.types.get(EVERY):
                raise GamlpError(
                    f"holds {arrow}, which cannot be {word}", column=name, hint=f"use --drop {name}", **place
                )
            plan.left_out[name] = f"{arrow} cannot be features"
            continue
        plan.wanted[name] = word
    return plan


def stored_type(table: Table, name: str) -> pa.DataType:
    """What a column's raw values are kept as: files may have integers of different sizes, or numbers and integers."""
    found = {plain_type(table.schema(file).field(name).type): file for file in table.files}
    kinds = {kind_of(arrow): file for arrow, file in found.items() if not pa.types.is_null(arrow)}
    if len(kinds) > 1 and {"vector", "other"} & kinds.keys():
        (_, first), (_, other) = list(kinds.items())[:2]
        held = [table.schema(file).field(name).type for file in (first, other)]
        raise GamlpError(
            f"holds {held[1]} where {first.name} holds {held[0]}",
            file=other,
            column=name,
            hint=f"write all files with one type, or leave it out with --drop {name}",
        )
    if len(kinds) > 1:
        return pa.large_string()  # some files are CSV, where all is text
    types = [arrow for arrow in found if not pa.types.is_null(arrow)] or [pa.null()]
    if len(types) == 1:
        return types[0]
    if kind_of(types[0]) == "number":
        return pa.int64() if all(pa.types.is_signed_integer(arrow) for arrow in types) else pa.float64()
    if kind_of(types[0]) == "date":
        return pa.timestamp("us", next((arrow.tz for arrow in types if pa.types.is_timestamp(arrow)), None))
    return pa.large_list(pa.float64()) if kind_of(types[0]) == "vector" else types[0]


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type of values without dictionaries and extensions, strings of one kind."""
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return pa.large_string() if kind_of(arrow) == "text" else arrow


def fitted_columns(
    schema: Mapping[str, Sequence[Mapping[str, Any]]] | None, node_type: str
) -> list[FittedColumn] | None:
    """The columns of a node type that a schema has, from plain data; None: there is no schema, or not of this type."""
    if schema is None or node_type not in schema:
        return None
    return [FittedColumn.model_validate(dict(column)) for column in schema[node_type]]
