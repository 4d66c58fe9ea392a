"""`gamlp ingest`: tables → a graph folder."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gamlp.cli.options import named
from gamlp.cli.options.engine import (
    BlocksOption,
    EngineOption,
    ExecutorWaitOption,
    MasterOption,
    SparkConfOption,
    engine_settings,
)
from gamlp.cli.options.tables import SPLITTING, TableOptions, with_table_options
from gamlp.cli.show import display
from gamlp.cli.show.columns import show_columns, show_delimiters
from gamlp.errors import GamlpError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ingest")(with_table_options(_ingest))


def _table(text: str, metavar: str = "PATH") -> Any:
    return typer.Option(help=text, metavar=metavar, show_default=False)


def _ingest(
    edges: Annotated[
        list[str] | None,
        _table("Edge table: a file or a folder of files; on Spark anything it reads. By relation.", "[NAME=]PATH"),
    ] = None,
    nodes: Annotated[list[str] | None, _table("Node table: the same. By type.", "[NAME=]PATH")] = None,
    out: Annotated[str | None, _table("Graph folder to write, on Spark also a URL; must not exist.")] = None,
    add: Annotated[
        Path | None, _table("Graph folder to add to, in place, instead of --out: tables of newcomers alone.", "GRAPH")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory to use, such as 2GiB; half of what is free by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
    reading: TableOptions = TableOptions(),  # noqa: B008
    seed: Annotated[
        int,
        typer.Option(min=0, help="Of the random split, which an id and the seed decide.", rich_help_panel=SPLITTING),
    ] = 0,
    engine: EngineOption = "local",
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    blocks: BlocksOption = None,
    executor_wait: ExecutorWaitOption = None,
) -> None:
    """Turn a table of edges and a table of nodes into a graph folder.

    Parquet, CSV with any delimiter, JSON Lines, Arrow (texts also .gz and .zst), one file or a folder of them, and
    tables of SQLite and DuckDB files (FILE::TABLE):

      gamlp ingest --edges edges.parquet --nodes nodes.csv --out graph

    Other names of columns, features in an array, at most 2 GiB of memory:

      gamlp ingest --edges follows/ --src user --dst follows --nodes users.csv --id user \\
        --features vectors.npy --memory 2GiB --out graph

    Several types of nodes, a table for each type and relation (docs/your-data.md):

      gamlp ingest --nodes paper=papers.csv --nodes author=authors.csv --edges writes=writes.csv \\
        --join writes=author:paper --target paper --id author=name --out graph

    Newcomers, and edges that came since: the folder grows in place, old rows keep their numbers and roles:

      gamlp ingest --add graph --nodes new.csv --edges new_edges.csv

    Tables that Spark reads (files, URLs, format:path, tables of its catalogue), rows numbered by ascending id:

      gamlp ingest --edges warehouse.follows --nodes delta:/data/users --out s3://bucket/graph --engine spark
    """
    from gamlp.io import parse_size
    from gamlp.run import Resources

    budget = None if memory is None else parse_size(memory)
    resources = Resources(
        memory=budget, engine=engine, settings=engine_settings(master, spark_conf, blocks, executor_wait)
    )
    if add is not None:
        if out is not None or seed or engine != "local":
            given = "--out" if out is not None else "--seed" if seed else f"--engine {engine}"
            raise GamlpError(f"{given} with --add", hint=f"leave out {given}: the graph grows in place, here")
        _add(add, nodes, edges, reading, budget, as_json)
        return
    if not edges or not nodes or out is None:
        lacks = "--edges" if not edges else "--nodes" if not nodes else "--out"
        raise GamlpError(f"{lacks} is missing", hint="gamlp ingest --edges E --nodes N --out GRAPH")
    edges_at, nodes_at = named.tables("--edges", edges), named.tables("--nodes", nodes)
    how = reading.to_read(edges_at, nodes_at, seed)
    with display.progress(as_json) as progress, closing(resources.open_engine()) as chosen:
        report = chosen.ingest(edges_at, nodes_at, out, how, progress)
    if as_json:
        display.print_json(asdict(report))
    else:
        show_columns(report.columns)
        show_delimiters(report.delimiters)
        _show(asdict(report))


def _add(
    graph: Path,
    nodes: list[str] | None,
    edges: list[str] | None,
    reading: TableOptions,
    memory: int | None,
    as_json: bool,
) -> None:
    from gamlp.graph.ingest import add_tables

    nodes_at = named.tables("--nodes", nodes) if nodes else None
    edges_at = named.tables("--edges", edges) if edges else None
    how = reading.to_add(nodes_at, edges_at)
    with display.progress(as_json) as progress:
        found = add_tables(graph, nodes_at, edges_at, how, memory=memory, progress=progress)
    counts = {name: one.count for name, one in found.graph.node_types.items()}
    if as_json:
        about = {"graph": str(graph), "new": found.new, "nodes": counts, "notes": found.notes}
        display.print_json(about | {"report": asdict(found.report)})
        return
    for note in found.notes:
        display.say(f"note: {note}.")
    rows: list[tuple[str, Any]] = [
        ("nodes" if len(counts) == 1 else f"nodes, type {name}", f"{count:,} ({found.new.get(name, 0):,} new)")
        for name, count in counts.items()
    ]
    rows += [("edges read", found.report.edges_read), ("self-loops dropped", found.report.self_loops_dropped)]
    rows += [(f"entries now, relation {name}", entries) for name, entries in found.report.entries.items()]
    rows += [(f"bad rows: {kind}", count) for kind, count in found.report.bad_rows.items()]
    display.table("", str(graph), rows=[*rows, ("seconds", f"{found.report.seconds:.1f}")])


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
        made = f" (by {report['split_by']})" if report["split_by"] else made
        rows.append(("split", " / ".join(f"{n:,} {role}" for role, n in report["split"].items()) + made))
    rows.append(("edges read", report["edges_read"]))
    if report["edges_later"]:
        rows.append(("edges left out by --before", report["edges_later"]))
    for name, entries in report["entries"].items():
        rows.append((f"stored, relation {name}" if len(report["entries"]) > 1 else "entries stored", entries))
    for part, entries in report["entries_earlier"].items():
        rows.append((f"stored as of the end of {part}", sum(entries.values())))
    rows += [
        ("self-loops dropped", report["self_loops_dropped"]),
        ("duplicates merged", report["duplicates_merged"]),
    ]
    rows += [(f"bad rows: {kind}", count) for kind, count in report["bad_rows"].items()]
    rows.append(("seconds", f"{report['seconds']:.1f}"))
    display.table("", report["folder"], rows=rows)
