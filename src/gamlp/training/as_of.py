"""A split by time: whether a row's hops see edges until the end of its own part alone."""

from __future__ import annotations

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.recipe import Recipe

_WHOLE = "set propagation.as_of_split false to let rows see edges of all times"


def resolve_as_of(graph: Graph, recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe with `propagation.as_of_split` settled, and what was chosen, in sentences.

    Done twice it changes nothing. What is made from the whole graph, or from features of all times, would tell training
    rows of the future, and is refused.
    """
    asked = recipe.propagation.as_of_split
    if not graph.earlier:
        if asked:
            raise GamlpError(
                f"propagation.as_of_split true: graph '{graph.name}' has no split by time",
                hint="ingest it with --split-by COLUMN --train-until TIME --valid-until TIME",
            )
        return recipe, []
    if asked is False:
        return recipe, ["training rows see edges of all times, as propagation.as_of_split false asks"]
    for refused, what in (
        (recipe.training.setting == "inductive", "training.setting inductive"),
        (recipe.relations.reduce > 0, "relations.reduce"),
        (recipe.reads_unlabelled, "consistency or training.stages"),
        (_embeds(graph, recipe) and "missing" in recipe.relations.model_fields_set, "relations.missing complex"),
    ):
        if refused:
            raise GamlpError(
                f"{what} is not for a split by time: training rows would be told of later edges or nodes",
                hint=f"leave it out, or {_WHOLE}",
            )
    changes, notes = {"propagation.as_of_split": True}, []
    if asked is None:
        notes.append(f"the split is by time: rows see edges until the end of their own part alone; {_WHOLE}")
    if _embeds(graph, recipe):
        changes["relations.missing"] = "mean"  # type: ignore[assignment]
        notes.append(
            "types without features have means of their neighbours (relations.missing mean): "
            "embeddings would be made of edges of all times"
        )
    return recipe.changed(changes), notes


def _embeds(graph: Graph, recipe: Recipe) -> bool:
    lacking = any(nodes.features is None for nodes in graph.node_types.values())
    return graph.heterogeneous and lacking and recipe.relations.missing == "complex"


def by_time(graph: Graph, recipe: Recipe) -> bool:
    """Whether rows of different parts see different graphs, or are asked to.

    Then features of types without are not to be made of the whole graph before it is prepared.
    """
    asked = recipe.propagation.as_of_split
    return bool(graph.earlier) if asked is None else asked
