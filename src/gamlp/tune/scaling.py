"""How features are scaled before hops are made of them: said by the features themselves, no label is asked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gamlp.graph import Graph

Scaling = Literal["none", "l2", "standard"]
_LOOKED_AT = 2_000  # rows, evenly through the graph
_MANY_ZEROS = 0.5


def scaling_for(graph: Graph) -> Scaling:
    """`l2` for words and counts (rows of few numbers above zero, of any length), else `standard`, a column at a time.

    Columns of tables were scaled as they were read, and stay as they are; what is made of edges is scaled.
    """
    features = graph.nodes.features
    if features is None or not features.width:
        return "standard"
    if features.columns is not None:
        return "none"
    rows = np.unique(np.linspace(0, graph.nodes.count - 1, min(_LOOKED_AT, graph.nodes.count)).astype(np.int64))
    values = features.read(rows)
    sparse = bool((values == 0).mean() > _MANY_ZEROS)
    return "l2" if sparse and bool((values >= 0).all()) else "standard"
