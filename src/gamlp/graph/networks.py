"""Graphs of other libraries → Graph: networkx, through tables as frames are, and scipy's sparse adjacency matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import scipy  # its parts are imported when they are first used

from gamlp.errors import GamlpError
from gamlp.graph.frames import graph_from_frames
from gamlp.graph.graph import Graph, Split
from gamlp.graph.pyg import labels_of, with_edges_both_ways

_ENDS = ("src", "dst")


def from_networkx(network: Any, **how: Any) -> Graph:
    """See `Graph.from_networkx`."""
    if not (hasattr(network, "nodes") and hasattr(network, "edges") and hasattr(network, "is_directed")):
        raise GamlpError(f"a {type(network).__name__} is not a graph of networkx", hint="give a networkx.Graph")
    about = dict(network.nodes(data=True))
    if not about:
        raise GamlpError("the graph of networkx has no nodes")
    names = _attributes(about.values())
    id = "id"
    while id in names:  # an attribute of that name is a column of its own
        id = f"node_{id}"
    nodes = {id: _column("nodes", id, list(about))}
    for name, own in names.items():
        nodes[name] = _column("nodes", name, [values.get(own) for values in about.values()])
    ends = list(network.edges(data=True))
    src, dst = (_column("edges", name, [edge[place] for edge in ends]) for place, name in enumerate(_ENDS))
    edges = {"src": src.cast(nodes[id].type), "dst": dst.cast(nodes[id].type)}
    for name, own in _attributes(edge[2] for edge in ends).items():
        if name not in _ENDS:
            edges[name] = _column("edges", name, [edge[2].get(own) for edge in ends])
    how = {"directed": bool(network.is_directed()), "name": str(network.name or "networkx"), **how}
    return graph_from_frames(pa.table(nodes), pa.table(edges), id=id, **how)


def from_scipy(
    adjacency: Any,
    features: Any = None,
    labels: Any = None,
    *,
    directed: bool = False,
    split: Split | None = None,
    name: str = "scipy",
) -> Graph:
    """See `Graph.from_scipy`."""
    if not scipy.sparse.issparse(adjacency):
        raise GamlpError(f"a {type(adjacency).__name__} is not a sparse matrix of scipy", hint="give a csr_matrix")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        shape = " × ".join(str(side) for side in adjacency.shape)
        raise GamlpError(f"the adjacency matrix is {shape}", hint="give a row and a column for every node")
    found = adjacency.tocoo()
    there = found.data != 0
    edges = np.stack([found.row[there], found.col[there]]).astype(np.int64)
    weights = None if (found.data[there] == 1).all() else found.data[there]
    return with_edges_both_ways(
        edges,
        weights,
        directed,
        features=features,
        labels=None if labels is None else labels_of(labels),
        split=split,
        count=adjacency.shape[0],
        name=name,
    )


def _attributes(of_each: Iterable[dict[Any, Any]]) -> dict[str, Any]:
    """Names of attributes as columns have them, and as networkx has them: any value may be a name there."""
    return {str(name): name for attributes in of_each for name in attributes}


def _column(table: str, name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        hint = "let an attribute hold one kind of value: numbers, text, dates or lists of numbers"
        if name in ("id", *_ENDS):
            hint = "call nodes by integers or by strings: networkx.convert_node_labels_to_integers(graph)"
        message = " ".join(str(error).split())[:150]
        raise GamlpError(f"values of different kinds ({message})", file=table, column=name, hint=hint) from error
