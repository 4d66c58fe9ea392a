"""Another graph's features as those of training were: columns by name, in the order of training."""

from __future__ import annotations

from collections.abc import Mapping

from gamlp.errors import GamlpError
from gamlp.graph import FeatureSchema, Graph, match_columns, name_some
from gamlp.training.bundle import Bundle


def matched(graph: Graph, bundle: Bundle, *, say_unnamed: bool = True) -> tuple[Graph, list[str]]:
    """The graph as the bundle's model reads it, and what a person should know of it, in sentences.

    `say_unnamed`: also where neither side has names of columns, and no names could be compared.
    """
    notes: list[str] = []
    if bundle.recipe.features.structural == "alone":
        if graph.nodes.features is None:
            return graph, notes
        return graph.with_features(**{graph.target: None}), [
            f"features of graph '{graph.name}' are left aside: the model reads those that are made of edges"
        ]
    scaled = bundle.recipe.propagation.scaling == "standard"
    if scaled and not bundle.statistics:
        notes.append(
            "the model was saved without its scaling statistics, as an older gamlp did: features are scaled by those "
            f"of graph '{graph.name}', and every node it gains changes all others; train again to keep them"
        )
    named = bool(bundle.columns or graph.columns)
    graph, found = with_columns(graph, bundle.columns)
    return graph, notes + (found if named or say_unnamed else [])


def with_columns(graph: Graph, wanted: Mapping[str, FeatureSchema]) -> tuple[Graph, list[str]]:
    """The graph with features in the order of `wanted` columns, by node type; and what was not compared or left out.

    A column that is missing, or that holds something else, is refused.
    """
    notes = []
    if len(wanted) == 1 and not graph.heterogeneous:  # where there is one type, its name does not matter
        wanted = {graph.target: next(iter(wanted.values()))}
    for node_type, nodes in graph.node_types.items():
        if nodes.features is None:
            continue
        of = "" if len(graph.node_types) == 1 else f" of {node_type}"
        if node_type not in wanted or nodes.features.columns is None:
            lacks = f"the model knows no names of columns{of}" if node_type not in wanted else ""
            if nodes.features.columns is None:
                lacks = f"columns{of} have no names in graph '{graph.name}'"
            notes.append(f"{lacks}: features are taken by their position, and only their number is compared")
            continue
        match = match_columns(nodes.features.columns, wanted[node_type])
        if match.missing:
            raise GamlpError(
                f"graph '{graph.name}' lacks {_counted(match.missing)}{of} that the model was trained on",
                hint=f"ingest the same columns as in training: {name_some([one.name for one in wanted[node_type]])}",
            )
        if match.changed:
            before, now = match.changed[0]
            raise GamlpError(
                f"column '{before.name}'{of} of graph '{graph.name}' is {now} where the model was trained on {before}",
                hint="ingest the same columns as in training",
            )
        if match.ignored:
            notes.append(
                f"{_counted(match.ignored)}{of} of graph '{graph.name}' {'is' if len(match.ignored) == 1 else 'are'} "
                "ignored: the model was trained without"
            )
        if match.order is not None:
            graph = graph.with_arranged(node_type, match.order, wanted[node_type])
    return graph, notes


def _counted(names: tuple[str, ...]) -> str:
    return f"{'column' if len(names) == 1 else 'columns'} {name_some(names)}"
