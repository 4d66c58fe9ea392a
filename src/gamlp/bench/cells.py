"""What a table asks for: its cells, a row on a column with one seed each, and all that decides what they give."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from importlib.metadata import version
from typing import Any

import torch

from gamlp.bench.record import Line, RunKey, as_line, as_report, machine_name
from gamlp.bench.tables import PaperTable, TableMethod
from gamlp.bench.work import Options, Work, chosen, missing_reason
from gamlp.graph import digest
from gamlp.graph.datasets import DATASETS
from gamlp.peers import Task, Workspace, features_key, recipe_named, run
from gamlp.recipe import Recipe, load_yaml, shipped_names

_FORMAT = 1  # raised when the same settings would give another result
GRAPH = "graph."  # keys of an axis that change the graph and not the recipe
Place = tuple[str, str, str, float | None]  # table, method, dataset, value of the axis


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """All of a recipe that decides a run beside its seed."""
    # Without defaults, so that a setting that comes later leaves the keys of earlier runs as they were.
    left_out: Any = {"about": True, "training": {"seeds"}}
    return recipe.model_dump(mode="json", exclude=left_out, exclude_defaults=True)


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
    apart: bool = False  # in a process of its own, so that its memory is
    table: str = ""
    made: str = ""  # digest of what else makes a run stale: see made_of

    @property
    def key(self) -> RunKey:
        """Of everything that decides the result; tables with the same run share it."""
        return RunKey(self.recipe_key, self.made, self.seed)

    @cached_property
    def recipe_key(self) -> str:
        """Of the recipe, the dataset's name and how it is run: numbers over seeds are of one."""
        changed = None if self.change is None else [self.change, self.point]
        apart = ["apart"] if self.apart else []
        return digest([_FORMAT, self.dataset, settings_of(self.recipe), changed, self.fresh, *apart])

    @property
    def place(self) -> Place:
        """Where it stands, whatever its seed."""
        return self.table, self.method, self.dataset, self.point

    @property
    def name(self) -> str:
        """`GCN on cora at 0.5`."""
        return f"{self.method} on {self.dataset}" + ("" if self.point is None else f" at {self.point:g}")

    def done(self, work: Work) -> bool:
        """Whether it was run, here or by whoever wrote the record; what others add is seen after its refresh."""
        return work.record.line(self.key) is not None

    def load(self, work: Work) -> dict[str, Any] | None:
        """Its report, or None where it was not run."""
        line = work.record.line(self.key)
        return None if line is None else as_report(line)

    def line(self, report: dict[str, Any], processor: float | None = None) -> Line:
        """What the record has of it; `processor` are the seconds that it took of this process."""
        at = {} if self.point is None else {"at": self.point}
        told = {
            "table": self.table, "method": self.method, "dataset": self.dataset, **at, **self.key._asdict(),
            "gamlp": version("gamlp"), "machine": machine_name(), "threads": torch.get_num_threads(),
            "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip
        return as_line(told, report, processor)

    def run(self, task: Task, work: Work, workspace: Workspace) -> None:
        """Run it, and add it to the record."""
        begun = time.process_time()
        report = run(task, self.recipe, self.seed, workspace).as_json()
        work.record.add(self.table, [self.line(report, time.process_time() - begun)])


@cache
def _revisions() -> dict[str, Any]:
    return dict(load_yaml((resources.files("gamlp.bench") / "revisions.yaml").read_text("utf-8")))


def made_of(dataset: str, recipe: Recipe, options: Options) -> str:
    """Digest of what else decides a result: revisions of the method's code and the dataset, how its graph is made."""
    revisions, graphs = _revisions(), options.get("tasks", {}).get(dataset)
    names = [dataset] if graphs is None else [graphs["train"], graphs["valid"], *graphs["tests"]]
    made = options.get("generated", {}).get(dataset)
    of_method, of_dataset = revisions["methods"].get(recipe.model.name, 1), revisions["datasets"].get(dataset, 1)
    parts = [of_method, of_dataset, made if made is not None else [_definition(name) for name in names]]
    return digest([*parts, revisions["folds"]] if recipe.propagation.folds > 1 else parts)


def _definition(name: str) -> list[Any]:
    """How the catalogue makes a dataset: how its split is drawn, and the size of one that is generated."""
    entry = DATASETS.get(name)
    if entry is None or entry.plugin is not None:
        return [name]
    counts = None if entry.raw or entry.counts is None else repr(entry.counts)
    return [name, entry.per_class, entry.valid_share, repr(sorted(entry.options.items())), counts]


def recipe_in(table: PaperTable, entry: TableMethod, dataset: str, point: float | None) -> Recipe:
    """The recipe of a row on a dataset: the shipped one with the row's changes and the axis's value."""
    assert entry.recipe is not None
    column = table.datasets[dataset]
    name, like = column.recipes.get(entry.recipe, entry.recipe), column.like or dataset
    recipe, changes = recipe_named(name, like), dict(entry.changes)
    if entry.tuned is not None:
        searched = {f"{like}-{entry.tuned}", f"{like}-{name}-{entry.tuned}"} & set(shipped_names())
        if searched:
            recipe, changes = Recipe.of(min(searched, key=len)), {}
    if point is not None and table.axis is not None:
        key = entry.axis or table.axis.key
        if not key.startswith(GRAPH):
            changes[key] = point
    return recipe.changed(changes)


def cells_of(table: PaperTable, dataset: str, methods: list[str], seeds: int) -> list[Cell]:
    """Every run of a dataset's column, seeds outermost: those with fewest seeds come first."""
    found = []
    points = table.axis.values if table.axis is not None else (None,)
    for name in methods:
        entry = table.methods[name]
        if entry.recipe is None:
            continue
        for point in points:
            key = None if table.axis is None else entry.axis or table.axis.key
            change = key if key is not None and key.startswith(GRAPH) else None
            recipe = recipe_in(table, entry, dataset, point)
            fresh, apart = table.kind in ("efficiency", "cost"), table.kind == "cost"
            made = made_of(dataset, recipe, table.options)
            found.append(Cell(name, dataset, point, 0, recipe, change, fresh, apart, table.name, made))
    return [replace(cell, seed=seed) for seed in range(seeds) for cell in found]


def depths_of(cells: list[Cell]) -> dict[str, int]:
    """How deep each store of hops has to be for all of these cells."""
    depths: dict[str, int] = {}
    for cell in cells:
        key = features_key(cell.recipe)
        depths[key] = max(depths.get(key, 0), cell.recipe.propagation.hops)
    return depths


@dataclass
class TableRuns:
    """Runs of a table: those of datasets at hand, and why the others are missing."""

    cells: list[Cell]
    missing: dict[str, str] = field(default_factory=dict)


def columns_of(table: PaperTable, work: Work, absent: bool = False) -> TableRuns:
    """Every run that the table asks for, seeds outermost; with `absent` those on datasets that are missing, too."""
    methods = chosen("method", table.methods, work.methods)
    seeds = work.seeds or table.seeds
    columns = TableRuns([])
    for dataset in chosen("dataset", table.datasets, work.datasets):
        if (reason := missing_reason(dataset, work.data_dir, table.options)) is not None:
            columns.missing[dataset] = reason
        if reason is None or absent:
            columns.cells += cells_of(
                table, dataset, [name for name in table.runs_of(dataset) if name in methods], seeds
            )
    columns.cells.sort(key=lambda cell: cell.seed)
    return columns
