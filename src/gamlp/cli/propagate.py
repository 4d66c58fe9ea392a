"""`gamlp propagate`: a graph → hops on disk."""

from __future__ import annotations

import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamlp.cli.info import show_store
from gamlp.cli.options.engine import BlocksOption, EngineOption, MasterOption, SparkConfOption, engine_settings
from gamlp.cli.options.recipe import Precision
from gamlp.cli.show import display
from gamlp.cli.show.subsets import (
    CountOption,
    MissingOption,
    ReduceOption,
    SeedOption,
    SeparateTypesOption,
    SubsetOption,
    SubsetsOption,
    relations_of,
)
from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.graph import Graph
    from gamlp.progress import Progress
    from gamlp.propagation import Plan


class Scaling(StrEnum):
    none = "none"
    row = "row"
    l2 = "l2"
    standard = "standard"


_LABELS = "Labels"
_MACHINE = "Machine"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("propagate")(_propagate)


def _propagate(
    graph: Annotated[str, typer.Argument(help="Graph folder, or the name of a dataset.", metavar="GRAPH_OR_DATASET")],
    out: Annotated[str, typer.Option(help="Store to write, or to go on with; on Spark also a URL.", metavar="PATH")],
    hops: Annotated[int, typer.Option(min=0, max=1000, help="Hops of features, K.")] = 5,
    r: Annotated[
        float, typer.Option("--r", min=0, max=1, help="Â = D^(r-1) Ã D^(-r): 0.5 symmetric, 0 row mean.")
    ] = 0.5,
    loops: Annotated[bool, typer.Option(help="One self-loop a node.")] = True,
    scaling: Annotated[Scaling, typer.Option(help="Of features, before propagation.")] = Scaling.none,
    dtype: Annotated[Precision, typer.Option(help="How hops are stored; sums are float32.")] = Precision.float32,
    rows: Annotated[
        str, typer.Option(help="Rows to keep: all, labelled, split, train, valid, test, or some joined by '+'.")
    ] = "all",
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
    label_r: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="r for labels. (default: --r)", rich_help_panel=_LABELS, show_default=False),
    ] = None,
    label_folds: Annotated[
        int, typer.Option(min=0, max=100, help="Folds of cross-fitted labels; 0 for none.", rich_help_panel=_LABELS)
    ] = 0,
    fold_seed: Annotated[int, typer.Option(min=0, help="Of the folds.", rich_help_panel=_LABELS)] = 0,
    subsets: SubsetsOption = None,
    subset: SubsetOption = None,
    subset_count: CountOption = None,
    subset_seed: SeedOption = None,
    missing: MissingOption = None,
    reduce: ReduceOption = None,
    separate_types: SeparateTypesOption = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory to use, such as 4GiB. (default: half of what is free; on Spark 1GiB a task)",
            rich_help_panel=_MACHINE,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="(default: all cores)", rich_help_panel=_MACHINE, show_default=False)
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Raw files of datasets. (default: GAMLP_DATA)", rich_help_panel=_MACHINE, show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a dataset's random split.", rich_help_panel=_MACHINE)] = 0,
    engine: EngineOption = "local",
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    blocks: BlocksOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Progress and result as JSON.", rich_help_panel=_MACHINE)
    ] = False,
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
    """
    from gamlp.graph.datasets import open_or_load
    from gamlp.io import parse_size
    from gamlp.propagation import FeatureSignal, LabelSignal, Operator, Plan
    from gamlp.run import Resources

    budget = None if memory is None else parse_size(memory)
    settings = engine_settings(master, spark_conf, blocks)
    resources = Resources(budget, threads, engine=engine, settings=settings)
    relations = relations_of(subsets, subset, subset_count, subset_seed, missing, reduce, separate_types)
    begun = time.monotonic()
    with display.progress(as_json) as progress, closing(resources.open_engine()) as chosen:
        opened = open_or_load(graph, data_dir, seed, progress)
        if label_hops is None:
            label_hops = hops if opened.trainable else 0
        labels = LabelSignal(
            hops=label_hops,
            operator=Operator(r=r if label_r is None else label_r, loops=loops),
            dtype=dtype.value,
            folds=label_folds,
            fold_seed=fold_seed,
        )
        features = FeatureSignal(
            hops=hops, operator=Operator(r=r, loops=loops), scaling=scaling.value, dtype=dtype.value
        )
        plan = Plan(features=features, labels=labels if label_hops else None, rows=rows)
        opened, plan, notes = _on_views(opened, plan, relations, out, progress)
        if all(nodes.features is None for nodes in opened.node_types.values()):
            plan = plan.model_copy(update={"features": None})
        store = chosen.propagate(opened, plan, out, progress)
    show_store(store, as_json, seconds=time.monotonic() - begun, notes=notes)


def _on_views(
    graph: Graph, plan: Plan, relations: dict[str, Any], out: str, progress: Progress
) -> tuple[Graph, Plan, list[str]]:
    """The graph with features for every type and the plan with its subsets, as a recipe would have them."""
    if not graph.heterogeneous:
        if relations:
            raise GamlpError(
                f"graph '{graph.name}' has one relation, and {', '.join(relations)} were given for several",
                hint="leave them out",
            )
        return graph, plan, []
    from gamlp.io import Place
    from gamlp.recipe import Recipe
    from gamlp.training.typed import resolve_relations, with_features

    assert plan.features is not None
    wanted = {"hops": plan.features.hops, "r": plan.features.operator.r, "label_hops": 0}
    if plan.labels is not None:
        wanted |= {"label_hops": plan.labels.hops, "label_r": plan.labels.operator.r}
    recipe, notes = resolve_relations(graph, Recipe.of({"propagation": wanted, "relations": relations}))
    graph = with_features(graph, recipe, Place.of(out), progress)
    changes = {"subsets": recipe.relations.subsets, "separate_types": recipe.relations.separate_types == "yes"}
    return graph, plan.model_copy(update=changes), notes
