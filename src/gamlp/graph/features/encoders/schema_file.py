"""schema.yaml: what became of each column, for people to read, to edit and to give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gamlp.errors import GamlpError
from gamlp.graph.features.encoders.fitted import FittedColumn
from gamlp.graph.features.encoders.words import COLUMN_TYPES, known_type
from gamlp.recipe import read_yaml

SCHEMA = "schema.yaml"
_LARGEST = 1 << 24  # bytes: the values of a hundred columns of codes
_MOST_COLUMNS = 1 << 16
_KEYS = ("type", "why", "features", "fitted")
_FITTED = ("as", "source", "state")
_HEAD = """\
# What became of each column of the node tables. To have another, change its `type` and give this file back:
#     gamlp ingest … --schema schema.yaml
# A column whose type is the one it was `fitted` as keeps its state; one with another type, or without `fitted`, is
# fitted anew; one that is taken out of this file is left out of the features. Types:
"""


@dataclass(frozen=True)
class SchemaFile:
    """types: by node type and column, in the order of the file. fitted: columns whose state holds."""

    types: dict[str, dict[str, str]] = field(default_factory=dict)
    fitted: dict[str, list[FittedColumn]] = field(default_factory=dict)


def schema_text(columns: Mapping[str, Sequence[FittedColumn]]) -> str:
    """The file's text, of all columns that were read, by node type; also of those that are left out."""
    types = "".join(f"#     {word:<10} {meaning}\n" for word, meaning in COLUMN_TYPES.items())
    plain = {node_type: {column.name: _entry(column) for column in each} for node_type, each in columns.items()}
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    body = yaml.dump(plain, Dumper=dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=1 << 16)
    return f"{_HEAD}{types}\n{body}"


def read_schema(path: Path) -> SchemaFile:
    """The file as somebody left it; what cannot be meant is told with its column."""
    plain = read_yaml(
        path, what="schema", largest=_LARGEST, hint="gamlp ingest writes schema.yaml into a graph's folder"
    )
    found = SchemaFile()
    for node_type, columns in _mapping(plain, "node types", path).items():
        types: dict[str, str] = {}
        fitted: list[FittedColumn] = []
        for name, entry in _mapping(columns, f"columns of '{node_type}'", path).items():
            types[name], state = _read_entry(name, entry, path)
            fitted += [] if state is None else [state]
        found.types[node_type], found.fitted[node_type] = types, fitted
    return found


def _entry(column: FittedColumn) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": column.type, "why": column.reason, "features": column.width}
    if column.state is not None:
        state = column.state.model_dump(mode="json")
        entry["fitted"] = {"as": column.type, "source": column.source, "state": state}
    return entry


def _read_entry(name: str, entry: Any, path: Path) -> tuple[str, FittedColumn | None]:
    """(type, the fitted column where it holds). `name: TYPE` alone is a type too."""
    if isinstance(entry, str):
        entry = {"type": entry}
    entry = _mapping(entry, "type and fitted", path, name)
    _check_keys(entry, _KEYS, path, name)
    if not isinstance(entry.get("type"), str):
        raise GamlpError("no type", file=path, column=name, hint=f"write type: and one of {', '.join(COLUMN_TYPES)}")
    try:
        word = known_type(entry["type"], name)
    except GamlpError as error:
        raise GamlpError(error.problem, file=path, column=name, hint=error.hint) from error
    if entry.get("fitted") is None:
        return word, None
    fitted = _mapping(entry["fitted"], "as, source and state", path, name)
    _check_keys(fitted, _FITTED, path, name)
    if fitted.get("as") != word:
        return word, None
    try:
        plain = {"name": name, "type": word, "source": fitted.get("source"), "state": fitted.get("state")}
        return word, FittedColumn.model_validate({**plain, "reason": str(entry.get("why") or "")})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("state",))
        problem = f"state{'.' + where if where else ''}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        hint = "take out `fitted` to have the column fitted anew"
        raise GamlpError(problem, file=path, column=name, hint=hint) from error


def _mapping(plain: Any, what: str, path: Path, column: str | None = None) -> dict[str, Any]:
    if not isinstance(plain, dict) or len(plain) > _MOST_COLUMNS or not all(isinstance(key, str) for key in plain):
        raise GamlpError(f"no {what} by name", file=path, column=column, hint="quote names such as 'yes' and '2020'")
    return plain


def _check_keys(entry: Mapping[str, Any], known: Sequence[str], path: Path, column: str) -> None:
    wrong = next((key for key in entry if key not in known), None)
    if wrong is not None:
        raise GamlpError(f"'{wrong}' says nothing", file=path, column=column, hint=f"keys are {', '.join(known)}")
