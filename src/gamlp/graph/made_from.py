"""What people hold in Python, and how a Graph is made from it: arrays, frames, networkx, scipy, PyG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gamlp.graph.graph import Graph, Split


class MadeFrom:
    """The ways into a graph, each of which is a file of its own; they are imported when they are called."""

    @classmethod
    def from_arrays(
        cls,
        edge_index: Any,
        features: Any = None,
        labels: Any = None,
        *,
        weights: Any = None,
        split: Split | None = None,
        count: int | None = None,
        directed: bool = False,
        name: str = "arrays",
    ) -> Graph:
        """A graph in memory from `edge_index[2, m]` (source, target) and arrays of nodes."""
        from gamlp.graph.arrays import graph_from_arrays

        return graph_from_arrays(edge_index, features, labels, weights, split, count, directed, name)

    @classmethod
    def from_frames(cls, nodes: Any, edges: Any, *, id: Any = "id", label: Any = None, **how: Any) -> Graph:
        """A graph from tables of pandas, Polars, Arrow (also its readers) or DuckDB, read as ingest reads files.

        nodes, edges: frames; of several node types a dict by type, of several relations a dict by name.
        id, label, split: columns of nodes; with several types also a dict by type. label='': no labels.
        src, dst, weight, relation, time: columns of edges. directed: edges go one way. before: the graph as of then.
        features: the columns to use; None: all that are nothing else. column: types of some, such as
        `{"age": "robust"}`, `{"*": "as-is"}` for all as they are; drop: columns that are none. schema: of before.
        many_labels, unknown_label: what stands between labels of a node, and what says that none is known.
        join: `{relation: (source type, target type)}`; target: the type whose labels are asked for.
        split_by, train_until, valid_until: a split by time. fractions, seed: of one that is drawn where there is none.
        on_bad: 'stop' or 'skip' bad rows.
        dtype, max_rows, memory, progress: as on the command line. name: of the graph.
        folder: where the graph stays; None: in a temporary folder that goes with it.

        >>> import pyarrow as pa
        >>> from gamlp import Graph
        >>> nodes = pa.table({"id": ["a", "b", "c"], "age": [20, 30, 40], "label": ["x", "y", "x"]})
        >>> edges = pa.table({"src": ["a", "b"], "dst": ["b", "c"]})
        >>> graph = Graph.from_frames(nodes, edges, fractions=(1, 0, 0))
        >>> graph.nodes.ids.take([2]).to_pylist(), graph.nodes.labels.classes
        (['c'], ('x', 'y'))
        """
        from gamlp.graph.frames import graph_from_frames

        return graph_from_frames(nodes, edges, id=id, label=label, **how)

    @classmethod
    def from_networkx(cls, network: Any, **how: Any) -> Graph:
        """A graph from one of networkx: attributes of nodes and edges are columns, as those of frames are.

        Nodes are called by integers or strings. An attribute 'label', 'split', 'weight' … is used as a column of that
        name is; other attributes of nodes are features. `how`: as in `from_frames`.
        """
        from gamlp.graph.networks import from_networkx

        return from_networkx(network, **how)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        *,
        directed: bool = False,
        split: Split | None = None,
        name: str = "scipy",
    ) -> Graph:
        """A graph from a sparse matrix: what stands in row i and column j is the weight of an edge i → j.

        Edges go both ways unless `directed`; a matrix that is symmetric already is not added up. All ones: no weights.

        >>> import scipy.sparse
        >>> from gamlp import Graph
        >>> Graph.from_scipy(scipy.sparse.csr_matrix([[0, 1], [0, 0]]), [[1.0], [2.0]]).relation.entries
        2
        """
        from gamlp.graph.networks import from_scipy

        return from_scipy(adjacency, features, labels, directed=directed, split=split, name=name)

    @classmethod
    def from_pyg(cls, data: Any, *, directed: bool = False, split: int = 0, target: str | None = None) -> Graph:
        """A graph from PyG's `Data` or `HeteroData`; `target`: the node type whose labels are asked for.

        Edges go both ways unless `directed`. Of masks with several columns the one numbered `split` is taken.
        """
        from gamlp.graph.pyg import from_pyg

        return from_pyg(data, directed=directed, split=split, target=target)
