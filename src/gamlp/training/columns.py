"""Another graph's features as those of training were: columns by name, in the order of training."""

from __future__ import annotations

from collections.abc import Mapping

from gamlp.errors import GamlpError
from gamlp.graph import FeatureColumn, FeatureSchema, Graph, match_columns, name_some
from gamlp.graph.features import encoded_again
from gamlp.graph.features.encoders import as_known
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

    A column that is missing, or that holds something else, is refused. One that was encoded by another state is encoded
    again from the graph's raw columns, and what is new in it is told.
    """
    notes = []
    if len(wanted) == 1 and not graph.heterogeneous:  # where there is one type, its name does not matter
        wanted = {graph.target: next(iter(wanted.values()))}
    for node_type, nodes in graph.node_types.items():
        of = "" if len(graph.node_types) == 1 else f" of {node_type}"
        if nodes.features is None:
            # Columns without a state are numbers as they are, or were made of edges and are made again.
            if any(column.state is not None for column in wanted.get(node_type, ())):
                names = _counted(tuple(column.name for column in wanted[node_type]))
                raise GamlpError(
                    f"graph '{graph.name}' has no features{of} where the model was trained on {names}",
                    hint="where a table is too small to tell what its columns are, ingest it with gamlp ingest "
                    "--schema RUN, the run of the model",
                )
            continue
        if node_type not in wanted or nodes.features.columns is None:
            lacks = f"the model knows no names of columns{of}" if node_type not in wanted else ""
            if nodes.features.columns is None:
                lacks = f"columns{of} have no names in graph '{graph.name}'"
            notes.append(f"{lacks}: features are taken by their position, and only their number is compared")
            continue
        graph, found = _of_type(graph, node_type, nodes.features.columns, wanted[node_type], of)
        notes += found
    return graph, notes


def _counted(names: tuple[str, ...]) -> str:
    return f"{'column' if len(names) == 1 else 'columns'} {name_some(names)}"


def _of_type(
    graph: Graph, node_type: str, found: FeatureSchema, wanted: FeatureSchema, of: str
) -> tuple[Graph, list[str]]:
    """Features of one type in the order and by the states of `wanted` columns."""
    raw = graph.node_types[node_type].raw
    kept = () if raw is None else raw.schema().names
    match = match_columns(as_known(found, wanted), wanted)
    if missing := tuple(name for name in match.missing if name not in kept):
        raise GamlpError(
            f"graph '{graph.name}' lacks {_counted(missing)}{of} that the model was trained on",
            hint=f"ingest the same columns as in training: {name_some([one.name for one in wanted])}",
        )
    notes = []
    if match.ignored:
        notes.append(
            f"{_counted(match.ignored)}{of} of graph '{graph.name}' {'is' if len(match.ignored) == 1 else 'are'} "
            "ignored: the model was trained without"
        )
    if match.changed or match.missing:
        if raw is None or any(one.name not in kept for one in wanted):
            raise _other_state(graph, *match.changed[0], of)
        graph, new = encoded_again(graph, node_type, wanted)
        notes += new
    elif match.order is not None:
        graph = graph.with_arranged(node_type, match.order, wanted)
    return graph, notes


def _other_state(graph: Graph, before: FeatureColumn, now: FeatureColumn, of: str) -> GamlpError:
    """What is said where features cannot be made again, for there are no raw columns."""
    again = "ingest its tables again with gamlp ingest --schema RUN, the run of the model"
    if (before.type, before.width) != (now.type, now.width):
        return GamlpError(
            f"column '{before.name}'{of} of graph '{graph.name}' is {now} where the model was trained on {before}",
            hint="ingest the same columns as in training" if before.state is None else again,
        )
    return GamlpError(
        f"column '{before.name}'{of} of graph '{graph.name}' was fitted on other rows than the model's, and the graph "
        "keeps no raw columns",
        hint=again,
    )
