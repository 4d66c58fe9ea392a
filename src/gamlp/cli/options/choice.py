"""Options of how a model is chosen, where no recipe is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from gamlp.errors import GamlpError

if TYPE_CHECKING:
    from gamlp.tune import AskedChoice

_CHOICE = "Choice of a model"

PresetOption = Annotated[
    str | None,
    typer.Option(
        help="fast: one model. default: several, the best by validation rows. best: also a search, seeds and a blend, "
        "until the time limit. (default: default)",
        rich_help_panel=_CHOICE,
        metavar="fast|default|best",
        show_default=False,
    ),
]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        help="Until a model is chosen, reading tables included: 90s, 30m, 2h. (default: none; of best 30m)",
        rich_help_panel=_CHOICE,
        metavar="TIME",
        show_default=False,
    ),
]


def asked_for(
    preset: str | None, time_limit: str | None, metric: str | None, named: Mapping[str, object]
) -> AskedChoice | None:
    """How to choose; None where a recipe is named by one of the options `named`, which then decides alone."""
    from gamlp.tune import AskedChoice

    names = [option for option, value in named.items() if value]
    given = [option for option, value in (("--preset", preset), ("--time-limit", time_limit)) if value is not None]
    if names and given:
        what = f"{given[0]} is for a choice among models, and with {names[0]} nothing is chosen"
        raise GamlpError(what, hint=f"leave out {given[0]}")
    return None if names else AskedChoice.of(preset, time_limit, metric)
