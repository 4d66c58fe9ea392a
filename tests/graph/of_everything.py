"""A graph with every kind of part."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gamlp.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split


def everything() -> Graph:
    """Two types, two relations (one of two blocks, one weighted), every kind of part."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**15, (5, 3)).astype(np.uint16)
    paper = Nodes(
        "paper",
        5,
        Ids(5, pa.array(["a", "b/c", "", "ü", "e" * 300], pa.large_string())),
        Features(bits, "bfloat16"),
        Labels(np.array([[1, 0], [0, 1], [1, 1], [0, 0], [-1, -1]], np.int8), ("x", "y")),
        Split(np.array([1, 2, 3, 0, 1], np.int8)),
    )
    author = Nodes(
        "author",
        4,
        Ids(4, np.array([10, -7, 2**40, 3])),
        Features(random.normal(size=(4, 2)).astype(np.float16), "float16"),
        Labels(np.array([0, -1, 2, 1], np.int32), ("p", "q", "r")),
    )
    cites = Relation(
        "cites",
        "paper",
        "paper",
        True,
        (
            Block(0, 2, np.array([0, 2, 3]), np.array([1, 4, 0], np.int32)),
            Block(2, 5, np.array([0, 0, 1, 1]), np.array([2], np.int32)),
        ),
    )
    writes = Relation(
        "writes",
        "author",
        "paper",
        True,
        (
            Block(
                0,
                5,
                np.array([0, 1, 1, 1, 2, 2]),
                np.array([3, 0], np.int32),
                np.array([0.5, 2.0], np.float32),
            ),
        ),
    )
    return Graph(
        "all of it",
        {"paper": paper, "author": author},
        {"cites": cites, "writes": writes},
        "paper",
        source={"from": "a test", "seed": 3},
    )
