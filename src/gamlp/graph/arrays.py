"""Arrays in memory → Graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from gamlp.errors import GamlpError
from gamlp.graph.csr import csr_block
from gamlp.graph.graph import Array, Features, Graph, Ids, Labels, Nodes, Relation, Split


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
    edges = np.asarray(edge_index)
    if edges.size == 0:
        edges = np.zeros((2, 0), np.int64)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        shown = f"{edges.dtype} of shape {edges.shape}"
        raise GamlpError(f"edge_index is {shown}", hint="give integers of shape [2, edges]")
    features = None if features is None else dense(features)
    labels = None if labels is None else as_labels(labels)
    sizes = {len(part.values) for part in (features, labels) if part is not None}
    sizes |= {count} if count is not None else set()
    if len(sizes) > 1:
        raise GamlpError(f"features, labels and count disagree about the number of nodes ({sorted(sizes)})")
    n = sizes.pop() if sizes else int(edges.max(initial=-1)) + 1
    if edges.size and (int(edges.min()) < 0 or int(edges.max()) >= n):
        raise GamlpError(f"an edge names node {int(edges.max())} of {n}", hint=f"number nodes from 0 to {n - 1}")
    if weights is not None:
        weights = np.ascontiguousarray(weights, np.float32)
    block = csr_block(edges[1], edges[0], weights, start=0, stop=n, symmetric=not directed)
    relation = Relation("edge", "node", "node", directed, (block,))
    nodes = Nodes("node", n, Ids(n), features, labels, split)
    return Graph(name, {"node": nodes}, {"edge": relation})


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
    if values.ndim == 2:
        return Labels(values.astype(np.int8), tuple(str(i) for i in range(values.shape[1])))
    values = np.where(values < 0, -1, values).astype(np.int32)
    return Labels(values, tuple(str(i) for i in range(int(values.max(initial=-1)) + 1)))
