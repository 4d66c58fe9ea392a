"""`gamlp recipes`: shipped recipes, one of them, or every setting there is."""

from __future__ import annotations

from typing import Annotated

import typer

from gamlp.cli.options.recipe import TrustOption
from gamlp.cli.show import display


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("recipes")(_recipes)


def _recipes(
    name: Annotated[
        str | None, typer.Argument(help="A shipped recipe, or a .yaml file.", metavar="NAME", show_default=False)
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Every setting with its default and allowed values.")] = False,
    trust: TrustOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List shipped recipes, print one whole, or explain every setting.

    Every setting, its default, the values it may have and what it does:

      gamlp recipes --keys

    The defaults as a file to edit:

      gamlp recipes defaults > my.yaml
    """
    from gamlp.recipe import Recipe, described, shipped_names

    if keys:
        found = described()
        if as_json:
            display.print_json([dict(zip(("key", "default", "allowed", "meaning"), row)) for row in found])
        else:
            display.table("setting", "default", "allowed", "meaning", rows=list(found))
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
