"""`gamlp evaluate`: a trained run → scores of rows it was not trained on."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

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
from gamlp.cli.show import display
from gamlp.cli.show.scores import show_classes, show_scores, show_words
from gamlp.errors import GamlpError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evaluate")(_evaluate)


def _evaluate(
    run: Annotated[str, typer.Argument(help="Run folder, or its URL.", metavar="RUN")],
    graph: Annotated[
        str | None,
        typer.Option(
            help="Another graph: its test rows, or all its labelled rows. (default: test rows of the run's own)",
            metavar="GRAPH_OR_DATASET",
            show_default=False,
        ),
    ] = None,
    other_nodes: Annotated[
        bool,
        typer.Option(
            "--other-nodes",
            help="Nodes of GRAPH are others than those of training even where ids are the same: none is left out.",
        ),
    ] = False,
    trust: TrustOption = None,
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
) -> None:
    """Score a run on test rows, or on another graph: mean and deviation over its seeds.

    Once, at the end:

      gamlp evaluate runs/digits

    On another graph; rows whose ids trained the model or chose it are left out:

      gamlp evaluate run --graph elsewhere

    By tasks on Spark, which count ranges of rows:

      gamlp evaluate run --engine spark --master spark://host:7077
    """
    from gamlp.graph.datasets import open_or_load
    from gamlp.run import evaluate
    from gamlp.training import RunFolder, run_here

    if other_nodes and graph is None:
        raise GamlpError("--other-nodes is about another graph", hint="name it: --graph GRAPH")
    settings = engine_settings(master, spark_conf, blocks, executor_wait)
    resources = replace(resources_of(device, memory, threads), engine=engine, settings=settings)
    with run_here(run, writes=True) as folder:
        opened = RunFolder.open(folder, trusted(trust))
        with display.progress(as_json) as progress:
            other = None if graph is None else open_or_load(graph, data_dir, seed, progress)
            report = evaluate(opened, other, other_nodes=other_nodes, resources=resources, progress=progress)
    if as_json:
        display.print_json({"run": run, **report})
        return
    for note in report.get("notes", []):
        display.say(f"note: {note}.")
    part = report.get("part", "test")
    parts = {"validation": report["valid"]} if report.get("valid") else {}
    show_scores(parts | {part: report}, report["many"], len(report["seeds"]), report.get("metric", ""))
    show_classes(report)
    where = (
        f"of graph '{report['graph']}'"
        if graph is not None
        else f"; written to {run.rstrip('/')}/{opened.evaluation_path.name}"
    )
    display.say(f"{report['rows']:,} {part} rows {where}".replace(" ;", ";"))
    show_words(report["words"])
    display.say(f"{report['report']}: scores, curves, mistakes and weights to look at in a browser")
