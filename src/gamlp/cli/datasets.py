"""`gamlp datasets`: what there is by name, and one of them as a graph folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gamlp.cli.info import show_graph
from gamlp.cli.show import display
from gamlp.errors import GamlpError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("datasets")(_datasets)


def _datasets(
    name: Annotated[str | None, typer.Argument(help="A dataset; without one, all are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Graph folder to write; must not exist.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files in PyG's and OGB's layout.", envvar="GAMLP_DATA")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of splits drawn at random.", min=0)] = 0,
    whole: Annotated[
        bool, typer.Option("--whole", help="Amazon, Coauthor: all nodes, not the largest component.")
    ] = False,
    memory: Annotated[str, typer.Option(help="Memory to use while converting.")] = "2GiB",
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> None:
    """List datasets by name, or save one as a graph folder.

      gamlp datasets

      gamlp datasets digits --out graph

    Raw files are looked for below --data-dir (or GAMLP_DATA), for example in Planetoid/Cora/raw,
    and fetched if they are not there and the network answers. A dataset is converted once;
    the result is kept in GAMLP_CACHE.
    """
    from gamlp.graph.datasets import load, presence
    from gamlp.io import parse_size

    if name is None:
        if out is not None:
            raise GamlpError("--out needs the name of a dataset", hint="write: gamlp datasets cora --out graph")
        _list(presence(data_dir), as_json)
        return
    with display.progress(as_json) as progress:
        graph = load(name, data_dir, seed, progress, whole=whole, memory=parse_size(memory))
        if out is not None:
            graph = graph.save(out)
    show_graph(graph, as_json)


def _list(found: list[Any], as_json: bool) -> None:
    if as_json:
        display.print_json(
            [
                {
                    "name": one.dataset.name,
                    "source": one.dataset.source,
                    **({} if one.dataset.counts is None else asdict(one.dataset.counts)),
                    "split": one.dataset.split,
                    "present": not one.missing,
                    "missing": list(one.missing),
                    "folder": str(one.place or one.wanted or "") or None,
                }
                for one in found
            ]
        )
        return
    rows = []
    for one in found:
        counts = one.dataset.counts
        numbers = ("",) * 4 if counts is None else (counts.nodes, counts.edges, counts.features, counts.classes)
        rows.append((one.dataset.name, *numbers, one.dataset.source, "missing" if one.missing else "present"))
    display.table("name", "nodes", "edges", "feats", "classes", "source", "files", rows=rows)
    for one in found:
        if one.missing:
            display.say(f"{one.dataset.name} is {one.status}")
