"""`gamlp ingest`: tables → a graph folder."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.cli.options import named
from gamlp.cli.options.engine import BlocksOption, EngineOption, MasterOption, SparkConfOption, engine_settings
from gamlp.cli.options.recipe import Precision
from gamlp.cli.show import display
from gamlp.cli.show.columns import show_columns
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph.ingest import EdgeNames, NodeNames

_COLUMNS = "Columns"
_SPLIT = "Split, when the table has none"


class OnBad(StrEnum):
    stop = "stop"
    skip = "skip"


JoinOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Types that a relation joins; where there are several.", metavar="NAME=SOURCE:TARGET", show_default=False
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="Type whose labels are asked for. (default: the only one with labels)",
        metavar="TYPE",
        show_default=False,
    ),
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rows of a table at most. (default: 16 for each byte of its files, or 10 million)",
        metavar="ROWS",
        show_default=False,
        rich_help_panel="Limits",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ingest")(_ingest)


def _column(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_COLUMNS, metavar="COLUMN")


def _columns(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_COLUMNS, metavar="[NAME=]COLUMN", show_default=False)


def _table(text: str, metavar: str = "PATH") -> Any:
    return typer.Option(help=text, metavar=metavar)


def _ingest(
    edges: Annotated[
        list[str],
        _table("Edge table: a file or a folder of files; on Spark anything it reads. By relation.", "[NAME=]PATH"),
    ],
    nodes: Annotated[list[str], _table("Node table: the same. By type.", "[NAME=]PATH")],
    out: Annotated[str, _table("Graph folder to write, on Spark also a URL; must not exist.")],
    join: JoinOption = None,
    target: TargetOption = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep the direction of edges; relations get no reverse.")
    ] = False,
    dtype: Annotated[Precision, typer.Option(help="How features are stored.")] = Precision.float32,
    memory: Annotated[
        str | None, typer.Option(help="Memory to use, such as 2GiB; half of what is free by default.")
    ] = None,
    on_bad: Annotated[OnBad, typer.Option(help="At a bad row: stop and name it, or skip and count it.")] = OnBad.stop,
    max_rows: MaxRowsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
    src: Annotated[list[str] | None, _columns("Edge: where it starts. (default: src)")] = None,
    dst: Annotated[list[str] | None, _columns("Edge: where it ends. (default: dst)")] = None,
    weight: Annotated[list[str] | None, _columns("Edge: weight. 'weight' if there; '' for none.")] = None,
    relation: Annotated[str | None, _column("Edge: relation. 'relation' if there; '' for none.")] = None,
    id: Annotated[list[str] | None, _columns("Node: id, integers or strings. (default: id)")] = None,
    label: Annotated[
        list[str] | None, _columns("Node: class, empty if unknown. 'label' if there; '' for none.")
    ] = None,
    many_labels: Annotated[
        str | None,
        typer.Option(help="Separator of many labels in one text.", rich_help_panel=_COLUMNS, metavar="SEPARATOR"),
    ] = None,
    unknown_label: Annotated[
        list[str] | None,
        typer.Option(
            help="Label that means unknown, instead of NA, null, None and the like; again for another, '' for none.",
            rich_help_panel=_COLUMNS,
            metavar="TEXT",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        list[str] | None, _columns("Node: train, valid, test or empty. 'split' if there; '' for none.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of numbers or lists, comma-separated, or a .npy file. Default: all others.",
            rich_help_panel=_COLUMNS,
            metavar="[NAME=]COLUMNS|FILE.npy",
            show_default=False,
        ),
    ] = None,
    split_fractions: Annotated[str, typer.Option(help="Train, valid, test.", rich_help_panel=_SPLIT)] = "0.6,0.2,0.2",
    seed: Annotated[
        int, typer.Option(min=0, help="Of the random split, which an id and the seed decide.", rich_help_panel=_SPLIT)
    ] = 0,
    engine: EngineOption = "local",
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    blocks: BlocksOption = None,
) -> None:
    """Turn a table of edges and a table of nodes into a graph folder.

    Parquet, CSV, CSV.gz and Arrow, one file or a folder of them:

      gamlp ingest --edges edges.parquet --nodes nodes.csv --out graph

    Other names of columns, features in an array, at most 2 GiB of memory:

      gamlp ingest --edges follows/ --src user --dst follows --nodes users.csv --id user \\
        --features vectors.npy --memory 2GiB --out graph

    Several types of nodes, a table for each type and relation (docs/your-data.md):

      gamlp ingest --nodes paper=papers.csv --nodes author=authors.csv --edges writes=writes.csv \\
        --join writes=author:paper --target paper --id author=name --out graph

    Tables that Spark reads (files, URLs, format:path, tables of its catalogue), rows numbered by ascending id:

      gamlp ingest --edges warehouse.follows --nodes delta:/data/users --out s3://bucket/graph --engine spark
    """
    from gamlp.graph.ingest import IngestOptions
    from gamlp.io import parse_size
    from gamlp.run import Resources

    budget = None if memory is None else parse_size(memory)
    resources = Resources(memory=budget, engine=engine, settings=engine_settings(master, spark_conf, blocks))
    edges_at, nodes_at = named.tables("--edges", edges), named.tables("--nodes", nodes)
    edge_names, edge_names_of = _edge_names(edges_at, src, dst, weight, relation)
    node_names, names_of = _node_names(nodes_at, id, label, split, features, many_labels, unknown_label)
    how = IngestOptions(
        edge_names=edge_names,
        node_names=node_names,
        directed=directed,
        dtype=dtype.value,
        on_bad=on_bad.value,
        fractions=_fractions(split_fractions),
        seed=seed,
        relation_ends=named.relation_ends(join),
        target=target,
        max_rows=max_rows,
        names_of=names_of,
        edge_names_of=edge_names_of,
    )
    with display.progress(as_json) as progress, closing(resources.open_engine()) as chosen:
        report = chosen.ingest(edges_at, nodes_at, out, how, progress)
    if as_json:
        display.print_json(asdict(report))
    else:
        show_columns(report.columns)
        _show(asdict(report))


def _node_names(
    tables: str | dict[str, str],
    id: list[str] | None,
    label: list[str] | None,
    split: list[str] | None,
    features: list[str] | None,
    separator: str | None,
    unknown: list[str] | None,
) -> tuple[NodeNames, dict[str, NodeNames]]:
    """Columns of all node tables, and of every type."""
    from gamlp.graph.ingest import UNKNOWN_LABELS, NodeNames

    unknown_labels = UNKNOWN_LABELS if unknown is None else tuple(text for text in unknown if text)
    types = () if isinstance(tables, str) else tuple(tables)
    options = {"id": id, "label": label, "split": split, "features": features}
    given = {part: named.values(f"--{part}", texts, types) for part, texts in options.items()}

    def names(node_type: str) -> NodeNames:
        found = {part: one.of(node_type) for part, one in given.items()}
        own = found["id"] or "id", found["label"], found["split"], found["features"]
        return NodeNames(*own, separator, unknown_labels)

    return names(""), {node_type: names(node_type) for node_type in types}


def _edge_names(
    tables: str | dict[str, str],
    src: list[str] | None,
    dst: list[str] | None,
    weight: list[str] | None,
    relation: str | None,
) -> tuple[EdgeNames, dict[str, EdgeNames]]:
    """Columns of all edge tables, and of every relation's."""
    from gamlp.graph.ingest import EdgeNames

    relations = () if isinstance(tables, str) else tuple(tables)
    if relations and relation:
        raise GamlpError(f"--relation {relation} with a table for each relation", hint="leave one of the two out")
    options = {"src": src, "dst": dst, "weight": weight}
    given = {part: named.values(f"--{part}", texts, relations) for part, texts in options.items()}

    def names(one: str) -> EdgeNames:
        found = {part: values.of(one) for part, values in given.items()}
        return EdgeNames(found["src"] or "src", found["dst"] or "dst", found["weight"], relation)

    return names(""), {name: names(name) for name in relations}


def _fractions(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise GamlpError(f"'{text}' are not fractions", hint="write for example 0.6,0.2,0.2") from error


def _show(report: dict[str, Any]) -> None:
    rows: list[tuple[str, Any]] = [("nodes", report["nodes"])]
    for node_type, one in report["types"].items():
        about = f"{one['nodes']:,}" + (f", {one['features']} features" if one["features"] else ", no features")
        rows.append((f"nodes, type {node_type}", about + (", target" if node_type == report["target"] else "")))
    if report["features"] and not report["types"]:
        rows.append(("features", f"{report['features']} {report['dtype']}"))
    if report["classes"]:
        rows.append(("classes", report["classes"]))
    if report["unknown_labels"]:
        told = ", ".join(f"{n:,} {text or 'empty'}" for text, n in report["unknown_labels"].items())
        rows.append(("unknown labels", told))
    if report["split"]:
        made = " (by ids and --seed)" if report["split_made"] else ""
        rows.append(("split", " / ".join(f"{n:,} {role}" for role, n in report["split"].items()) + made))
    rows.append(("edges read", report["edges_read"]))
    for name, entries in report["entries"].items():
        rows.append((f"stored, relation {name}" if len(report["entries"]) > 1 else "entries stored", entries))
    rows += [
        ("self-loops dropped", report["self_loops_dropped"]),
        ("duplicates merged", report["duplicates_merged"]),
    ]
    rows += [(f"bad rows: {kind}", count) for kind, count in report["bad_rows"].items()]
    rows.append(("seconds", f"{report['seconds']:.1f}"))
    display.table("", report["folder"], rows=rows)
