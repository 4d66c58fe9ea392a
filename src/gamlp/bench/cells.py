"""A cell of a table is some runs: each is one method on one dataset with one seed, kept as a small file."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from gamlp.bench.tables import Table, TableMethod
from gamlp.graph.manifest import digest
from gamlp.io import write_json
from gamlp.peers.contract import Place, Task
from gamlp.peers.hops import features_key
from gamlp.peers.registry import recipe_named, run
from gamlp.recipe import Recipe

_FORMAT = 1  # raised when the same settings would give another result
GRAPH = "graph."  # keys of an axis that change the graph and not the recipe


@dataclass(frozen=True)
class Cell:
    """One run to be done: where it stands in the table, and all that decides its result."""

    method: str
    dataset: str
    point: float | None
    seed: int
    recipe: Recipe
    change: str | None = None  # graph.edges_removed or graph.labels_per_class, by `point`
    fresh: bool = False  # hops are made anew, so that their time is this run's own

    @cached_property
    def key(self) -> str:
        """Of everything that decides the result; tables with the same run share it."""
        # Without defaults, so that a setting that comes later leaves the keys of earlier runs as they were.
        left_out: Any = {"about": True, "training": {"seeds"}}
        recipe = self.recipe.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
        changed = None if self.change is None else [self.change, self.point]
        return digest([_FORMAT, self.dataset, self.seed, recipe, changed, self.fresh])

    def path(self, folder: Path) -> Path:
        """Where its report is kept."""
        return folder / "cells" / self.dataset / f"{self.key}.json"

    def load(self, folder: Path) -> dict[str, Any] | None:
        """Its report, or None where it was not run."""
        path = self.path(folder)
        if not path.exists():
            return None
        content: dict[str, Any] = json.loads(path.read_text())["report"]
        return content

    def run(self, task: Task, folder: Path, place: Place) -> dict[str, Any]:
        """Run it and keep the report with its recipe, versions and time."""
        report = run(task, self.recipe, self.seed, place).as_json()
        content = {
            "report": report,
            "dataset": self.dataset,
            "recipe": self.recipe.explicit(),
            "change": None if self.change is None else {self.change: self.point},
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "versions": {name: version(name) for name in ("gamlp", "torch", "numpy")},
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        }
        self.path(folder).parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path(folder), content)
        return report


def recipe_in(table: Table, entry: TableMethod, dataset: str, point: float | None) -> Recipe:
    """The recipe of a row on a dataset: the shipped one with the row's changes and the axis's value."""
    assert entry.recipe is not None
    recipe = recipe_named(entry.recipe, table.datasets[dataset].like or dataset)
    changes = dict(entry.changes)
    if point is not None and table.axis is not None:
        key = entry.axis or table.axis.key
        if not key.startswith(GRAPH):
            changes[key] = point
    return recipe.changed(changes)


def cells_of(table: Table, dataset: str, methods: list[str], seeds: int) -> list[Cell]:
    """Every run of a dataset's column, seeds outermost: those with fewest seeds come first."""
    found = []
    points = table.axis.values if table.axis is not None else (None,)
    for seed in range(seeds):
        for name in methods:
            entry = table.methods[name]
            if entry.recipe is None:
                continue
            for point in points:
                key = None if table.axis is None else entry.axis or table.axis.key
                change = key if key is not None and key.startswith(GRAPH) else None
                recipe = recipe_in(table, entry, dataset, point)
                found.append(Cell(name, dataset, point, seed, recipe, change, table.kind == "efficiency"))
    return found


def depths_of(cells: list[Cell]) -> dict[str, int]:
    """How deep each store of hops has to be for all of these cells."""
    depths: dict[str, int] = {}
    for cell in cells:
        key = features_key(cell.recipe)
        depths[key] = max(depths.get(key, 0), cell.recipe.propagation.hops)
    return depths
