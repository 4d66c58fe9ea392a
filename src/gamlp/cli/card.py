"""`gamlp card`: what a run is, as a model card in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gamlp.cli.options.recipe import TrustOption, trusted
from gamlp.cli.show import display


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("card")(_card)


def _card(
    run: Annotated[Path, typer.Argument(help="Run folder.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option(help="File to write. (default: printed)", metavar="FILE.md", show_default=False)
    ] = None,
    trust: TrustOption = None,
) -> None:
    """Write a model card: data, columns, recipe, scores beside baselines, what to doubt, limits.

    Printed, or in a file:

      gamlp card runs/digits
      gamlp card runs/digits --out README.md

    What was not measured is said to be so; gamlp evaluate scores test rows first.
    """
    from gamlp.io import write_text
    from gamlp.report import card_of
    from gamlp.run import graph_if_found
    from gamlp.training import RunFolder

    opened = RunFolder.open(run, trusted(trust))
    text = card_of(opened, graph_if_found(opened))
    if out is None:
        typer.echo(text, nl=False)
        return
    write_text(out, text)
    display.say(f"{out}: the model card of {run}")
