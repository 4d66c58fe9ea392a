"""What a graph's size is told by, whether there is one or not yet: counts alone, and the bytes of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import npy_size
from gamlp.kernel import MOST_NODES, NUMPY_DTYPES, FloatName
from gamlp.propagation import Plan

TRAIN, VALID, TEST = 0.6, 0.2, 0.2  # of labelled rows, where nothing is known of a split


@dataclass(frozen=True)
class GraphShape:
    """One type of nodes and one relation; `entries` are stored neighbours: an undirected edge is two of them.

    `rows` counts what may be kept by name (labelled, split, train, valid, test); `multi_label` has a label a class.
    """

    nodes: int
    entries: int
    features: int
    classes: int
    rows: Mapping[str, int] = field(default_factory=dict)
    weighted: bool = False
    multi_label: bool = False
    feature_dtype: FloatName = "float32"
    name: str = "graph"

    @classmethod
    def of_counts(
        cls,
        nodes: int,
        edges: int,
        features: int,
        classes: int,
        *,
        labelled: int,
        directed: bool,
        name: str = "graph",
        feature_dtype: FloatName = "float32",
    ) -> GraphShape:
        """A graph that is not there yet: `labelled` rows are split 60, 20, 20."""
        for what, count in {"nodes": nodes, "edges": edges, "features": features, "classes": classes}.items():
            if count < (1 if what == "nodes" else 0):
                raise GamlpError(f"{count} {what} are none", hint=f"give --{what} above it")
        if nodes > MOST_NODES:
            raise GamlpError(f"{nodes:,} nodes are more than the {MOST_NODES:,} that a graph can have")
        labelled = min(labelled, nodes) if classes else 0
        train, valid = int(labelled * TRAIN), int(labelled * VALID)
        rows = {"labelled": labelled, "train": train, "valid": valid, "test": labelled - train - valid}
        entries = edges if directed else 2 * edges
        rows["split"] = labelled
        return cls(nodes, entries, features, classes, rows, feature_dtype=feature_dtype, name=name)

    @classmethod
    def of_graph(cls, graph: Graph, plan: Plan) -> GraphShape:
        """Of a folder: the rows that the plan keeps are counted as they will be."""
        if graph.heterogeneous:
            raise GamlpError(
                f"graph '{graph.name}' has several relations, and sizes are told of one",
                hint="give the sizes of one view: --nodes and --edges",
            )
        nodes, relation = graph.nodes, graph.relation
        rows: dict[str, int] = {}
        if nodes.split is not None:
            rows |= {part: len(nodes.split.rows(part)) for part in ("train", "valid", "test")}
        rows["labelled"] = 0 if nodes.labels is None else int(np.count_nonzero(nodes.labels.known()))
        if not plan.keeps_all:
            rows[plan.rows] = sum(len(part) for part in plan.kept_parts(graph))
        return cls(
            nodes.count,
            relation.entries,
            0 if nodes.features is None else nodes.features.width,
            0 if nodes.labels is None else len(nodes.labels.classes),
            rows,
            relation.weighted,
            nodes.labels is not None and nodes.labels.multi_label,
            "float32" if nodes.features is None else nodes.features.dtype,
            graph.name,
        )

    def kept(self, plan: Plan) -> int | None:
        """Rows that the plan keeps; None: all."""
        if plan.keeps_all:
            return None
        if plan.rows in self.rows:
            return self.rows[plan.rows]
        names = {name.strip() for name in plan.rows.split("+")}
        if names & {"labelled", "split"}:
            return self.rows.get("labelled", 0)
        return sum(self.rows.get(name, 0) for name in names)

    @property
    def relation_bytes(self) -> int:
        """Offsets, neighbours and weights, as one block."""
        weights = npy_size((self.entries,), np.float32) if self.weighted else 0
        return npy_size((self.nodes + 1,), np.int64) + npy_size((self.entries,), np.int32) + weights

    @property
    def neighbour_bytes(self) -> int:
        """What is read of the graph at every hop of every pass."""
        return self.entries * (8 if self.weighted else 4)

    @property
    def feature_bytes(self) -> int:
        return npy_size((self.nodes, self.features), NUMPY_DTYPES[self.feature_dtype]) if self.features else 0

    @property
    def target_bytes(self) -> int:
        """Labels and roles, of a graph and again of a store."""
        if not self.classes:
            return 0
        shape, dtype = ((self.nodes, self.classes), np.int8) if self.multi_label else ((self.nodes,), np.int32)
        return npy_size(shape, dtype) + npy_size((self.nodes,), np.int8)

    @property
    def folder_bytes(self) -> int:
        """The graph's folder; original ids beside it are as long as they are."""
        return self.relation_bytes + self.feature_bytes + self.target_bytes
