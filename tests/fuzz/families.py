"""All families of cases, and how many of each are drawn in a round."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.folders import bundles, folders
from tests.fuzz.harness import Family, Verdict, run
from tests.fuzz.settings import options, recipes, studies
from tests.fuzz.tables import tables


@dataclass(frozen=True)
class Share:
    """`share`: cases a round; `fixed`: how many of them the tests draw each time."""

    family: Family
    share: int
    fixed: int


FAMILIES = {
    "tables": Share(tables, 9, 80),
    "folders": Share(folders, 5, 30),
    "bundles": Share(bundles, 2, 10),
    "recipes": Share(recipes, 2, 10),
    "options": Share(options, 2, 20),
    "studies": Share(studies, 1, 2),
}


def run_one(name: str, seed: int, keep: Path | None = None) -> Verdict:
    """A case by its name, such as tables:17; `keep`: a folder for its files."""
    family = FAMILIES[name.partition(":")[0]].family
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
        keep.mkdir(parents=True)
        return run(name, family, seed, keep)
    with tempfile.TemporaryDirectory(prefix="gamlp-fuzz-") as folder:
        return run(name, family, seed, Path(folder))
