"""Amazon and Coauthor: one .npz with the adjacency and the attributes as CSR."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.graph import Labels


def read(raw: Conversion) -> None:
    """Binary features; with the option `component` the largest one, whose ids are the file's rows."""
    path = raw.file("{file}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            adjacency, attributes = _matrix(stored, "adj"), _matrix(stored, "attr")
            labels = stored["labels"].astype(np.int32)
            names = _class_names(stored, int(labels.max()) + 1)
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise GamlpError(f"not the .npz it should be ({error})", file=path, hint="fetch it again") from error
    if raw.options["component"]:
        rows = largest_component(adjacency)
        adjacency, attributes, labels = adjacency[rows][:, rows], attributes[rows], labels[rows]
        raw.writer.nodes(len(rows))
        raw.writer.ids(rows)
    else:
        raw.writer.nodes(len(labels))
    attributes.data = (attributes.data > 0).astype(np.float32)  # counts and presence: the benchmark uses presence
    raw.write_sparse(attributes)
    raw.writer.labels(Labels(labels, names))
    edges = adjacency.tocoo()
    raw.write_edges([(edges.row, edges.col)], len(labels), edges.nnz)


def largest_component(adjacency: Any) -> Array:
    """Rows of the largest connected component, ascending; of equals the one with the lowest row."""
    _, component = connected_components(adjacency, directed=True, connection="weak")
    return np.flatnonzero(component == np.bincount(component).argmax())


def _matrix(stored: Any, name: str) -> Any:
    parts = (stored[f"{name}_data"], stored[f"{name}_indices"], stored[f"{name}_indptr"])
    return scipy.sparse.csr_array(parts, shape=tuple(stored[f"{name}_shape"]))


def _class_names(stored: Any, count: int) -> tuple[str, ...]:
    """Amazon's file has names; Coauthor's hides them in a pickle, which is not opened."""
    try:
        names = tuple(str(name) for name in stored["class_names"])
    except (KeyError, ValueError):
        names = ()
    return names if len(names) == count else tuple(str(number) for number in range(count))
