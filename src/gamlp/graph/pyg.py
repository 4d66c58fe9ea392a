"""What people hold in Python → Graph: PyG's `Data`, known by its attributes alone, and tuples of arrays."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.arrays import as_labels
from gamlp.graph.graph import UNKNOWN, Graph, Labels, Relation, Split
from gamlp.graph.ingest import LabelColumn, check_classes, unknown_labels

MASKS = ("train_mask", "val_mask", "test_mask")


def from_pyg(data: Any, *, directed: bool = False, split: int = 0, target: str | None = None) -> Graph:
    """A graph from PyG's `Data`: x, edge_index, y, edge_weight (or an edge_attr of one dimension) and masks.

    Edges go both ways unless `directed`; weights that are the same both ways already are not added up. y holds class
    numbers `[n]` or `[n, 1]` (negative or NaN: unknown), or 0 and 1 `[n, c]` where a node has many labels. Of masks
    with several columns the one numbered `split` is taken.
    """
    if hasattr(data, "edge_types"):
        from gamlp.graph.hetero_data import from_hetero

        return from_hetero(data, directed=directed, split=split, target=target)
    if not hasattr(data, "edge_index"):
        raise _not_a_graph(data)
    if data.edge_index is None:
        raise GamlpError("the PyG data has no edge_index", hint="set edge_index of shape [2, edges]")
    x, y = (array_of(getattr(data, name, None)) for name in ("x", "y"))
    labels = None if y is None else labels_of(y, numbered=True)
    count = data.num_nodes if x is None else x.shape[0]
    masks = {name: array_of(getattr(data, name, None)) for name in MASKS}
    roles = None if all(mask is None for mask in masks.values()) else split_of_masks(masks, count, split)
    edges, weights = array_of(data.edge_index), weights_of(data)
    return with_edges_both_ways(
        edges, weights, directed, features=x, labels=labels, split=roles, count=count, name="pyg"
    )


def as_graph(source: Any, y: Any = None) -> Graph:
    """A Graph as it is, PyG's and networkx' graphs, or a tuple (edge_index, x[, y]); `y` replaces its labels.

    In a tuple, and in `y`, a label is a class number or name; None, NaN, '', 'NA' and the like, and negative numbers
    are unknown.

    >>> as_graph(([[0, 1], [1, 2]], np.eye(3), ["cat", None, "ant"])).nodes.labels
    Labels(values=array([ 1, -1,  0], dtype=int32), classes=('ant', 'cat'))
    """
    if isinstance(source, tuple):
        if len(source) not in (2, 3):
            raise GamlpError(f"a tuple of {len(source)} is not a graph", hint="give (edge_index, x) or with labels")
        given = source[2] if len(source) == 3 and y is None else y
        labels = None if given is None else labels_of(given)
        return Graph.from_arrays(array_of(source[0]), array_of(source[1]), labels)
    graph = source if isinstance(source, Graph) else _of_other(source)
    if y is None:
        return graph
    labels, nodes = labels_of(y), graph.nodes
    if labels is not None and len(labels.values) != nodes.count:
        raise GamlpError(f"{len(labels.values)} labels for {nodes.count} nodes", hint="give one label a node")
    return replace(graph.with_targets(labels=labels), folder=None)


def _of_other(source: Any) -> Graph:
    """A graph of another library, known by its attributes."""
    if hasattr(source, "edge_index") or hasattr(source, "edge_types"):
        return from_pyg(source)
    if hasattr(source, "is_directed") and hasattr(source, "adj"):
        return Graph.from_networkx(source)
    raise _not_a_graph(source)


def labels_of(y: Any, *, numbered: bool = False) -> Labels | None:
    """Labels from numbers or names; None where no node has one. Classes are sorted.

    One class for every number from 0 where they are `numbered`, else one for every value that occurs.
    """
    if isinstance(y, Labels):
        return y
    values = array_of(y)
    assert values is not None
    if values.dtype.kind in "US" and isinstance(y, list | tuple):
        values = np.asarray(y, object)  # numpy makes the text 'nan' of a missing one
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.kind in "OUST" and values.ndim == 1:
        return _named(values)
    if values.dtype.kind == "f":
        values = _without_nan(values)
    if numbered or values.ndim != 1 or values.dtype.kind not in "iubf" or not (values == np.rint(values)).all():
        return as_labels(values)  # tells of what is not whole
    known = values >= 0
    if not known.any():
        return None
    classes, numbers = np.unique(values[known].astype(np.int64), return_inverse=True)
    found = np.full(len(values), UNKNOWN, np.int32)
    found[known] = numbers
    return Labels(found, tuple(str(number) for number in classes), "boolean" if values.dtype.kind == "b" else "integer")


def _named(values: Array) -> Labels | None:
    column = LabelColumn("y")  # the same names, in the same order, as a table gives
    texts = [None if _missing(value) else _text(value) for value in values.tolist()]
    column.add(column.known(pa.array(texts, pa.large_string())))
    column.texts = any(isinstance(value, str | bytes) for value in values.tolist())
    found = column.labels(None, lambda shape: np.empty(shape, np.int8))
    told = [unknown_labels(column.not_known, "y")]
    if found is not None:
        told += check_classes(found.classes, int(np.count_nonzero(found.known())), column="y")
    for sentence in told:
        if sentence:
            warnings.warn(sentence, UserWarning, stacklevel=4)
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _missing(value: Any) -> bool:
    if isinstance(value, Real):
        return math.isnan(value) or value < 0
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # pandas: NA, NaT


def _without_nan(values: Array) -> Array:
    absent = np.isnan(values)
    if values.ndim == 2 and (absent.any(1) != absent.all(1)).any():
        row = int(np.argmax(absent.any(1) != absent.all(1)))
        raise GamlpError(f"some labels of node {row} are NaN", hint="give all labels of a node, or none")
    return np.where(absent, UNKNOWN, values) if absent.any() else values


def with_edges_both_ways(edges: Any, weights: Array | None, directed: bool, **parts: Any) -> Graph:
    """A graph of arrays; weights that are the same both ways already are not added up."""
    if weights is None or directed:
        return Graph.from_arrays(edges, weights=weights, directed=directed, **parts)
    # PyG holds an undirected edge in both directions: made symmetric once more, all weights would double.
    graph = Graph.from_arrays(edges, weights=weights, directed=True, **parts)
    if symmetric(graph.relation):
        return replace(graph, relations={"edge": replace(graph.relation, directed=False)})
    return Graph.from_arrays(edges, weights=weights, **parts)


def symmetric(relation: Relation) -> bool:
    """Whether every edge has its like the other way."""
    block, count = relation.blocks[0], relation.count
    matrix = scipy.sparse.csr_matrix((block.weights, block.neighbours, block.offsets), shape=(count, count))
    other = matrix.T.tocsr()  # sorted, as the blocks are
    alike = np.array_equal(matrix.indptr, other.indptr) and np.array_equal(matrix.indices, other.indices)
    return alike and bool(np.allclose(matrix.data, other.data, rtol=1e-5, atol=0))


def weights_of(data: Any) -> Array | None:
    """edge_weight, or an edge_attr of one dimension."""
    weights: Array | None = array_of(getattr(data, "edge_weight", None))
    if weights is not None:
        return weights[:, 0] if weights.ndim == 2 and weights.shape[1] == 1 else weights
    attributes: Array | None = array_of(getattr(data, "edge_attr", None))
    return attributes if attributes is not None and attributes.ndim == 1 else None


def split_of_masks(masks: dict[str, Array | None], count: int, column: int) -> Split:
    """A split from masks of one or several columns; a row of two parts is refused."""
    roles = np.zeros(count, np.int8)
    taken: dict[str, Array] = {}
    for role, (name, mask) in enumerate(masks.items(), start=1):
        if mask is None:
            continue
        if mask.ndim not in (1, 2) or len(mask) != count:
            raise GamlpError(f"{name} has shape {mask.shape} for {count} nodes", hint="give one value a node")
        if mask.ndim == 2 and not 0 <= column < mask.shape[1]:
            raise GamlpError(f"{name} has {mask.shape[1]} splits, not one numbered {column}", hint="count from 0")
        rows = (mask if mask.ndim == 1 else mask[:, column]).astype(bool)
        for other, before in taken.items():
            if (both := int((rows & before).sum())) > 0:
                raise GamlpError(f"{both} nodes are in {other} and in {name}", hint="let masks exclude one another")
        taken[name] = rows
        roles[rows] = role
    return Split(roles)


def array_of(value: Any) -> Any:
    """Tensors (sparse, with a gradient, of bfloat16, elsewhere than the CPU) as arrays; other things as they are."""
    if value is None or scipy.sparse.issparse(value):
        return value
    if hasattr(value, "as_tensor"):  # PyG's EdgeIndex, whose to_dense is the adjacency matrix
        value = value.as_tensor()
    if hasattr(value, "to_dense"):
        value = value.to_dense()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise GamlpError("rows of different lengths are not an array", hint="give as many values in each") from error


def _not_a_graph(source: Any) -> GamlpError:
    return GamlpError(
        f"a {type(source).__name__} is not a graph", hint="give a Graph, PyG's Data, or a tuple (edge_index, x, y)"
    )
