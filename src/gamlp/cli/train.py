"""`gamlp train`: a graph or its hops → a run folder with trained models."""

from __future__ import annotations

import time
from contextlib import closing
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
    seen_by_tasks,
)
from gamlp.cli.options.recipe import (
    DataDirOption,
    DeviceOption,
    ExchangeOption,
    JsonOption,
    MemoryOption,
    MetricOption,
    ProcessesOption,
    RecipeOption,
    SeedOption,
    SeedsOption,
    ServersOption,
    SetOption,
    StagesOption,
    ThreadsOption,
    TlsCertOption,
    TlsKeyOption,
    TrustOption,
    recipe_of,
    resources_of,
)
from gamlp.cli.show import display
from gamlp.cli.show.scores import show_next, show_training

_TRACKING = "Tracking"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("train")(_train)


def _train(
    source: Annotated[
        str, typer.Argument(help="Graph folder, name of a dataset, or store of hops.", metavar="STORE_OR_GRAPH")
    ],
    out: Annotated[str, typer.Option(help="Run folder to write, or to go on with; on Spark also a URL.")],
    recipe: RecipeOption = None,
    changes: SetOption = None,
    seeds: SeedsOption = None,
    stages: StagesOption = None,
    metric: MetricOption = None,
    trust: TrustOption = None,
    valid: Annotated[
        str | None, typer.Option(help="Validate on another graph.", metavar="GRAPH", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard.", rich_help_panel=_TRACKING)
    ] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(
            help="MLflow's URI: every epoch, and at the end the model.",
            rich_help_panel=_TRACKING,
            metavar="URI",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = "auto",
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    processes: ProcessesOption = 1,
    exchange: ExchangeOption = None,
    servers: ServersOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    data_dir: DataDirOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "local",
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    blocks: BlocksOption = None,
    executor_wait: ExecutorWaitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train GAMLP on a graph; the best epoch by validation rows is kept, and test rows are never read.

    On the bundled digits, with three seeds:

      gamlp train digits --out runs/digits --seeds 3

    On your own graph, with jk attention and no known labels among the inputs:

      gamlp train graph --out run --set model.attention=jk --set model.beta=0

    In three stages, where each model teaches the next what it is sure of about nodes without labels:

      gamlp train graph --out run --stages 3

    Hops that were propagated before are used as they are: gamlp train hops --out run
    """
    from gamlp.export import log_model
    from gamlp.run import open_source, train
    from gamlp.training import best_seed, run_here, trackers_for, writing_run

    settings = engine_settings(master, spark_conf, blocks, executor_wait)
    given = resources_of(device, memory, threads, processes, tls_cert, tls_key)
    resources = replace(given, engine=engine, settings=settings)
    begun = time.monotonic()
    with (
        display.progress(as_json) as progress,
        closing(resources.open_engine()) as opened_engine,
        run_here(seen_by_tasks(out, opened_engine), writes=True) as folder,
    ):
        opened = open_source(source, data_dir, seed, progress)
        other = None if valid is None else open_source(valid, data_dir, seed, progress)
        made, name = recipe_of(
            opened, recipe, changes, seeds, trust=trust, metric=metric, stages=stages, exchange=exchange,
            servers=servers,
        )  # fmt: skip
        with (
            writing_run(folder),
            trackers_for(folder, tensorboard=tensorboard, mlflow=mlflow, recipe=made, name=folder.name) as observe,
        ):
            trained = train(
                opened, made, folder, valid=other, resume=resume, resources=resources, observe=observe,
                progress=progress,
            )  # fmt: skip
        if mlflow is not None:
            trained.notes.append(log_model(trained.run, best_seed(trained.bundles), progress=progress))
    seconds = time.monotonic() - begun
    if as_json:
        for sentence in trained.broken:
            display.warn(sentence)
        reports = {seed: bundle.report for seed, bundle in trained.bundles.items()}
        display.print_json(
            {"run": out, "recipe": name, "valid": trained.valid, "seeds": reports, "notes": trained.notes}
            | {"seconds": round(seconds, 3)}
        )
        return
    show_training(trained)
    display.say(f"{out}: bundle.safetensors, recipe.yaml, metrics.jsonl, seeds/ (recipe: {name}; {seconds:.1f} s)")
    show_next(["gamlp", "evaluate", out], ["gamlp", "predict", out, "--out", "predictions.parquet"])
