"""Whether two graphs hold the same arrays, to the last bit."""

from __future__ import annotations

import numpy as np

from gamlp.graph import Graph


def same_arrays(one: Graph, other: Graph) -> None:
    """Nodes and relations; where blocks of rows end is not compared."""
    assert list(one.node_types) == list(other.node_types) and list(one.relations) == list(other.relations)
    for name, nodes in one.node_types.items():
        others = other.node_types[name]
        rows = np.arange(nodes.count)
        assert nodes.count == others.count and nodes.ids.take(rows).equals(others.ids.take(rows))
        assert (nodes.features is None) == (others.features is None)
        if nodes.features is not None and others.features is not None:
            assert nodes.features.read(rows).tobytes() == others.features.read(rows).tobytes()
            assert nodes.features.columns == others.features.columns
        if nodes.labels is not None and others.labels is not None:
            assert nodes.labels.classes == others.labels.classes
            assert nodes.labels.class_type == others.labels.class_type
            assert np.array_equal(nodes.labels.values, others.labels.values)
        assert (nodes.split is None) == (others.split is None)
        if nodes.split is not None and others.split is not None:
            assert np.array_equal(nodes.split.roles, others.split.roles)
    for name, relation in one.relations.items():
        mine, theirs = list(relation.edges()), list(other.relations[name].edges())
        for part in range(3):
            found = [[edges[part] for edges in side if edges[part] is not None] for side in (mine, theirs)]
            assert bool(found[0]) == bool(found[1])
            if found[0]:
                assert np.concatenate(found[0]).tobytes() == np.concatenate(found[1]).tobytes(), (name, part)
