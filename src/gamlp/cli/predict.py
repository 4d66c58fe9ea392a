"""`gamlp predict`: a trained run → a table of predictions with original ids."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.lean import lean_imports
from gamlp.cli.options import named
from gamlp.cli.options.engine import (
    BlocksOption,
    EngineOption,
    ExecutorWaitOption,
    MasterOption,
    SparkConfOption,
    engine_settings,
)
from gamlp.cli.options.recipe import (
    DataDirOption,
    DeviceOption,
    JsonOption,
    MemoryOption,
    SeedOption,
    ThreadsOption,
    TrustOption,
    resources_of,
    trusted,
)
from gamlp.cli.options.tables import TableOptions, with_table_options
from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.run import Newcomers


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("predict")(with_table_options(_predict))


def _predict(
    run: Annotated[
        str, typer.Argument(help="Run folder or its URL, or a bundle.safetensors with --graph.", metavar="RUN")
    ],
    out: Annotated[
        str,
        typer.Option(
            help="File to write: .parquet, .csv or .csv.gz. One that is there is replaced; on Spark a new folder.",
            metavar="PATH",
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(
            help="Another graph, or the same one grown. (default: the run's own)",
            metavar="GRAPH_OR_DATASET",
            show_default=False,
        ),
    ] = None,
    add_nodes: Annotated[
        list[str] | None,
        typer.Option(
            help="Table of nodes that the graph has not: predictions are of these. By type.",
            metavar="[NAME=]PATH",
            show_default=False,
        ),
    ] = None,
    add_edges: Annotated[
        list[str] | None,
        typer.Option(
            help="Table of edges that the graph has not, among newcomers and others. By relation.",
            metavar="[NAME=]PATH",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        str, typer.Option(help="all, labelled, unlabelled, split, train, valid, test, or some joined by '+'.")
    ] = "all",
    ids: Annotated[
        list[str] | None,
        typer.Option(
            help="Some nodes alone, by their ids between commas; an id with a comma in double quotes: '\"a,b\",c'.",
            metavar="ID,ID,…",
            show_default=False,
        ),
    ] = None,
    ids_file: Annotated[
        Path | None, typer.Option(help="Text file with one id a line.", metavar="FILE", show_default=False)
    ] = None,
    probabilities: Annotated[bool, typer.Option(help="A column p_<class> for every class.")] = True,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Two classes: the positive one is said where it is at least so likely. Many labels: each.",
            metavar="P",
            show_default=False,
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help="The class that --threshold is for. (default: the one that fewer training rows have)",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            help="No label where it would be less likely than this: its cell is empty.",
            metavar="P",
            show_default=False,
        ),
    ] = None,
    trust: TrustOption = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="(default: 32 MiB of hops)", rich_help_panel="Machine", show_default=False),
    ] = None,
    device: DeviceOption = "auto",
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    data_dir: DataDirOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "local",
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    blocks: BlocksOption = None,
    executor_wait: ExecutorWaitOption = None,
    as_json: JsonOption = False,
    reading: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Write id, label and probabilities of nodes, as many as there are, in little memory.

    Of the run's own graph, for nodes whose label is not known:

      gamlp predict run --out predictions.parquet --rows unlabelled

    Of two nodes:

      gamlp predict run --out predictions.csv --ids 12,40

    Of a graph that training never saw, with the same features:

      gamlp predict run --graph elsewhere --out predictions.csv

    Of nodes that came since, from tables of them and of their edges alone; the graph stays as it is:

      gamlp predict run --add-nodes new.csv --add-edges new_edges.csv --out newcomers.csv

    Where a miss costs more than a false alarm, and where no label is better than a wrong one:

      gamlp predict run --out predictions.csv --threshold 0.2

      gamlp predict run --out predictions.csv --abstain-below 0.8

    On Spark, as a folder of parts:

      gamlp predict run --out predictions.parquet --engine spark --master spark://host:7077
    """
    with lean_imports() if engine == "local" else nullcontext():
        from gamlp.graph import ids_in_file, split_ids
        from gamlp.graph.datasets import open_or_load
        from gamlp.run import predict
        from gamlp.training import run_here

    settings = engine_settings(master, spark_conf, blocks, executor_wait)
    resources = replace(resources_of(device, memory, threads), engine=engine, settings=settings)
    trust = trusted(trust)
    newcomers = _newcomers(add_nodes, add_edges, reading)
    if ids and not split_ids(ids):
        raise GamlpError("--ids names no node", hint="give ids between commas, or leave it out for all nodes")
    named_ids = split_ids(ids or []) + (ids_in_file(ids_file) if ids_file is not None else [])
    with (
        display.progress(as_json) as progress,
        closing(resources.open_engine()),
        run_here(run, writes=False) as place,
    ):
        other = None if graph is None else open_or_load(graph, data_dir, seed, progress)
        written = predict(
            place, out, graph=other, newcomers=newcomers, rows=rows, ids=named_ids, each_class=probabilities,
            batch_size=batch_size, threshold=threshold, positive=positive, abstain_below=abstain_below, trust=trust,
            resources=resources, progress=progress,
        )  # fmt: skip
        assert written is not None
    if as_json:
        about = {"file": str(out), "rows": written.rows, "seconds": round(written.seconds, 3), **written.decided}
        display.print_json(about | ({"notes": list(written.notes)} if written.notes else {}))
        return
    for note in written.notes:
        display.say(f"note: {note}.")
    display.say(f"{out}: {written.rows:,} rows, {written.rows / max(written.seconds, 1e-9):,.0f} rows/s")


def _newcomers(nodes: list[str] | None, edges: list[str] | None, reading: TableOptions) -> Newcomers | None:
    from gamlp.run import Newcomers

    if not nodes:
        if edges or reading.given():
            given = "--add-edges" if edges else reading.given()[0]
            raise GamlpError(f"{given} without --add-nodes", hint="give the table of newcomers: --add-nodes PATH")
        return None
    nodes_at = named.tables("--add-nodes", nodes)
    edges_at = named.tables("--add-edges", edges) if edges else None
    return Newcomers(nodes_at, edges_at, reading.to_add(nodes_at, edges_at))
