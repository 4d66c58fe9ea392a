"""What is known of rows before they are scored: how many there are, of which classes, with how many neighbours."""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.io import State
from gamlp.training import class_counts


class RowSurvey:
    """Counts of rows, range by range; those of other ranges are merged in their order.

    `sizes`: rows of every class. `degrees` are distinct numbers of neighbours, ascending, and `nodes` how many rows
    have each; none where the graph is not at hand.
    """

    def __init__(self, classes: int) -> None:
        self.sizes = np.zeros(classes, np.int64)
        self.degrees, self.nodes = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.of_ranges = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        return int(self.of_ranges.sum())

    def add(self, targets: Array, degrees: Array | None = None) -> None:
        """The rows of one range: their labels, and how many neighbours they have."""
        found = (np.zeros(0, np.int64),) * 2 if degrees is None else np.unique(degrees, return_counts=True)
        self.merge(
            {
                "sizes": class_counts(targets, len(self.sizes)),
                "of_ranges": np.array([len(targets)]),
                "degrees": found[0],
                "nodes": found[1],
            }
        )

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        return {name: getattr(self, name) for name in ("sizes", "of_ranges", "degrees", "nodes")}

    def merge(self, state: State) -> None:
        """Add what was counted of the ranges that follow."""
        self.sizes = self.sizes + state["sizes"]
        self.of_ranges = np.concatenate([self.of_ranges, state["of_ranges"]])
        distinct, groups = np.unique(np.concatenate([self.degrees, state["degrees"]]), return_inverse=True)
        nodes = np.zeros(len(distinct), np.int64)
        np.add.at(nodes, groups, np.concatenate([self.nodes, state["nodes"]]))
        self.degrees, self.nodes = distinct, nodes
