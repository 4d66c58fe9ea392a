"""`gamlp run`: the whole path, from tables or a dataset to scores and predictions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.cli.options import named
from gamlp.cli.options.choice import PresetOption, TimeLimitOption, asked_for
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
    ModelOption,
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
from gamlp.cli.options.tables import TableOptions, with_table_options
from gamlp.cli.show import display
from gamlp.cli.show.columns import show_columns, show_delimiters
from gamlp.cli.show.leaderboard import show_leaderboard
from gamlp.cli.show.peers import show_single
from gamlp.cli.show.scores import show_next, show_notes, show_scores, show_training, show_weights, show_words
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph.ingest import ColumnUse
    from gamlp.run import Outcome, Tables
    from gamlp.tune import Chosen


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(with_table_options(_run))


def _run(
    graph: Annotated[
        str | None,
        typer.Argument(
            help="Name of a dataset, or a graph folder. (default: digits)",
            metavar="[DATASET_OR_GRAPH]",
            show_default=False,
        ),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(
            help="Edge table, columns src and dst. By relation.",
            rich_help_panel="Tables",
            show_default=False,
            metavar="[NAME=]PATH",
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            help="Node table, columns id, label (empty if unknown), split (if you have one) and features. By type.",
            rich_help_panel="Tables",
            show_default=False,
            metavar="[NAME=]PATH",
        ),
    ] = None,
    reading: TableOptions = TableOptions(),  # noqa: B008
    out: Annotated[
        str | None,
        typer.Option(help="Run folder, on Spark also a URL. (default: runs/<name>)", metavar="RUN", show_default=False),
    ] = None,
    preset: PresetOption = None,
    time_limit: TimeLimitOption = None,
    metric: MetricOption = None,
    model: ModelOption = None,
    recipe: RecipeOption = None,
    changes: SetOption = None,
    seeds: SeedsOption = None,
    stages: StagesOption = None,
    warm: Annotated[
        Path | None,
        typer.Option(
            help="Run folder or bundle whose weights training starts from.", metavar="RUN", show_default=False
        ),
    ] = None,
    trust: TrustOption = None,
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
    """Do all of it: ingest, propagate, try several models, keep the best by validation rows, score test rows once.

    On bundled data:

      gamlp run digits

    On your own tables; labels for all nodes are in runs/nodes/predictions.parquet:

      gamlp run --edges edges.csv --nodes nodes.csv

    On tables of several types of nodes and relations; labels of the target type:

      gamlp run --nodes paper=papers.csv --nodes author=authors.csv --edges writes=writes.csv \\
        --join writes=author:paper --target paper --out runs/papers

    On a graph that has grown since, from the weights of the run before:

      gamlp run graph --warm runs/graph --out runs/today

    One model in a moment; the best that half an hour finds, judged by its ranking; a model that you name:

      gamlp run digits --preset fast
      gamlp run digits --preset best --time-limit 30m --metric roc_auc
      gamlp run digits --model sign

    On tables whose columns have other names:

      gamlp run --edges follows.csv --src user --dst follows --nodes users.csv --id user --label country

    Run again, a finished run shows its result and an interrupted one goes on. On Spark
    (RUN must be a folder that its machines share):

      gamlp run --edges edges.parquet --nodes nodes.parquet --out RUN --engine spark --master spark://host:7077
    """
    from gamlp.models import is_solved
    from gamlp.peers import peer_of, run_method
    from gamlp.run import from_tables, open_source, published_default, run_path
    from gamlp.training import run_here, writing_run
    from gamlp.tune import choose

    naming = {
        "--recipe": recipe, "--model": model, "--set": changes, "--seeds": seeds, "--stages": stages, "--warm": warm,
        "--exchange": exchange, "--servers": servers,
    }  # fmt: skip
    asked = asked_for(preset, time_limit, metric, naming)
    tables = _tables(graph, edges, nodes, reading, seed)
    settings = engine_settings(master, spark_conf, blocks, executor_wait)
    given = resources_of(device, memory, threads, processes, tls_cert, tls_key)
    resources = replace(given, engine=engine, settings=settings)
    begun = time.monotonic()
    with display.progress(as_json) as progress, closing(resources.open_engine()) as opened_engine, ExitStack() as stack:
        if tables is not None and opened_engine.one_machine:
            tables.check_present()
        place = out or str(Path("runs") / _name(graph, tables, model))
        if tables is None:  # before the run's folder is made: it may have the name of the dataset
            opened = open_source(graph or "digits", data_dir, seed, progress)
        folder = stack.enter_context(run_here(seen_by_tasks(place, opened_engine), writes=True))
        stack.enter_context(writing_run(folder))
        if tables is not None:
            opened = from_tables(tables, folder, resources=resources, progress=progress)
        columns = [] if opened.ingested is None else opened.ingested.columns
        delimiters = {} if opened.ingested is None else opened.ingested.delimiters
        choice, notes = None, []
        if asked is not None and preset is None and time_limit is None and published_default(opened) is not None:
            asked, notes = None, [f"settings of {opened.name} are published, and used; --preset default tries several"]
        if asked is not None:
            limit = asked.left(time.monotonic() - begun)
            choice = choose(
                opened, folder, preset=asked.preset, time_limit=limit, metric=asked.metric, seed=seed,
                resources=resources, progress=progress,
            )  # fmt: skip
            made, notes = choice.recipe, choice.notes
            name = "preset fast" if choice.leaderboard is None else choice.leaderboard.winner.name
        else:
            made, name = recipe_of(
                opened, recipe, changes, seeds, model, trust, warm, metric, stages, exchange, servers
            )
            if warm is not None and recipe is None and model is None and is_solved(made):
                notes = [
                    f"'{made.model.name}' of '{warm}' is solved anew, from no weights: it needs none to start from"
                ]
                warm = None
        if not peer_of(made).leaves_bundle:
            if warm is not None:
                raise GamlpError(f"'{made.model.name}' has no weights to start from", hint="leave out --warm")
            if made.training.exchange == "server":
                raise GamlpError(f"'{made.model.name}' runs in one process", hint="leave out --exchange")
            if not opened_engine.one_machine:
                raise GamlpError(f"'{made.model.name}' runs on one machine", hint=f"leave out --engine {engine}")
            single = run_method(opened.opened, made, folder, resources=resources, progress=progress)
            show_single(single, name, time.monotonic() - begun, as_json, columns)
            return
        outcome = run_path(opened, made, folder, warm=warm, resources=resources, progress=progress)
    seconds = time.monotonic() - begun
    if as_json:
        _print(outcome, choice, notes, place, name, seconds, columns)
        return
    if columns:
        show_columns(columns)
        show_delimiters(delimiters)
    for note in notes:
        if note not in outcome.trained.notes:
            display.say(f"note: {note}.")
    if choice is None or choice.leaderboard is None:
        show_training(outcome.trained)
    else:
        show_notes(outcome.trained)
        show_leaderboard(choice.leaderboard)
    said = choice.leaderboard.sentence if choice is not None and choice.leaderboard is not None else ""
    _show(outcome, place, name, seconds, said)


def _tables(
    graph: str | None, edges: list[str] | None, nodes: list[str] | None, reading: TableOptions, seed: int
) -> Tables | None:
    from gamlp.run import Tables

    if not edges and not nodes:
        if given := reading.given():
            raise GamlpError(
                f"{given[0]} is about tables, and there are none", hint="leave it out, or give both --edges and --nodes"
            )
        return None
    if not edges or not nodes or graph is not None:
        raise GamlpError("give a dataset, or both --edges and --nodes", hint="gamlp run --help")
    places = named.tables("--edges", edges), named.tables("--nodes", nodes)
    return Tables(*places, reading.to_read(*places, seed))


def _name(graph: str | None, tables: Tables | None, model: str | None) -> str:
    """Of a run: after its graph, or its table of nodes; of several tables, after the target's."""
    from gamlp.graph.ingest import split_place

    if tables is None:
        return "-".join([Path(graph or "digits").name, *([model] if model else [])])
    if isinstance(tables.nodes, str):
        file, table = split_place(tables.nodes)
        return table or file.name.partition(".")[0]
    return tables.how.target or next(iter(tables.nodes))


def _show(outcome: Outcome, place: str, name: str, seconds: float, said: str) -> None:
    """`said`: the sentence of the leaderboard, which is printed below it."""
    trained = outcome.trained
    parts = {"validation": trained.valid} if trained.valid else {}
    parts |= {"test": outcome.test} if outcome.test else {}
    if parts:
        display.say("")
        first = next(iter(trained.bundles.values()))
        show_scores(parts, first.multi_label, len(trained.bundles), first.report.get("metric", ""))
    if outcome.weights is not None:
        show_weights(outcome.weights)
    show_words([sentence for sentence in outcome.words if sentence != said])
    display.say(f"\n{place}: bundle.safetensors, recipe.yaml, metrics.jsonl, hops/ (recipe: {name}; {seconds:.1f} s)")
    display.say(f"{outcome.report}: scores, curves, mistakes and weights to look at in a browser")
    if outcome.predictions is not None:
        display.say(f"{outcome.predictions.path}: labels and probabilities of {outcome.predictions.rows:,} nodes")
    show_next(
        ["gamlp", "predict", place, "--out", "predictions.parquet"],
        ["gamlp", "predict", place, "--graph", "ANOTHER_GRAPH", "--out", "predictions.csv"],
    )


def _print(
    outcome: Outcome,
    choice: Chosen | None,
    notes: Sequence[str],
    place: str,
    name: str,
    seconds: float,
    columns: Sequence[ColumnUse],
) -> None:
    for sentence in outcome.trained.broken:
        display.warn(sentence)
    board = None if choice is None else choice.leaderboard
    display.print_json(
        {
            "run": place,
            "recipe": name,
            "valid": outcome.trained.valid,
            "test": outcome.test,
            "words": outcome.words,
            "hop_weights": None if outcome.weights is None else asdict(outcome.weights),
            "predictions": None if outcome.predictions is None else str(outcome.predictions.path),
            "report": str(outcome.report),
            "columns": [asdict(use) for use in columns],
            "leaderboard": None if board is None else board.model_dump(mode="json"),
            "notes": list(dict.fromkeys([*notes, *outcome.trained.notes])),
            "seconds": round(seconds, 3),
        }
    )
