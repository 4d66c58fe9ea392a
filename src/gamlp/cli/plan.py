"""`gamlp plan`: memory, disk and time of a run, before anything is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gamlp.cli.options.recipe import (
    JsonOption,
    MemoryOption,
    Precision,
    RecipeOption,
    SetOption,
    ThreadsOption,
    TrustOption,
    trusted,
)
from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.propagation import Plan
    from gamlp.recipe import Recipe
    from gamlp.sizing import GraphShape, Outlook, SparkRun, Step

_COUNTS = "A graph that is not there yet"
_SPARK = "Spark"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("plan")(_plan)


def _plan(
    graph: Annotated[
        str | None,
        typer.Argument(
            help="Graph folder; or the name of a dataset, by its counts: nothing is loaded.",
            metavar="[GRAPH_OR_DATASET]",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, rich_help_panel=_COUNTS, show_default=False)] = None,
    edges: Annotated[
        int | None, typer.Option(min=0, help="An undirected one counts once.", rich_help_panel=_COUNTS)
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Edges are stored as they lead, not both ways.", rich_help_panel=_COUNTS)
    ] = False,
    features: Annotated[int, typer.Option(min=0, help="Columns.", rich_help_panel=_COUNTS)] = 128,
    classes: Annotated[int, typer.Option(min=0, help="0: no labels.", rich_help_panel=_COUNTS)] = 40,
    feature_dtype: Annotated[
        Precision, typer.Option(help="How the graph's own features are stored.", rich_help_panel=_COUNTS)
    ] = Precision.float32,
    labelled: Annotated[
        str | None,
        typer.Option(
            help="Rows with a label: a number, or a share such as 1.4%. (default: all)",
            rich_help_panel=_COUNTS,
            metavar="N|SHARE",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results will go: its disk is looked at.", metavar="PATH")] = Path(),
    hops: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Hops of features, K. (default: 5)", show_default=False)
    ] = None,
    label_hops: Annotated[
        int | None,
        typer.Option(min=0, max=1000, help="Hops of training labels, L; 0 for none.", show_default=False),
    ] = None,
    dtype: Annotated[
        Precision | None, typer.Option(help="How hops are stored. (default: float32)", show_default=False)
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Rows to keep: all (default), labelled, split, train, …, joined by '+'.", show_default=False),
    ] = None,
    recipe: RecipeOption = None,
    changes: SetOption = None,
    trust: TrustOption = None,
    memory: MemoryOption = None,
    threads: ThreadsOption = None,
    measure: Annotated[
        bool, typer.Option(help="Time this machine for a second or two; else by recorded rates.", show_default=True)
    ] = True,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="spark: every step on a cluster, with settings to paste.", rich_help_panel=_SPARK),
    ] = "local",
    executors: Annotated[int, typer.Option(min=1, help="How many.", rich_help_panel=_SPARK)] = 8,
    executor_cores: Annotated[int, typer.Option(min=1, help="Of each.", rich_help_panel=_SPARK)] = 4,
    task_memory: Annotated[str, typer.Option(help="As --memory on Spark.", rich_help_panel=_SPARK)] = "4GiB",
    as_json: JsonOption = False,
) -> None:
    """Tell what a run will take, step by step, and whether this machine has it; nothing is run.

    A graph folder, or a dataset by its counts:

      gamlp plan digits

    A graph that is not there yet:

      gamlp plan --nodes 2449029 --edges 61859140 --features 100 --classes 47 --dtype float16

    The largest of the paper's, whose hops are kept for rows with labels alone, in a budget:

      gamlp plan ogbn-papers100M --labelled 1546782 --rows labelled --dtype float16 --memory 8GiB

    On a cluster, with settings for YARN and Kubernetes:

      gamlp plan ogbn-papers100M --labelled 1546782 --rows labelled --dtype float16 --engine spark --executors 32
    """
    from gamlp.io import parse_size, usable_cores
    from gamlp.recipe import Recipe, parse_changes
    from gamlp.sizing import Cluster, Outlook, SparkRun, ThisMachine, measured_rates, recorded_rates, spark_content

    typed = parse_changes(changes or [])
    trust = trusted(trust, typed)
    given = {"hops": hops, "label_hops": label_hops, "dtype": dtype and dtype.value, "rows": rows}
    values: dict[str, Any] = {f"propagation.{key}": value for key, value in given.items() if value is not None}
    made = Recipe.of(recipe, trust=trust).changed(typed, trust=trust).changed(values)
    shape, plan, there = _shape(graph, made, nodes, edges, features, classes, feature_dtype, labelled, directed)
    cores = threads or usable_cores()
    machine = ThisMachine.here(out, cores)
    measure = measure and engine == "local"  # a cluster's machines are others
    rates = measured_rates(cores, made.propagation.dtype, machine.folder) if measure else recorded_rates(cores)
    cluster = Cluster(executors, executor_cores, parse_size(task_memory))
    budget = None if memory is None else parse_size(memory)
    outlook = Outlook.of(shape, made, plan, machine, rates, cluster, budget=budget, there=there, measure=measure)
    if as_json:
        spark = {} if engine == "local" else {"spark": spark_content(SparkRun.of(outlook))}
        display.print_json(_content(outlook) | spark)
    elif engine == "spark":
        _show_spark(outlook.recipe, SparkRun.of(outlook))
    else:
        _show(outlook)


def _shape(
    graph: str | None,
    recipe: Recipe,
    nodes: int | None,
    edges: int | None,
    features: int,
    classes: int,
    feature_dtype: Precision,
    labelled: str | None,
    directed: bool,
) -> tuple[GraphShape, Plan, bool]:
    """Of a folder, of a dataset's counts, or of the counts that were given; and whether it is on disk."""
    from gamlp.graph import Graph
    from gamlp.graph.datasets import find_dataset
    from gamlp.io import is_url
    from gamlp.models import labels_used
    from gamlp.propagation import Plan
    from gamlp.sizing import GraphShape

    plan = Plan.of(recipe, labels=labels_used(recipe))
    if graph is None:
        if nodes is None or edges is None:
            raise GamlpError("there is no graph to size", hint="name one, or give --nodes and --edges")
        name = "graph"
    elif nodes is not None or edges is not None:
        raise GamlpError(f"'{graph}' has its own sizes", hint="leave it out, or --nodes and --edges")
    elif is_url(graph) or Path(graph).is_dir():
        opened = Graph.open(graph)
        if not opened.trainable:
            plan = plan.model_copy(update={"labels": None})
        return GraphShape.of_graph(opened, plan), plan, True
    else:
        dataset = find_dataset(graph)
        if dataset.counts is None:
            raise GamlpError(f"sizes of '{graph}' are not known", hint="give --nodes and --edges")
        name, counts = dataset.name, dataset.counts
        nodes, edges, features, classes = counts.nodes, counts.edges, counts.features, counts.classes
    if not classes:
        plan = plan.model_copy(update={"labels": None})
    known = _labelled(labelled, nodes)
    made = GraphShape.of_counts(
        nodes, edges, features, classes, labelled=known, directed=directed, name=name, feature_dtype=feature_dtype.value
    )
    return made, plan, False


def _labelled(text: str | None, nodes: int) -> int:
    if text is None:
        return nodes
    try:
        value = float(text.rstrip("%").replace(",", "")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise GamlpError(f"'{text}' is no number of rows", hint="give --labelled 1546782 or --labelled 1.4%") from error
    share = text.endswith("%") or "." in text
    if not 0 <= value <= (1 if share else nodes):
        raise GamlpError(f"{text} of {nodes:,} nodes cannot be labelled", hint="give --labelled 1546782 or 1.4%")
    return round(value * nodes) if share else int(value)


def _show_steps(steps: Sequence[Step], memory: str, disk: str) -> None:
    """A table of what each step takes, and a line on each below it."""
    from gamlp.io import format_size
    from gamlp.sizing import about

    rows = [
        (
            step.name,
            format_size(step.memory) if step.memory else "",
            format_size(step.meanwhile) if step.meanwhile else "",
            format_size(step.left),
            about(step.seconds),
        )
        for step in steps
    ]
    display.table("step", memory, f"{disk} meanwhile", f"{disk} after", "time, about", rows=rows)
    display.say("")
    for step in steps:
        display.say(f"{step.name}: {step.words}")


def _show(outlook: Outlook) -> None:
    from gamlp.sizing import about

    shape, wanted = outlook.shape, outlook.recipe.propagation
    display.say(
        f"{shape.name}: {shape.nodes:,} nodes, {shape.entries:,} stored neighbours, {shape.features} features, "
        f"{shape.classes} classes; {wanted.hops} hops, {wanted.label_hops if outlook.hops.plan.labels else 0} of "
        f"labels, {wanted.dtype}, rows {wanted.rows}\n"
    )
    _show_steps(outlook.steps, "memory", "disk")
    machine = outlook.machine
    display.say(f"\nthis machine, {machine.cores} cores, --out in {machine.folder}:")
    for sentence in outlook.verdict():
        display.say(f"  {sentence}.")
    display.say(f"  all in about {about(outlook.seconds)}, once the graph is there.")
    display.say(f"Spark: {outlook.cluster.words()}; hops in about {about(outlook.cluster.seconds)}.")
    told = {name: source for name, source in outlook.rates.sources.items() if name in ("sums", "disk")}
    display.say(f"rates: sums {told['sums']}; disk {told['disk']}; training {outlook.fit.source}.")


def _show_spark(recipe: Recipe, run: SparkRun) -> None:
    from gamlp.io import format_size
    from gamlp.sizing import about

    shape, cluster = run.shape, run.cluster
    display.say(
        f"{shape.name}: {shape.nodes:,} nodes, {shape.entries:,} stored neighbours, {shape.features} features, "
        f"{shape.classes} classes; {recipe.propagation.hops} hops, {recipe.propagation.dtype}\n"
    )
    _show_steps(run.steps, "memory of a task", "storage")
    display.say(
        f"\n{cluster.executors} executors of {cluster.cores} cores, each with {format_size(run.sizes.executor_memory)} "
        f"for Python and {cluster.cores} GiB for Java; {run.sizes.blocks} blocks; {format_size(run.storage)} of shared "
        f"storage at most; all in about {about(run.seconds)}."
    )
    for name, manager in (("YARN", "yarn"), ("Kubernetes", "kubernetes")):
        display.say(f"\n{name}:\n\n{run.command(manager)}")
    display.say(f"\nrates: {run.rates.sources['spark']}; sums {run.rates.sources['sums']}; training {run.fit.source}.")


def _content(outlook: Outlook) -> dict[str, Any]:
    hops, cluster = outlook.hops, outlook.cluster
    return {
        "nodes": outlook.shape.nodes,
        "entries": outlook.shape.entries,
        "features": outlook.shape.features,
        "classes": outlook.shape.classes,
        "budget": hops.budget,
        "passes": len(hops.passes),
        "readings": hops.readings,
        "state": hops.state,
        "store": hops.store,
        "steps": {
            step.name: {
                "memory": step.memory,
                "disk_meanwhile": step.meanwhile,
                "disk_after": step.left,
                "seconds": None if step.seconds is None else [round(one, 3) for one in step.seconds],
            }
            for step in outlook.steps
        },
        "memory": outlook.memory,
        "disk": outlook.disk,
        "seconds": [round(one, 3) for one in outlook.seconds],
        "free": {"memory": outlook.machine.memory, "disk": outlook.machine.disk, "cores": outlook.machine.cores},
        "fits": outlook.fits,
        "verdict": list(outlook.verdict()),
        "spark": {
            "executors": cluster.cluster.executors,
            "executor_memory": cluster.executor_memory,
            "blocks": cluster.blocks,
            "storage": cluster.storage,
            "seconds": [round(one, 3) for one in cluster.seconds],
        },
        "rates": outlook.rates.sources | {"training": outlook.fit.source},
    }
