"""The portfolio as data: recipes that are tried on every graph, each a file; those that fit a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gamlp.graph import Graph
from gamlp.recipe import Recipe, load_yaml
from gamlp.tune.pace import ONE_BATCH, training_rows
from gamlp.tune.scaling import scaling_for

SHARED = "shared.yaml"  # what all candidates have in common, so that one store of hops serves them all
SPARSE = 4.0  # neighbours a node: below it, hops must go far to hear of a labelled node
WIDE = 4 << 30  # bytes of eleven hops: above it, deep candidates cost too much disk and are left out
_DEEP = 11
COLUMNS = 10_000  # features of two hops side by side: with more, trees take longer than all others together
_MOST_RELATIONS = 6  # that are each a view of its own

Role = Literal["simple", "reference", "other"]


class _File(BaseModel):
    """A file of recipe/portfolio. `order`: the simplest and cheapest first.

    `when`: facts of the graph, all needed; of a list among them, one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str
    order: int
    role: Role = "other"
    when: list[str | list[str]] = Field(default_factory=list)
    recipe: dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A recipe with its name. `simple` ones are the trivial answers that others must beat; one is the reference."""

    name: str
    title: str
    order: int
    role: Role
    when: tuple[frozenset[str], ...]  # of each set one fact must hold
    recipe: Recipe

    def changed(self, changes: dict[str, Any]) -> Candidate:
        """The same with other settings."""
        return replace(self, recipe=self.recipe.changed(changes))


@cache
def load_candidates() -> tuple[Candidate, ...]:
    """All files of recipe/portfolio, by their order."""
    folder = resources.files("gamlp.recipe") / "portfolio"
    shared = load_yaml((folder / SHARED).read_text(encoding="utf-8"))
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".yaml") and entry.name != SHARED:
            file = _File.model_validate(load_yaml(entry.read_text(encoding="utf-8")))
            recipe = Recipe.of(_merged(shared, file.recipe))
            name = entry.name.removesuffix(".yaml")
            found.append(Candidate(name, file.title, file.order, file.role, _conditions(file.when), recipe))
    return tuple(sorted(found, key=lambda one: (one.order, one.name)))


def facts_of(graph: Graph) -> frozenset[str]:
    """What a candidate's `when` may ask for."""
    nodes = max(1, graph.nodes.count)
    widths = [each.features.width for each in graph.node_types.values() if each.features is not None]
    wide = nodes * sum(widths) * 4 * _DEEP > WIDE
    channels = 1 if not graph.heterogeneous else 2 * len(graph.relation_pairs) + len(graph.node_types)
    many = 3 * channels * max(widths, default=0) > COLUMNS
    return frozenset(
        {
            "typed" if graph.heterogeneous else "homogeneous",
            "sparse" if graph.degrees().sum() / nodes < SPARSE else "dense",
            "wide" if wide else "narrow",
            "many_columns" if many else "few_columns",
            "words" if scaling_for(graph) == "l2" else "columns",
            "few" if training_rows(graph) <= ONE_BATCH else "many",
        }
    )


def views_of_relations(graph: Graph) -> list[list[str]] | None:
    """Each relation by itself and all together: few views that tell most; None: leave it to the recipe."""
    names = list(graph.relation_pairs)
    if not graph.heterogeneous or not 1 < len(names) <= _MOST_RELATIONS:
        return None
    return [*([name] for name in names), names]


def fitting(facts: frozenset[str], candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Those whose conditions hold."""
    return [one for one in candidates if all(facts & some for some in one.when)]


def _conditions(when: list[str | list[str]]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset([one] if isinstance(one, str) else one) for one in when)


def _merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Sections of both; what a file says itself comes first."""
    found = dict(shared)
    for section, values in own.items():
        inside = found.get(section)
        found[section] = {**inside, **values} if isinstance(inside, dict) and isinstance(values, dict) else values
    return found
