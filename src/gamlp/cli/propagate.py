"""`gamlp propagate`: a graph → hops on disk."""

from __future__ import annotations

import time
from contextlib import closing
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.cli.info import show_store
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
    JsonOption,
    Precision,
    RecipeOption,
    SeedOption,
    SetOption,
    ThreadsOption,
    TrustOption,
    trusted,
)
from gamlp.cli.show import display
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph import Graph
    from gamlp.progress import Progress
    from gamlp.recipe import Recipe
    from gamlp.run import Engine


class Scaling(StrEnum):
    none = "none"
    row = "row"
    l2 = "l2"
    standard = "standard"


_LABELS = "Labels"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("propagate")(_propagate)


def _propagate(
    graph: Annotated[str, typer.Argument(help="Graph folder, or the name of a dataset.", metavar="GRAPH_OR_DATASET")],
    out: Annotated[str, typer.Option(help="Store to write, or to go on with; on Spark also a URL.", metavar="PATH")],
    hops: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Hops of features, K. (default: 5)", show_default=False)
    ] = None,
    r: Annotated[
        float | None,
        typer.Option(
            "--r", min=0, max=1, help="Â = D^(r-1) Ã D^(-r): 0.5 symmetric (default), 0 row mean.", show_default=False
        ),
    ] = None,
    scaling: Annotated[
        Scaling | None, typer.Option(help="Of features, before propagation. (default: none)", show_default=False)
    ] = None,
    dtype: Annotated[
        Precision | None,
        typer.Option(help="How hops are stored; sums are float32. (default: float32)", show_default=False),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows to keep: all (default), labelled, split, train, valid, test, or some joined by '+'.",
            show_default=False,
        ),
    ] = None,
    label_hops: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="Hops of training labels, L; 0 for none. (default: --hops, if there are labels)",
            rich_help_panel=_LABELS,
            show_default=False,
        ),
    ] = None,
    label_folds: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100,
            help="Folds of cross-fitted labels. (default: 0, none)",
            rich_help_panel=_LABELS,
            show_default=False,
        ),
    ] = None,
    subset: Annotated[
        list[str] | None,
        typer.Option(
            "--subset",
            help="Of several relations, one view: relations joined by '+'; may be given again.",
            metavar="A+B",
            show_default=False,
        ),
    ] = None,
    recipe: RecipeOption = None,
    changes: SetOption = None,
    trust: TrustOption = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory to use, such as 4GiB. (default: half of what is free; on Spark 1GiB a task)",
            rich_help_panel="Machine",
            show_default=False,
        ),
    ] = None,
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
    """Propagate features and training labels over a graph, and keep every hop by node.

    Five hops of the bundled digits:

      gamlp propagate digits --out hops --hops 5

    A finished store returns at once; an interrupted one goes on where it was. Less memory, half the disk:

      gamlp propagate graph --out hops --memory 2GiB --dtype float16 --rows split

    On Spark, from and to storage that all its machines see:

      gamlp propagate s3://bucket/graph --out s3://bucket/hops --engine spark --master spark://host:7077

    Of several relations, every view has hops of its own:

      gamlp propagate hgb-acm --out hops --subset paper-author --subset paper-author+paper-subject

    Every other setting is one of a recipe (gamlp recipes --keys, sections propagation and relations):

      gamlp propagate digits --out hops --set propagation.loops=false --set propagation.label_r=0
    """
    from gamlp.graph.datasets import open_or_load
    from gamlp.io import parse_size
    from gamlp.propagation import Plan
    from gamlp.recipe import Recipe, parse_changes
    from gamlp.run import Resources

    budget = None if memory is None else parse_size(memory)
    resources = Resources(
        budget, threads, engine=engine, settings=engine_settings(master, spark_conf, blocks, executor_wait)
    )
    given = {
        "hops": hops, "r": r, "scaling": scaling and scaling.value, "dtype": dtype and dtype.value, "rows": rows,
        "label_hops": label_hops, "folds": label_folds,
    }  # fmt: skip
    values: dict[str, Any] = {f"propagation.{key}": value for key, value in given.items() if value is not None}
    if subset:
        values["relations.subsets"] = [one.split("+") for one in subset]
    typed = parse_changes(changes or [])
    trust = trusted(trust, typed)
    made = Recipe.of(recipe, trust=trust).changed(typed, trust=trust).changed(values)
    begun = time.monotonic()
    with display.progress(as_json) as progress, closing(resources.open_engine()) as chosen:
        opened = open_or_load(graph, data_dir, seed, progress)
        if "label_hops" not in made.propagation.model_fields_set:
            made = made.changed({"propagation.label_hops": made.propagation.hops if opened.trainable else 0})
        opened, made, notes = _on_views(opened, made, out, chosen, progress)
        plan = Plan.of(made, labels=made.propagation.label_hops > 0)
        if all(nodes.features is None for nodes in opened.node_types.values()):
            plan = plan.model_copy(update={"features": None})
        store = chosen.propagate(opened, plan, out, progress)
    show_store(store, as_json, seconds=time.monotonic() - begun, notes=notes)


def _on_views(
    graph: Graph, recipe: Recipe, out: str, engine: Engine, progress: Progress
) -> tuple[Graph, Recipe, list[str]]:
    """The graph with features for every type and the recipe with its views, as training would have them."""
    named = sorted(recipe.relations.model_dump(exclude_defaults=True))  # a recipe written down whole has them all
    if named and not graph.heterogeneous:
        raise GamlpError(
            f"graph '{graph.name}' has one relation, and {', '.join(named)} were given for several",
            hint="leave them out",
        )
    ordinary = recipe.propagation.directions == "in" and recipe.features.structural != "alone"
    if not graph.heterogeneous and graph.nodes.features is not None and ordinary:
        return graph, recipe, []  # without torch, which takes longer to import than small graphs to propagate
    from gamlp.io import Place
    from gamlp.training import resolve_relations, with_features

    recipe, notes = resolve_relations(graph, recipe)
    place = Place.of(out)
    return with_features(graph, recipe, place, engine, progress, partial(engine.tally, place)), recipe, notes
