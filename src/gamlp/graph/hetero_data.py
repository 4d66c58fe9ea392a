"""PyG's `HeteroData`, known by its attributes alone → Graph of several node types and relations, in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.arrays import checked_edges, checked_features, checked_weights
from gamlp.graph.folder import check_name
from gamlp.graph.graph import Block, Graph, Ids, Nodes, Relation
from gamlp.graph.pyg import MASKS, array_of, labels_of, split_of_masks, symmetric, weights_of
from gamlp.graph.relations import DeclaredRelation

EdgeType = tuple[str, str, str]
_PYG_REVERSE = "rev_"  # what PyG's ToUndirected puts before the name of a relation


def from_hetero(data: Any, *, directed: bool, split: int, target: str | None) -> Graph:
    """A graph from `HeteroData`: of every type x, y and masks, of every edge type edge_index and weights.

    Edges between two types are stored the other way, too, unless `directed`. A relation that is the reverse of another
    already (as `ToUndirected` makes them) is taken for it.
    """
    if not data.node_types:
        raise GamlpError("the HeteroData has no node types", hint="set x or num_nodes of every type")
    target = _target(data, target)
    nodes = {name: _nodes(name, data[name], split, name == target) for name in data.node_types}
    relations: dict[str, Relation] = {}
    for name, (source, target_type), edges, weights in _relations(data, nodes, directed):
        declared = DeclaredRelation(name, source, target_type, directed)
        relations[name] = _relation(declared, edges, weights, nodes)
        if declared.reverse is not None:
            other = DeclaredRelation(declared.reverse, target_type, source, directed)
            relations[declared.reverse] = replace(_relation(other, edges[::-1], weights, nodes), reverse=name)
    return Graph("pyg", nodes, relations, target)


def _target(data: Any, asked: str | None) -> str:
    if asked is not None:
        if asked not in data.node_types:
            raise GamlpError(f"there are no nodes of type '{asked}'", hint=f"there are: {', '.join(data.node_types)}")
        return asked
    labelled = [name for name in data.node_types if getattr(data[name], "y", None) is not None]
    if len(labelled) == 1 or len(data.node_types) == 1:
        return str((labelled or data.node_types)[0])
    message = f"types {' and '.join(labelled)} have" if labelled else "no node type has"
    raise GamlpError(f"{message} labels y", hint="say whose are asked for: Graph.from_pyg(data, target=TYPE)")


def _nodes(name: str, store: Any, split: int, labelled: bool) -> Nodes:
    check_name(name)
    x, count = array_of(getattr(store, "x", None)), store.num_nodes
    if count is None:
        raise GamlpError(f"nobody says how many nodes of type '{name}' there are", hint=f"set data['{name}'].num_nodes")
    try:
        features = None if x is None else checked_features(x)
    except GamlpError as error:
        raise GamlpError(f"x of type '{name}': {error.problem}", hint=error.hint) from error
    nodes = Nodes(name, count, Ids(count), features)
    if not labelled:
        return nodes
    y = array_of(getattr(store, "y", None))
    labels = None if y is None else labels_of(y, numbered=True)
    if labels is not None and len(labels.values) != count:
        raise GamlpError(f"{len(labels.values)} labels for {count} nodes of type '{name}'", hint="give one a node")
    masks = {mask: array_of(getattr(store, mask, None)) for mask in MASKS}
    roles = None if all(mask is None for mask in masks.values()) else split_of_masks(masks, count, split)
    return replace(nodes, labels=labels, split=roles)


def _relations(data: Any, nodes: dict[str, Nodes], directed: bool) -> list[tuple[str, tuple[str, str], Array, Any]]:
    """(name, (source, target), edges, weights) of every relation that is not the reverse of another."""
    names = Counter(edge_type[1] for edge_type in data.edge_types)
    found: dict[EdgeType, tuple[Array, Any]] = {}
    for edge_type in data.edge_types:
        store = data[edge_type]
        if getattr(store, "edge_index", None) is None:
            raise GamlpError(f"{edge_type} has no edge_index", hint="set edge_index of shape [2, edges]")
        found[edge_type] = _edges(edge_type, store, nodes)
    kept = []
    for (source, name, target), (edges, weights) in found.items():
        forward = (target, name.removeprefix(_PYG_REVERSE), source)
        other = found.get(forward) if name.startswith(_PYG_REVERSE) and source != target and not directed else None
        if other is not None and _same(edges[::-1], weights, *other):
            continue
        kept.append((name if names[name] == 1 else f"{source}-{name}-{target}", (source, target), edges, weights))
    return kept


def _edges(edge_type: EdgeType, store: Any, nodes: dict[str, Nodes]) -> tuple[Array, Array | None]:
    source, name, target = edge_type
    try:
        check_name(name)
        edges = checked_edges(array_of(store.edge_index))
        weights = weights_of(store)
        weights = None if weights is None else checked_weights(weights, edges.shape[1])
    except GamlpError as error:
        raise GamlpError(f"{edge_type}: {error.problem}", hint=error.hint) from error
    for end, ids in ((source, edges[0]), (target, edges[1])):
        count = nodes[end].count
        if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
            wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
            raise GamlpError(
                f"{edge_type}: an edge names node {wrong} of {count} of type '{end}'",
                hint=f"number nodes from 0 to {count - 1}",
            )
    return edges, weights


def _same(edges: Array, weights: Array | None, others: Array, their: Array | None) -> bool:
    """Whether two lists hold the same edges, in any order."""
    if edges.shape != others.shape or (weights is None) != (their is None):
        return False
    order, other = np.lexsort(edges), np.lexsort(others)
    if not np.array_equal(edges[:, order], others[:, other]):
        return False
    return weights is None or their is None or bool(np.array_equal(weights[order], their[other]))


def _relation(declared: DeclaredRelation, edges: Array, weights: Array | None, nodes: dict[str, Nodes]) -> Relation:
    stop = nodes[declared.target].count

    def block(both_ways: bool) -> Block:
        return Block.from_edges(
            edges[1], edges[0], weights, start=0, stop=stop, symmetric=both_ways, drop_loops=declared.inside
        )

    # Weights that are the same both ways already would double if they were made symmetric once more.
    one_way = Relation(declared.name, declared.source, declared.target, not declared.symmetric, (block(False),))
    if declared.symmetric and (weights is None or not symmetric(one_way)):
        one_way = replace(one_way, blocks=(block(True),))
    return replace(one_way, reverse=declared.reverse)
