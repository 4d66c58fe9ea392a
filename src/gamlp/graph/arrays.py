"""Arrays in memory → Graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.class_types import ClassType
from gamlp.graph.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split


def graph_from_arrays(
    edge_index: Any,
    features: Any,
    labels: Any,
    weights: Any,
    split: Split | None,
    count: int | None,
    directed: bool,
    name: str,
) -> Graph:
    """See `Graph.from_arrays`. Torch tensors, lists and scipy sparse features are accepted."""
    edges = checked_edges(edge_index)
    features = None if features is None else dense(features)
    labels = None if labels is None else as_labels(labels)
    sizes = {len(part.values) for part in (features, labels) if part is not None}
    sizes |= {count} if count is not None else set()
    if len(sizes) > 1:
        raise GamlpError(f"features, labels and count disagree about the number of nodes ({sorted(sizes)})")
    n = sizes.pop() if sizes else int(edges.max(initial=-1)) + 1
    if edges.size and (int(edges.min()) < 0 or int(edges.max()) >= n):
        wrong = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
        raise GamlpError(f"an edge names node {wrong} of {n}", hint=f"number nodes from 0 to {n - 1}")
    if features is not None:
        _refuse_not_finite(features.values)
    if split is not None and split.roles.shape != (n,):
        raise GamlpError(f"the split has {len(split.roles)} rows for {n} nodes", hint="give one role a node")
    if weights is not None:
        weights = checked_weights(weights, edges.shape[1])
    block = Block.from_edges(edges[1], edges[0], weights, start=0, stop=n, symmetric=not directed)
    relation = Relation("edge", "node", "node", directed, (block,))
    nodes = Nodes("node", n, Ids(n), features, labels, split)
    return Graph(name, {"node": nodes}, {"edge": relation})


def checked_edges(edge_index: Any) -> Array:
    """Integers `[2, edges]`."""
    edges: Array = np.asarray(edge_index)
    if edges.size == 0:
        edges = np.zeros((2, 0), np.int64)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        shown = f"{edges.dtype} of shape {edges.shape}"
        raise GamlpError(f"edge_index is {shown}", hint="give integers of shape [2, edges]")
    return edges.astype(np.int64) if edges.dtype.itemsize < 4 or edges.dtype.kind == "u" else edges


def checked_features(features: Any) -> Features:
    """Dense features, all finite."""
    found = dense(features)
    _refuse_not_finite(found.values)
    return found


def _refuse_not_finite(values: Array) -> None:
    rows = max(1, (1 << 20) // max(1, values[:1].size))
    for begin in range(0, len(values), rows):  # a chunk that stays in cache: ten times as fast as the whole at once
        if not (finite := np.isfinite(values[begin : begin + rows])).all():
            node, column = np.argwhere(~finite)[0]
            raise GamlpError(
                f"feature {values[begin + node, column]} of node {begin + node}, column {column}, is not finite",
                hint="fill in or drop what is missing",
            )


def checked_weights(weights: Any, edges: int) -> Array:
    """float32, one an edge, finite and not negative."""
    values: Array = np.ascontiguousarray(weights, np.float32)
    if values.shape != (edges,):
        raise GamlpError(f"{len(values.ravel())} weights for {edges} edges", hint="give one weight an edge")
    if (wrong := np.flatnonzero(~(np.isfinite(values) & (values >= 0)))).size:
        raise GamlpError(
            f"weight {values[wrong[0]]} of edge {wrong[0]} is negative or not a finite number",
            hint="give weights of at least 0",
        )
    return values


def dense(features: Any) -> Features:
    """Dense float32 (float16 stays) features from an array, a tensor or a scipy sparse matrix."""
    if scipy.sparse.issparse(features):
        features = features.toarray()
    values: Array = np.asarray(features)
    if values.ndim != 2:
        raise GamlpError(f"features have shape {values.shape}", hint="give one row a node: [nodes, features]")
    if values.dtype == np.float16:
        return Features(values, "float16")
    return Features(np.ascontiguousarray(values, np.float32))


def as_labels(labels: Any) -> Labels:
    """Class numbers `[n]` (negative: unknown) or 0/1 `[n, c]`; classes are named by their numbers."""
    if isinstance(labels, Labels):
        return labels
    values = np.asarray(labels)
    whole = values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.rint(values)).all()))
    if values.ndim not in (1, 2) or not whole:
        raise GamlpError(
            f"labels are {'' if whole else 'not whole numbers, '}{values.dtype} of shape {values.shape}",
            hint="give class numbers [nodes], or 0 and 1 [nodes, classes]",
        )
    if values.ndim == 2:
        if values.size and not (values.min() >= -1 and values.max() <= 1):
            wrong = values[(values < -1) | (values > 1)][0]
            raise GamlpError(f"label {wrong} where a node has many", hint="give 0 and 1, or a row of -1 where unknown")
        return Labels(values.astype(np.int8), tuple(str(i) for i in range(values.shape[1])), "integer")
    class_type: ClassType = "boolean" if values.dtype.kind == "b" else "integer"
    values = np.where(values < 0, -1, values).astype(np.int32)
    return Labels(values, tuple(str(i) for i in range(int(values.max(initial=-1)) + 1)), class_type)
