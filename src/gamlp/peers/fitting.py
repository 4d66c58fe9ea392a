"""Which shipped recipes fit a graph, best first, and why."""

from __future__ import annotations

from dataclasses import dataclass

from gamlp.graph import Graph
from gamlp.peers.registry import METHODS
from gamlp.recipe import Recipe, published_recipe, shipped_names

_WHOLE = 300_000  # nodes of a graph whose every layer is held in memory at once without a second thought
_TYPED = ("nars", "one-view")  # recipes that tell relations apart, or say what that is worth


@dataclass(frozen=True)
class FittingRecipe:
    """A shipped recipe, and a sentence that says why it is listed where it is."""

    name: str
    fits: bool
    why: str


def recipes_for(graph: Graph, dataset: str | None = None) -> list[FittingRecipe]:
    """The recipes of this dataset, if it is called by its name, then the general ones; what does not fit comes last."""
    listed = [_general(name, graph) for name in shipped_names() if _is_general(name)]
    return ([] if dataset is None else recipes_of(dataset)) + _in_order(listed)


def recipes_of(dataset: str) -> list[FittingRecipe]:
    """The recipes of this dataset alone, which can be told before its files are there."""
    return _in_order([_own(name, dataset) for name in shipped_names() if name.startswith(f"{dataset}-")])


def _in_order(listed: list[tuple[int, FittingRecipe]]) -> list[FittingRecipe]:
    return [one for _, one in sorted(listed, key=lambda pair: (pair[0], pair[1].name))]


def _is_general(name: str) -> bool:
    """One that is called by a method's name, or by its attention alone; others carry their dataset's name before it."""
    return name in METHODS or name in ("jk", "recursive", *_TYPED)


def _own(name: str, dataset: str) -> tuple[int, FittingRecipe]:
    recipe, published = Recipe.of(name), published_recipe(dataset)
    if published is not None and recipe.model.name == "gamlp":
        return -3 if name == published else -2, FittingRecipe(name, True, recipe.about)
    searched = "test rows were not read" in recipe.about  # as every search says
    if recipe.model.name == "gamlp" and searched:
        return -1, FittingRecipe(name, True, "found by a search on this dataset's validation rows")
    how = ", found by a search on its validation rows" if searched else ""
    return 0, FittingRecipe(name, True, f"a peer's settings for this dataset{how}")


def _general(name: str, graph: Graph) -> tuple[int, FittingRecipe]:
    """(place, recipe) by the family of its method and what the graph is."""
    family = METHODS[name].family if name in METHODS else "hops"
    nodes, typed = f"{graph.nodes.count:,} nodes", graph.heterogeneous
    if (family == "types" or name in _TYPED) and not typed:
        return 9, FittingRecipe(name, False, "tells several relations apart, and this graph has one")
    if name in ("jk", "recursive"):
        reads = "subsets of relations" if typed else "as many hops as each node needs"
        return 1, FittingRecipe(name, True, f"GAMLP: attention over {reads}; any number of nodes")
    if name == "nars":
        return 1, FittingRecipe(name, True, "reads subsets of relations, of any number of nodes")
    if name == "one-view":
        return 2, FittingRecipe(name, True, "all relations as one: shows what telling them apart is worth")
    if name == "mlp":
        return 2, FittingRecipe(name, True, "without the graph: shows what edges are worth")
    if family == "hops":
        return 2, FittingRecipe(name, True, "reads hops that are made once; any number of nodes")
    if family == "types":
        place = 3 if graph.nodes.count <= _WHOLE else 5
        return place, FittingRecipe(name, True, f"by type and relation; {_held(nodes)}")
    if family == "labels":
        return 3, FittingRecipe(name, True, "lets known labels spread over edges; labels nodes of this graph alone")
    if family == "sampled":
        place = 6 if graph.nodes.count <= _WHOLE else 3
        why = f"samples the graph, which {nodes} {'hardly need' if place == 6 else 'may need'}"
        return place, FittingRecipe(name, True, why)
    return (4 if graph.nodes.count <= _WHOLE else 7), FittingRecipe(name, True, _held(nodes))


def _held(nodes: str) -> str:
    return f"holds every layer of all {nodes} in memory (needs PyG)"
