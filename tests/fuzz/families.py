"""All families of cases, and how many of each are drawn in a round."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.folders import bundles, folders
from tests.fuzz.harness import Family
from tests.fuzz.settings import options, recipes, studies
from tests.fuzz.tables import tables


@dataclass(frozen=True)
class Share:
    family: Family
    share: int


FAMILIES = {
    "tables": Share(tables, 9),
    "folders": Share(folders, 5),
    "bundles": Share(bundles, 2),
    "recipes": Share(recipes, 2),
    "options": Share(options, 2),
    "studies": Share(studies, 1),
}
