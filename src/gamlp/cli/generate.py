"""`gamlp generate`: synthetic graphs of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gamlp.cli.info import show_graph
from gamlp.cli.show import display

_OUT = typer.Option(help="Graph folder to write; must not exist.")
_SEED = typer.Option(help="The same seed gives the same bytes.", min=0)
_JSON = typer.Option("--json", help="Report as JSON.")


def register(app: typer.Typer) -> None:
    """Add the verb and its graphs."""
    verb = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode="rich")
    verb.command("communities")(_communities)
    verb.command("short-video")(_short_video)
    verb.command("mag-like")(_mag_like)
    app.add_typer(verb, name="generate")


_HELP = """Make a synthetic graph of any size.

  gamlp generate communities --nodes 100000 --edges 1000000 --out graph

  gamlp generate short-video --scale 0.1 --out graph

  gamlp generate mag-like --scale 0.01 --out graph
"""


def _communities(
    out: Annotated[Path, _OUT],
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 100_000,
    edges: Annotated[int, typer.Option(help="Undirected edges; stored twice.")] = 1_000_000,
    features: Annotated[int, typer.Option(help="Features a node.")] = 64,
    classes: Annotated[int, typer.Option(help="Communities, which are the classes.")] = 10,
    homophily: Annotated[float, typer.Option(help="Share of edges kept inside a class.")] = 0.6,
    signal: Annotated[float, typer.Option(help="Length of a class's centre; noise has deviation 1.")] = 1.0,
    labelled: Annotated[
        float,
        typer.Option(help="Share of nodes whose label is known; the others have none, and no part in the split."),
    ] = 1.0,
    train: Annotated[float, typer.Option(help="Share of labelled nodes that train.")] = 0.1,
    valid: Annotated[float, typer.Option(help="Share of labelled nodes that validate; the others test.")] = 0.1,
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="How features are stored.")
    ] = "float32",
    seed: Annotated[int, _SEED] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Communities as classes, degrees and clustering as of citations, features that hint at the class.

      gamlp generate communities --nodes 100000 --edges 1000000 --features 64 --classes 10 --out graph

    The shape of ogbn-products at a tenth: --nodes 244903 --edges 6185914 --features 100 --classes 47

    That of ogbn-papers100M at a hundredth: --nodes 1110600 --edges 16156859 --features 128 --classes 172
    --labelled 0.0139 --train 0.78 --valid 0.081 --dtype float16
    """
    from gamlp.graph.datasets import communities

    with display.progress(as_json) as progress:
        graph = communities(
            out,
            nodes=nodes,
            edges=edges,
            features=features,
            classes=classes,
            homophily=homophily,
            signal=signal,
            labelled=labelled,
            train=train,
            valid=valid,
            dtype=dtype,
            seed=seed,
            progress=progress,
        )
    show_graph(graph, as_json)


def _short_video(
    out: Annotated[Path, _OUT],
    scale: Annotated[float, typer.Option(help="1 is a million nodes, 0.1 a tenth of it.")] = 1.0,
    seed: Annotated[int, _SEED] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Users and the videos they watched: few popular, most cold; 253 classes, few labels.

    gamlp generate short-video --scale 0.1 --out graph
    """
    from gamlp.graph.datasets import short_video

    with display.progress(as_json) as progress:
        graph = short_video(out, scale=scale, seed=seed, progress=progress)
    show_graph(graph, as_json)


def _mag_like(
    out: Annotated[Path, _OUT],
    scale: Annotated[float, typer.Option(help="1 is ogbn-mag's size: 1.94 million nodes, 21.1 million edges.")] = 0.01,
    metapath: Annotated[
        str,
        typer.Option(help="What carries the labels: paper-field, paper-author, paper-paper, paper-author-institution."),
    ] = "paper-field",
    signal: Annotated[float, typer.Option(help="Share of the ways along it that stay inside a class.")] = 0.8,
    own: Annotated[
        float | None,
        typer.Option(
            help="Length of a class's centre in the papers' own features; noise has deviation 1. "
            "(default: 0; 1 with paper-paper)",
            show_default=False,
        ),
    ] = None,
    features: Annotated[str, typer.Option(help="Which types have features: all, or paper alone as in OGB.")] = "all",
    width: Annotated[int, typer.Option(help="Features a node.")] = 128,
    classes: Annotated[
        int | None,
        typer.Option(
            help="Classes of papers. (default: 349; fewer where a class would have under 40 fields)",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, _SEED] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Papers, authors, institutions and fields in ogbn-mag's shape; one metapath carries the labels.

      gamlp generate mag-like --scale 0.01 --metapath paper-author-institution --out graph

    Along all other relations, and in all other features, there is noise alone.
    """
    from gamlp.graph.datasets import mag_like

    with display.progress(as_json) as progress:
        graph = mag_like(
            out,
            scale=scale,
            metapath=metapath,
            signal=signal,
            own=own,
            features=features,
            width=width,
            classes=classes,
            seed=seed,
            progress=progress,
        )
    show_graph(graph, as_json)
