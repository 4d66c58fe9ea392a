"""What people say of columns (--column, --drop, --schema), and what it makes of the feature columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import LEFT_OUT, FittedColumn, SchemaFile, known_type
from gamlp.graph.features.encoders.reading import kind_of
from gamlp.graph.ingest.tables import Table
from gamlp.graph.schema import FeatureSchema, name_some

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

    def kept(self, columns: Iterable[FittedColumn]) -> FeatureSchema:
        """Columns as a manifest keeps them, with the type that somebody named for this table."""
        found = []
        for column in columns:
            asked = None if column.name in self.fitted else self.wanted[column.name]
            found.append(column.feature_column().model_copy(update={"asked": asked}))
        return tuple(found)

    @property
    def untouched(self) -> bool:
        """Whether all columns are numbers as they are: such need no state."""
        return not self.fitted and bool(self.wanted) and all(word == "as-is" for word in self.wanted.values())


PlainSchema = Mapping[str, Mapping[str, Any]]  # node type → column → its type, and what it was fitted as


@dataclass(frozen=True)
class GivenSchema:
    """Columns of one node type that a schema has, in its order: their types, and states of those that have one."""

    types: Mapping[str, str]
    fitted: Mapping[str, FittedColumn]

    @classmethod
    def of(cls, schema: PlainSchema | None, node_type: str) -> GivenSchema | None:
        """From plain data; None: there is no schema, or none of this type."""
        if schema is None or node_type not in schema:
            return None
        columns = schema[node_type]
        states = {name: one["fitted"] for name, one in columns.items() if one["fitted"] is not None}
        return cls(
            {name: one["type"] for name, one in columns.items()},
            {name: FittedColumn.model_validate(state) for name, state in states.items()},
        )


def plain_schema(schema: SchemaFile) -> PlainSchema:
    """A schema as plain data, which options of an ingest are."""
    found: dict[str, dict[str, Any]] = {}
    for node_type, types in schema.types.items():
        fitted = {column.name: column.model_dump(mode="json") for column in schema.fitted.get(node_type, ())}
        found[node_type] = {name: {"type": word, "fitted": fitted.get(name)} for name, word in types.items()}
    return found


def states_schema(columns: Mapping[str, FeatureSchema]) -> PlainSchema:
    """The columns that a graph or a bundle uses, with their states, as a schema."""
    fitted = {node_type: [FittedColumn.of(one) for one in each] for node_type, each in columns.items()}
    return plain_schema(
        SchemaFile({node_type: {one.name: one.type for one in each} for node_type, each in fitted.items()}, fitted)
    )


def plan_columns(
    names: Sequence[str],
    arrow_types: Mapping[str, pa.DataType],
    given: WantedTypes,
    node_type: str,
    schema: GivenSchema | None = None,
    **place: Any,
) -> ColumnPlan:
    """Types of a table's feature columns as they were asked for; a type that was named goes before that of a schema.

    `place`: the file that is named where a column cannot be meant.
    """
    before = {} if schema is None else schema.types
    missing = [name for name, word in before.items() if name not in names and word not in LEFT_OUT]
    if missing:
        raise GamlpError(
            f"no column {name_some(missing)}, which the schema has",
            hint="give the same columns, or take them out of the schema",
            **place,
        )
    plan = ColumnPlan({}, {}, {})
    for name in [*(name for name in before if name in names), *(name for name in names if name not in before)]:
        asked = given.of(node_type, name)
        word = asked or before.get(name)
        if schema is not None and word is None:
            plan.left_out[name] = "the schema has no such column"
        elif word in LEFT_OUT:
            plan.left_out[name] = _why_left_out(name, word, asked, given)
        elif kind_of(arrow := arrow_types[name]) == "other":
            if word is not None:
                hint = f"leave it out with --drop {name}"
                raise GamlpError(f"holds {arrow}, which cannot be {word}", column=name, hint=hint, **place)
            plan.left_out[name] = f"{arrow} cannot be features"
        else:
            plan.wanted[name] = word
            if schema is not None and name in schema.fitted and word == schema.fitted[name].type:
                plan.fitted[name] = schema.fitted[name]
    return plan


def _why_left_out(name: str, word: str, asked: str | None, given: WantedTypes) -> str:
    if asked is None:
        return f"{word}, as the schema says"
    return "--drop" if name in given.drop else f"{word}, as you asked"


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
    """The type of values without dictionaries and extensions, strings of one kind, lists too, whoever wrote them."""
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if kind_of(arrow) == "vector":
        return pa.large_list(arrow.value_type)
    return pa.large_string() if kind_of(arrow) == "text" else arrow
