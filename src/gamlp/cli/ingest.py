"""`gamlp ingest`: tables → a graph folder."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gamlp.cli import display
from gamlp.cli.choices import Precision
from gamlp.cli.engine import BlocksOption, Engine, EngineOption, MasterOption, SparkConfOption, spark_of
from gamlp.errors import GamlpError

_COLUMNS = "Columns"
_SPLIT = "Split, when the table has none"


class OnBad(StrEnum):
    stop = "stop"
    skip = "skip"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ingest")(_ingest)


def _column(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_COLUMNS, metavar="COLUMN")


def _table(text: str) -> Any:
    return typer.Option(help=text, metavar="PATH")


def _ingest(
    edges: Annotated[str, _table("Edge table: a file or a folder of files; on Spark anything it reads.")],
    nodes: Annotated[str, _table("Node table: the same.")],
    out: Annotated[str, _table("Graph folder to write, on Spark also a URL; must not exist.")],
    directed: Annotated[bool, typer.Option("--directed", help="Keep the direction of edges.")] = False,
    dtype: Annotated[Precision, typer.Option(help="How features are stored.")] = Precision.float32,
    memory: Annotated[
        str | None, typer.Option(help="Memory to use, such as 2GiB; half of what is free by default.")
    ] = None,
    on_bad: Annotated[OnBad, typer.Option(help="At a bad row: stop and name it, or skip and count it.")] = OnBad.stop,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
    src: Annotated[str, _column("Edge: where it starts.")] = "src",
    dst: Annotated[str, _column("Edge: where it ends.")] = "dst",
    weight: Annotated[str | None, _column("Edge: weight. 'weight' if there; '' for none.")] = None,
    relation: Annotated[str | None, _column("Edge: relation. 'relation' if there; '' for none.")] = None,
    id: Annotated[str, _column("Node: id, integers or strings.")] = "id",
    label: Annotated[str | None, _column("Node: class, empty if unknown. 'label' if there; '' for none.")] = None,
    many_labels: Annotated[
        str | None,
        typer.Option(help="Separator of many labels in one text.", rich_help_panel=_COLUMNS, metavar="SEPARATOR"),
    ] = None,
    split: Annotated[str | None, _column("Node: train, valid, test or empty. 'split' if there; '' for none.")] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of numbers or lists, comma-separated, or a .npy file. Default: all others.",
            rich_help_panel=_COLUMNS,
            metavar="COLUMNS|FILE.npy",
        ),
    ] = None,
    split_fractions: Annotated[str, typer.Option(help="Train, valid, test.", rich_help_panel=_SPLIT)] = "0.6,0.2,0.2",
    stratified: Annotated[bool, typer.Option(help="Split every class alike.", rich_help_panel=_SPLIT)] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the random split.", rich_help_panel=_SPLIT)] = 0,
    engine: EngineOption = Engine.local,
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

    Tables that Spark reads (files, URLs, format:path, tables of its catalogue), rows numbered by ascending id:

      gamlp ingest --edges warehouse.follows --nodes delta:/data/users --out s3://bucket/graph --engine spark
    """
    from gamlp.graph.edges_table import EdgeNames
    from gamlp.graph.ingest import IngestOptions, ingest
    from gamlp.graph.nodes_table import NodeNames
    from gamlp.sizes import parse_size

    spark = spark_of(engine, master, spark_conf, blocks)
    how = IngestOptions(
        edges=Path(edges),
        nodes=Path(nodes),
        out=Path(out),
        edge_names=EdgeNames(src, dst, weight, relation),
        node_names=NodeNames(id, label, split, features, many_labels),
        directed=directed,
        dtype=dtype.value,
        memory=None if memory is None else parse_size(memory),
        on_bad=on_bad.value,
        fractions=_fractions(split_fractions),
        stratified=stratified,
        seed=seed,
    )
    with display.progress(as_json) as progress:
        if spark is not None:
            from gamlp.graph.spark.ingest import ingest_on_spark

            report = ingest_on_spark(spark, edges, nodes, out, how, blocks, progress)
        else:
            report = ingest(how, progress)
    if as_json:
        display.print_json(asdict(report))
    else:
        _show(asdict(report))


def _fractions(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise GamlpError(f"'{text}' are not fractions", hint="write for example 0.6,0.2,0.2") from error


def _show(report: dict[str, Any]) -> None:
    rows: list[tuple[str, Any]] = [("nodes", report["nodes"])]
    if report["features"]:
        rows.append(("features", f"{report['features']} {report['dtype']}"))
    if report["classes"]:
        rows.append(("classes", report["classes"]))
    if report["split"]:
        made = " (made at random)" if report["split_made"] else ""
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
