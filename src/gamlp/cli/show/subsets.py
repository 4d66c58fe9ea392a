"""Options of graphs of several relations, for verbs without a recipe."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from gamlp.errors import GamlpError

_PANEL = "Several relations"


class Subsets(StrEnum):
    auto = "auto"
    all = "all"
    sample = "sample"
    one = "one"


class Missing(StrEnum):
    complex = "complex"
    mean = "mean"
    none = "none"


class SeparateTypes(StrEnum):
    auto = "auto"
    yes = "yes"
    no = "no"


def _option(*names: str, **about: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, show_default=False, **about)


SubsetsOption = Annotated[
    Subsets | None,
    _option(help="Subsets of relations that are views. (default: auto, all while they are few; one: of all relations)"),
]
SubsetOption = Annotated[
    list[str] | None, _option("--subset", help="One view: relations joined by '+'; may be given again.", metavar="A+B")
]
CountOption = Annotated[
    int | None, _option("--subset-count", min=1, max=1000, help="Subsets of a sample. (default: 8)")
]
SeedOption = Annotated[int | None, _option("--subset-seed", min=0, help="Of the sample, and of what is made.")]
MissingOption = Annotated[
    Missing | None,
    _option(help="Features of types without: embeddings, means of neighbours, or none. (default: complex)"),
]
ReduceOption = Annotated[
    int | None, _option(min=0, help="Wider features are brought to this width by an SVD. (default: as they are)")
]
SeparateTypesOption = Annotated[
    SeparateTypes | None,
    _option("--apart", help="Each type's features a signal of their own. (default: where widths differ)"),
]


def relations_of(
    subsets: Subsets | None,
    subset: list[str] | None,
    count: int | None,
    seed: int | None,
    missing: Missing | None,
    reduce: int | None,
    separate_types: SeparateTypes | None,
) -> dict[str, Any]:
    """What was said, as the section `relations` of a recipe."""
    if subsets is not None and subset:
        raise GamlpError("give --subsets or --subset, not both", hint="--subset lists the views one by one")
    settings = {
        "subsets": [one.split("+") for one in subset] if subset else subsets and subsets.value,
        "count": count,
        "seed": seed,
        "missing": missing and missing.value,
        "reduce": reduce,
        "separate_types": separate_types and separate_types.value,
    }
    return {key: value for key, value in settings.items() if value is not None}
