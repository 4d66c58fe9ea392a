"""What is searched: a plan (YAML) of cells, each a dataset and a method with a space and recipes to try first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gamlp.bench.work import split_seed, task_of
from gamlp.errors import GamlpError
from gamlp.peers import Task, recipe_named
from gamlp.recipe import Choice, Recipe, Space, load_space, shipped_names

Changes = dict[str, Any]


@dataclass(frozen=True)
class SearchCell:
    """A dataset and a method. `base` has what the space does not; `set` holds for all trials, what they are judged by
    among it.

    `first` are recipes to try before any is drawn, by who proposed them; `present` is the one that is shipped. With
    `after` the cell is a variant: it begins from what the cell of that name found. `task` names the graphs to train,
    validate and test on where they are several.
    """

    name: str
    dataset: str
    method: str
    space: Space
    base: Recipe
    set: Changes
    first: tuple[tuple[str, Recipe], ...]
    present: Recipe | None
    replicates: int
    deepest: int = 0
    after: str | None = None
    task: dict[str, Any] | None = None

    @property
    def draws_split(self) -> bool:
        """Whether a replicate has rows of its own; where the split is given, it is a seed alone."""
        return self.task is None and split_seed(self.dataset, 1) == 1

    def load(self, replicate: int, data_dir: Path | None, *, tests: bool = False) -> Task:
        """The graphs of a replicate; those that test are not opened unless `tests` says so."""
        tasks = {} if self.task is None else {self.dataset: self.task if tests else {**self.task, "tests": []}}
        return task_of(self.dataset, replicate, data_dir, options={"tasks": tasks})

    def beginning(self, found: Recipe | None) -> tuple[tuple[str, Recipe], ...]:
        """What is tried before anything is drawn; of a variant, from what the plain cell found."""
        if self.after is None:
            return self.first
        assert found is not None
        start = found.changed({**self.set, "about": ""})
        own = [(source, start.changed(_said(lead))) for source, lead in self.first]
        return ("start", start), *own


@cache
def _space(name: str) -> Space:
    return load_space(name)


def cells_of(path: Path, hold: Iterable[str] = ()) -> dict[str, SearchCell]:
    """All cells of a plan by name. Keys to `hold` are not searched, and leads that change them are not tried."""
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))  # the repository's own file: it may have aliases
    held = set(hold)
    found: dict[str, SearchCell] = {}
    for group in plan["cells"]:
        for dataset in group["datasets"]:
            for method, space in group["methods"].items():
                cell = _cell(plan, group, dataset, method, space, held)
                found[cell.name] = cell
    deepest: dict[str, int] = {}
    for cell in found.values():
        deepest[cell.dataset] = max(deepest.get(cell.dataset, 0), _most_hops(cell))
    found = {name: replace(cell, deepest=deepest[cell.dataset]) for name, cell in found.items()}
    for suffix, variant in plan.get("variants", {}).items():
        for plain in [cell for cell in found.values() if cell.after is None]:
            if plain.method in variant["methods"] and plain.dataset in variant["datasets"]:
                cell = _variant(plan, plain, suffix, variant, held)
                found[cell.name] = cell
    if unknown := sorted(set(plan.get("try", {})) - set(found)):
        raise GamlpError(f"'try' names '{unknown[0]}', which is no cell", file=path)
    return found


def chosen_cells(cells: dict[str, SearchCell], names: Iterable[str] | None) -> list[SearchCell]:
    """Those whose names match (`cora-*`); without names all plain ones."""
    if names is None:
        return [cell for cell in cells.values() if cell.after is None]
    found: dict[str, SearchCell] = {}
    for pattern in names:
        matching = {name: cell for name, cell in cells.items() if fnmatchcase(name, pattern)}
        if not matching:
            raise GamlpError(f"the plan has no cell '{pattern}'", hint=f"such as {', '.join(list(cells)[:3])}")
        found |= matching
    return list(found.values())


def _cell(plan: Changes, group: Changes, dataset: str, method: str, space: str, held: set[str]) -> SearchCell:
    name = f"{dataset}-{method}"
    settings = {**plan["set"], **group.get("set", {})}
    present = recipe_named(method, dataset) if method in shipped_names() or name in shipped_names() else None
    own = plan.get("bases", {}).get(group.get("bases"), {}).get(method)
    base = Recipe.of(own) if own is not None else present
    if base is None:
        raise GamlpError(f"'{name}' has no base recipe", hint="give one in 'bases', or ship one")
    base = base.changed({**settings, "about": ""})
    first = [] if present is None else [("present", present.changed({**settings, "about": ""}))]
    first += [("lead", base.changed(lead)) for lead in _leads(plan, name, held)]
    return SearchCell(
        name, dataset, method, _limited(_space(space), group.get("limits", {}), held), base, settings, tuple(first),
        present, plan["replicates"], task=group.get("task"),
    )  # fmt: skip


def _variant(plan: Changes, plain: SearchCell, suffix: str, variant: Changes, held: set[str]) -> SearchCell:
    name = f"{plain.name}-{suffix}"
    leads = tuple(("lead", Recipe().changed(lead)) for lead in _leads(plan, name, held))
    present = Recipe.of(name) if name in shipped_names() else None
    return replace(
        plain, name=name, method=f"{plain.method}-{suffix}", space=_limited(_space(variant["space"]), {}, held),
        set={**plain.set, **variant["set"]}, first=leads, present=present, after=plain.name,
    )  # fmt: skip


def _leads(plan: Changes, name: str, held: set[str]) -> list[Changes]:
    return [lead for lead in plan.get("try", {}).get(name, []) if not held & set(lead)]


def _limited(space: Space, limits: Changes, held: set[str]) -> Space:
    """The space with those of its choices alone that the limits allow, and without keys that are held."""
    found = {}
    for key, choice in space.items():
        if key in limits:
            allowed = [value for value in choice.choices or [] if value in limits[key]]
            choice = Choice(choices=allowed, when=choice.when, only=choice.only)
        if key not in held:
            found[key] = choice
    return found


def _most_hops(cell: SearchCell) -> int:
    """Hops of features are made once, as deep as any trial on the dataset reads."""
    choice = cell.space.get("propagation.hops")
    given: list[int] = [] if choice is None else list(choice.choices or [])
    return max([cell.base.propagation.hops, *given, *(one.propagation.hops for _, one in cell.first)])


def _said(recipe: Recipe) -> Changes:
    """What a recipe says, by dotted keys."""
    return {
        f"{section}.{key}": value
        for section, content in recipe.explicit().items()
        if isinstance(content, dict)
        for key, value in content.items()
    }
