"""How tables are read: one set of options for all verbs that take tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gamlp.cli.options import named
from gamlp.cli.options.recipe import Precision
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph.ingest import EdgeNames, IngestOptions, NodeNames

_TABLES = "Tables"
_COLUMNS = "Columns of tables"
SPLITTING = "Split of tables that have none"
_COLUMN_TYPES = {"column", "drop", "schema"}
_SPLIT_BY_TIME = {"split_by", "train_until", "valid_until"}
_OF_A_GRAPH = {"join", "target", "directed", "dtype", "before", "split_fractions", *_SPLIT_BY_TIME, *_COLUMN_TYPES}


class OnBad(StrEnum):
    stop = "stop"
    skip = "skip"


def _option(text: str, metavar: str | None = None, panel: str = _TABLES, **more: Any) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=panel, show_default=False, **more)


def _column(text: str, metavar: str = "[NAME=]COLUMN") -> Any:
    return _option(text, metavar, _COLUMNS)


@dataclass(frozen=True)
class TableOptions:
    """What may be said of tables. A field here is an option of every verb that is made `with_table_options`."""

    join: Annotated[
        list[str] | None, _option("Types that a relation joins; where there are several.", "NAME=SOURCE:TARGET")
    ] = None
    target: Annotated[
        str | None, _option("Type whose labels are asked for. (default: the only one with labels)", "TYPE")
    ] = None
    directed: Annotated[
        bool,
        typer.Option(
            "--directed", help="Keep the direction of edges; relations get no reverse.", rich_help_panel=_TABLES
        ),
    ] = False
    dtype: Annotated[Precision, typer.Option(help="How features are stored.", rich_help_panel=_TABLES)] = (
        Precision.float32
    )
    on_bad: Annotated[
        OnBad, typer.Option(help="At a bad row: stop and name it, or skip and count it.", rich_help_panel=_TABLES)
    ] = OnBad.stop
    max_rows: Annotated[
        int | None,
        _option("Rows of a table at most. (default: 16 for each byte of its files, or 10 million)", "ROWS", min=1),
    ] = None
    delimiter: Annotated[
        str | None,
        _option("Between columns of text tables: ';', '|', tab … (default: found by itself)", "CHAR"),
    ] = None
    decimal: Annotated[str | None, _option("',' where numbers of text tables have a decimal comma.", "CHAR")] = None
    src: Annotated[list[str] | None, _column("Edge: where it starts. (default: src)")] = None
    dst: Annotated[list[str] | None, _column("Edge: where it ends. (default: dst)")] = None
    weight: Annotated[list[str] | None, _column("Edge: weight. 'weight' if there; '' for none.")] = None
    relation: Annotated[str | None, _column("Edge: relation. 'relation' if there; '' for none.", "COLUMN")] = None
    time: Annotated[
        list[str] | None,
        _column("Edge: time, dates or numbers. 'time', 'timestamp', 'date' … or what holds times; '' for none."),
    ] = None
    before: Annotated[
        str | None, _option("The graph as of then: edges at this time or later are left out.", "TIME", _COLUMNS)
    ] = None
    id: Annotated[list[str] | None, _column("Node: id, integers or strings. (default: id)")] = None
    label: Annotated[list[str] | None, _column("Node: class, empty if unknown. 'label' if there; '' for none.")] = None
    many_labels: Annotated[str | None, _column("Separator of many labels in one text.", "SEPARATOR")] = None
    unknown_label: Annotated[
        list[str] | None,
        _column(
            "Label that means unknown, instead of NA, null, None and the like; again for another, '' for none.", "TEXT"
        ),
    ] = None
    split: Annotated[list[str] | None, _column("Node: train, valid, test or empty. 'split' if there; '' for none.")] = (
        None
    )
    features: Annotated[
        list[str] | None,
        _column(
            "Columns of numbers or lists, comma-separated, or a .npy file. Default: all others.",
            "[NAME=]COLUMNS|FILE.npy",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        _column(
            "Type of a feature column, instead of the one that is found: number, standard, robust, quantile, as-is, "
            "boolean, category, date, vector, vector-l2, text, drop. '*' names all others, TYPE:NAME a column of one "
            "type.",
            "NAME=TYPE",
        ),
    ] = None
    drop: Annotated[list[str] | None, _column("Column that is no feature; again for another.", "NAME")] = None
    schema: Annotated[
        str | None,
        _column(
            "Types and states of columns: a schema.yaml as a graph folder has it, a graph folder, or a run.",
            "FILE|GRAPH|RUN",
        ),
    ] = None
    split_fractions: Annotated[str, typer.Option(help="Train, valid, test.", rich_help_panel=SPLITTING)] = "0.6,0.2,0.2"

    split_by: Annotated[
        str | None,
        _option("Node: time that makes the split, together with the next two; no feature.", "COLUMN", SPLITTING),
    ] = None
    train_until: Annotated[
        str | None, _option("Nodes until then train, and see edges until then.", "TIME", SPLITTING)
    ] = None
    valid_until: Annotated[
        str | None,
        _option("Later nodes until then validate, see edges until then; others test.", "TIME", SPLITTING),
    ] = None

    def given(self) -> list[str]:
        """Options that were given, as they are written."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) != one.default]

    def to_read(self, edges: str | dict[str, str], nodes: str | dict[str, str], seed: int) -> IngestOptions:
        """How these tables are read; `seed` is of the split."""
        from gamlp.graph.ingest import IngestOptions, TimeSplit, parse_delimiter

        split_by = TimeSplit.given(self.split_by, self.train_until, self.valid_until)
        if split_by is not None and self.split:
            raise GamlpError("--split and --split-by are two splits", hint="leave one of them out")
        edge_names, edge_names_of = self._edge_names(edges)
        node_names, names_of = self._node_names(nodes)
        return IngestOptions(
            edge_names=edge_names,
            node_names=node_names,
            directed=self.directed,
            dtype=self.dtype.value,
            on_bad=self.on_bad.value,
            fractions=_fractions(self.split_fractions),
            seed=seed,
            relation_ends=named.relation_ends(self.join),
            target=self.target,
            max_rows=self.max_rows,
            delimiter=None if self.delimiter is None else parse_delimiter(self.delimiter),
            decimal=_decimal(self.decimal),
            names_of=names_of,
            edge_names_of=edge_names_of,
            columns=_column_types(self.column),
            drop=tuple(self.drop or ()),
            schema=self._schema(),
            before=self.before,
            split_by=split_by,
        )

    def to_add(self, nodes: str | dict[str, str] | None, edges: str | dict[str, str] | None) -> IngestOptions:
        """How tables are read that are added to a graph, which has types, relations and a split already."""
        own = [name for name in self.given() if name[2:].replace("-", "_") in _OF_A_GRAPH]
        if own:
            raise GamlpError(f"{own[0]}: the graph has that already", hint=f"leave out {own[0]}")
        return self.to_read(edges or {}, nodes or {}, 0)

    def _schema(self) -> Any:
        if self.schema is None:
            return None
        from gamlp.run import schema_of

        return schema_of(self.schema)

    def _node_names(self, tables: str | dict[str, str]) -> tuple[NodeNames, dict[str, NodeNames]]:
        """Columns of all node tables, and of every type."""
        from gamlp.graph.ingest import UNKNOWN_LABELS, NodeNames

        unknown = UNKNOWN_LABELS if self.unknown_label is None else tuple(text for text in self.unknown_label if text)
        types = () if isinstance(tables, str) else tuple(tables)
        options = {"id": self.id, "label": self.label, "split": self.split, "features": self.features}
        given = {part: named.values(f"--{part}", texts, types) for part, texts in options.items()}

        def names(node_type: str) -> NodeNames:
            found = {part: one.of(node_type) for part, one in given.items()}
            own = found["id"] or "id", found["label"], found["split"], found["features"]
            return NodeNames(*own, self.many_labels, unknown)

        return names(""), {node_type: names(node_type) for node_type in types}

    def _edge_names(self, tables: str | dict[str, str]) -> tuple[EdgeNames, dict[str, EdgeNames]]:
        """Columns of all edge tables, and of every relation's."""
        from gamlp.graph.ingest import EdgeNames

        relations = () if isinstance(tables, str) else tuple(tables)
        if relations and self.relation:
            raise GamlpError(
                f"--relation {self.relation} with a table for each relation", hint="leave one of the two out"
            )
        options = {"src": self.src, "dst": self.dst, "weight": self.weight, "time": self.time}
        given = {part: named.values(f"--{part}", texts, relations) for part, texts in options.items()}

        def names(one: str) -> EdgeNames:
            found = {part: values.of(one) for part, values in given.items()}
            return EdgeNames(
                found["src"] or "src", found["dst"] or "dst", found["weight"], self.relation, found["time"]
            )

        return names(""), {name: names(name) for name in relations}


def with_table_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each field of `TableOptions`, where it has a parameter `reading` of that type."""

    @functools.wraps(verb)
    def called(**values: Any) -> None:
        reading = TableOptions(**{one.name: values.pop(one.name) for one in fields(TableOptions)})
        verb(**values, reading=reading)

    types = get_type_hints(TableOptions, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        if parameter.name != "reading":
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(one.name, parameter.kind, default=one.default, annotation=types[one.name])
            for one in fields(TableOptions)
        ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _column_types(given: list[str] | None) -> dict[str, str]:
    """Types by name; a name may hold an equals sign, a type does not."""
    found: dict[str, str] = {}
    for text in given or ():
        name, separator, word = text.rpartition("=")
        if not separator or not name:
            raise GamlpError(
                f"--column {text} names no type", hint="write --column NAME=TYPE, such as --column age=number"
            )
        if name in found:
            raise GamlpError(f"--column {name} is given twice")
        found[name] = word
    return found


def _decimal(text: str | None) -> str | None:
    if text not in (None, ",", "."):
        raise GamlpError(f"--decimal '{text}' is no sign before decimals", hint="write --decimal ',' or --decimal '.'")
    return text


def _fractions(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise GamlpError(f"'{text}' are not fractions", hint="write for example 0.6,0.2,0.2") from error
