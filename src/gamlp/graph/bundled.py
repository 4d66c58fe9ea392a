"""Two small graphs that need no download: `digits` and `karate`."""

from __future__ import annotations

import numpy as np

from gamlp.graph.graph import Array, Graph, Labels, Split
from gamlp.graph.splits import per_class_split

_NEIGHBOURS = 10

# Zachary's karate club (1977): for every member the friends with a higher number, from 0.
_FRIENDS = (
    "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31|2 3 7 13 17 19 21 30|3 7 8 9 13 27 28 32|7 12 13|6 10|6 10 16|16"
    "||30 32 33|33||||33|32 33|32 33|||32 33|33|32 33||32 33|25 27 29 32 33|25 27 31|31|29 33|33|31 33|32 33|"
    "32 33|32 33|33|"
)
# The four communities of largest modularity, the labels that Kipf and Welling and PyG use.
_COMMUNITIES = "1111333101311100310101002200200200"


def digits() -> Graph:
    """scikit-learn's 1797 handwritten digits, each joined with its 10 nearest; features are pixels / 16.

    An edge is there when either end has the other among its nearest; of equals the lower row is nearer.
    Split, always the same: 20 images of each digit train, 30 validate, the others test.
    """
    from sklearn.datasets import load_digits  # imported here: it takes a second

    data = load_digits()
    pixels = np.asarray(data.data, np.float64)
    near = _nearest(pixels, _NEIGHBOURS)
    edges = np.stack([near.ravel(), np.repeat(np.arange(len(pixels)), _NEIGHBOURS)])
    labels = Labels(np.asarray(data.target, np.int32), tuple(str(digit) for digit in range(10)))
    return Graph.from_arrays(
        edges,
        (pixels / 16).astype(np.float32),
        labels,
        split=per_class_split(labels, 20, 30, seed=0),
        name="digits",
    )


def karate() -> Graph:
    """Zachary's karate club: 34 members, 78 friendships; one-hot features, four communities as labels.

    Split, always the same: of each community the first member trains, the second validates, the others test.
    """
    edges = [(row, int(friend)) for row, friends in enumerate(_FRIENDS.split("|")) for friend in friends.split()]
    values = np.asarray([int(digit) for digit in _COMMUNITIES], np.int32)
    members = [np.flatnonzero(values == community) for community in range(4)]
    roles = np.full(len(values), 3, np.int8)
    for role in (1, 2):
        roles[[rows[role - 1] for rows in members]] = role
    labels = Labels(values, tuple(str(community) for community in range(4)))
    features = np.eye(len(values), dtype=np.float32)
    return Graph.from_arrays(np.asarray(edges).T, features, labels, split=Split(roles), name="karate")


def _nearest(points: Array, count: int) -> Array:
    """Rows of the `count` nearest other points; of whole numbers, so that distances and ties are exact."""
    square = (points**2).sum(1)
    distance = square[:, None] + square[None, :] - 2 * points @ points.T
    np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, :count]
