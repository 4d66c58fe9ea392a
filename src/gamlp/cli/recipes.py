"""`gamlp recipes`: shipped recipes, those that fit a graph, one of them, or every setting there is."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gamlp.cli.options.recipe import DataDirOption, TrustOption
from gamlp.cli.show import display
from gamlp.errors import GamlpError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("recipes")(_recipes)


def _recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A shipped recipe or a .yaml file, to print it; a graph folder or a dataset, to see what fits it.",
            metavar="[NAME|FILE|GRAPH]",
            show_default=False,
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Every setting with its default and allowed values.")] = False,
    trust: TrustOption = None,
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List shipped recipes, those that fit a graph first; print one whole; or explain every setting.

    What fits a graph, and why:

      gamlp recipes digits

    Every setting, its default, the values it may have and what it does:

      gamlp recipes --keys

    The defaults as a file to edit:

      gamlp recipes defaults > my.yaml
    """
    from gamlp.recipe import Recipe, described, shipped_names

    if keys:
        if name is not None:
            raise GamlpError("--keys are those of every recipe", hint=f"leave out '{name}' or --keys")
        found = described()
        if as_json:
            display.print_json([dict(zip(("key", "default", "allowed", "meaning"), row)) for row in found])
        else:
            display.table("setting", "default", "allowed", "meaning", rows=list(found))
    elif name is not None and _is_graph(name):
        _show_fitting(name, data_dir, as_json)
    elif name is not None:
        made = Recipe.of(None if name == "defaults" else name, trust=trust)
        if as_json:
            display.print_json(made.model_dump(mode="json"))
        else:
            typer.echo(made.to_yaml(), nl=False)
    else:
        listed = [("defaults", "what holds where a recipe is silent")]
        listed += [(one, Recipe.of(one).about.splitlines()[0]) for one in shipped_names()]
        if as_json:
            display.print_json([dict(zip(("name", "about"), row)) for row in listed])
        else:
            display.table("recipe", "about", rows=list(listed))
            display.say("\nThose that fit your graph: gamlp recipes GRAPH")


def _is_graph(name: str) -> bool:
    """A folder, the URL of one, or a dataset; the name of a recipe is that recipe's."""
    from gamlp.graph.datasets import is_dataset
    from gamlp.io import is_url
    from gamlp.recipe import shipped_names

    if name == "defaults" or name in shipped_names() or name.endswith((".yaml", ".yml")):
        return False
    return is_url(name) or Path(name).is_dir() or is_dataset(name.lower()) or is_dataset(name)


def _show_fitting(name: str, data_dir: Path | None, as_json: bool) -> None:
    from gamlp.graph.datasets import find_dataset, open_or_load
    from gamlp.io import is_url
    from gamlp.peers import recipes_for, recipes_of
    from gamlp.recipe import published_recipe

    dataset = None if is_url(name) or Path(name).is_dir() else find_dataset(name).name
    missing = ""
    try:
        with display.progress(as_json) as progress:
            graph = open_or_load(name, data_dir, 0, progress)
        fitting = recipes_for(graph, dataset)
    except GamlpError as error:  # files that are not there: which recipes wait for them can be told all the same
        if dataset is None or not (fitting := recipes_of(dataset)):
            raise
        missing = str(error).rstrip(".")
    if as_json:
        display.print_json([asdict(one) for one in fitting])
        return
    rows = [(one.name, "" if one.fits else "does not fit", one.why) for one in fitting]
    display.table("recipe", "", "why", rows=rows)
    place = shlex.quote(name)
    published = None if dataset is None else published_recipe(dataset)
    display.say(
        f"\ngamlp run {place}: {f'uses {published}' if published else 'tries several and keeps what validates best'}"
        f"\ngamlp run {place} --recipe {fitting[0].name}: this one alone"
    )
    if missing:
        display.warn(missing)
