"""Which tables hold which node types and relations, and which type is the target; refused where that is not clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gamlp.errors import GamlpError
from gamlp.graph.edges_table import EdgeNames, EdgesTable
from gamlp.graph.folder import check_name
from gamlp.graph.joins import ONE_TYPE, Joins
from gamlp.graph.nodes_table import NodeNames
from gamlp.graph.tables import Table

Tables = Path | Mapping[str, Path]  # one table, or several by what they hold
_JOIN = "add --join NAME=SOURCE:TARGET"


@dataclass(frozen=True)
class TypeTable:
    """The table of one node type, and which of its columns are what."""

    table: Any
    names: NodeNames


def type_tables(
    nodes: Any,
    names: NodeNames,
    names_of: Mapping[str, NodeNames],
    asked: str | None,
    read: Callable[[Any], Any] = Table,
) -> tuple[dict[str, TypeTable], str]:
    """Node tables by type, and the target: the type that is asked for, else the only one with labels.

    `nodes` is one table or several by type, each as `read` takes it.
    """
    given = dict(nodes) if isinstance(nodes, Mapping) else {ONE_TYPE: nodes}
    for kind in given:
        check_name(kind)
    _known("column names", names_of, given)
    if len(given) > 1 and names.features is not None and names.features.endswith(".npy"):
        raise GamlpError(
            f"'{names.features}' cannot be the features of several types", hint="write --features TYPE=FILE.npy"
        )
    found = {kind: TypeTable(read(path), names_of.get(kind, names)) for kind, path in given.items()}
    target = _target(found, asked)
    tables = {kind: one if kind == target else _without_answers(one) for kind, one in found.items()}
    return tables, target


def edge_tables(
    edges: Tables, names: EdgeNames, names_of: Mapping[str, EdgeNames], joins: Joins, types: Mapping[str, object]
) -> tuple[list[EdgesTable], Joins]:
    """Edge tables, and the types that their relations join."""
    joins = settled_joins(edges, names_of, joins, types)
    if isinstance(edges, Mapping):
        return [EdgesTable(Table(path), names_of.get(name, names), joins, name) for name, path in edges.items()], joins
    table = EdgesTable(Table(edges), names, joins)
    if joins.alone is None and table.relation is None:
        raise unnamed_edges(edges)
    return [table], joins


def settled_joins(edges: object, names_of: Mapping[str, object], joins: Joins, types: Mapping[str, object]) -> Joins:
    """The types that the relations of all edge tables join; with one type alone that goes without saying."""
    alone = next(iter(types)) if len(types) == 1 and not joins.declared else None
    declared = dict(joins.declared)
    if isinstance(edges, Mapping):
        _known("column names", names_of, edges)
        for name in edges:
            check_name(name)
            if alone is not None:
                declared[name] = alone, alone
            elif name not in declared:
                raise GamlpError(f"no --join says which types relation '{name}' joins", hint=_JOIN)
    joins = replace(joins, declared=declared, alone=alone)
    joins.check(types)
    return joins


def unnamed_edges(table: str | Path) -> GamlpError:
    """What is said of edges between several types, of which it is unknown which."""
    return GamlpError(
        "edges between several types of nodes need names",
        file=table,
        hint="give a table for each relation, --edges NAME=PATH, or the column that names them, --relation COLUMN",
    )


def _target(tables: Mapping[str, TypeTable], asked: str | None) -> str:
    if asked is not None:
        if asked not in tables:
            raise GamlpError(f"--target {asked}: there are no such nodes", hint=f"there are: {', '.join(tables)}")
        return asked
    if len(tables) == 1:
        return next(iter(tables))
    labelled = [kind for kind, one in tables.items() if _label(one.names) in one.table.column_names]
    if len(labelled) != 1:
        told = f"types {' and '.join(labelled)} have" if labelled else "no type of nodes has"
        raise GamlpError(f"{told} a column of labels", hint="say whose labels are asked for with --target TYPE")
    return labelled[0]


def _label(names: NodeNames) -> str:
    return "label" if names.label is None else names.label


def _without_answers(one: TypeTable) -> TypeTable:
    """Labels and split are those of the target alone; in other types such columns are not features either."""
    names = one.names
    left_out = (_label(names), "split" if names.split is None else names.split)
    return replace(one, names=replace(names, label="", split="", left_out=left_out))


def _known(what: str, given: Mapping[str, object], names: Mapping[str, object]) -> None:
    wrong = next((name for name in given if name not in names), None)
    if wrong is not None:
        raise GamlpError(f"{what} for '{wrong}', of which there is no table", hint=f"there are: {', '.join(names)}")
