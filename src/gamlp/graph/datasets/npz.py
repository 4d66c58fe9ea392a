"""Amazon and Coauthor: one .npz with the adjacency and the attributes as CSR."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.datasets.raw_files import sparse_matrix
from gamlp.graph.graph import Labels

_AGAIN = "fetch it again"


def read(raw: Conversion) -> None:
    """Binary features; with the option `component` the largest one, whose ids are the file's rows."""
    path = raw.file("{file}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            adjacency, attributes = _matrix(stored, "adj", path), _matrix(stored, "attr", path)
            labels = _labels(stored["labels"])
            names = _class_names(stored, int(labels.max()) + 1)
    except (ValueError, KeyError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise GamlpError(f"not the .npz it should be ({error})", file=path, hint=_AGAIN) from error
    if not adjacency.shape[0] == adjacency.shape[1] == attributes.shape[0] == len(labels):
        raise GamlpError("edges, attributes and labels are of different numbers of nodes", file=path, hint=_AGAIN)
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
    _, component = scipy.sparse.csgraph.connected_components(adjacency, directed=True, connection="weak")
    return np.flatnonzero(component == np.bincount(component).argmax())


def _matrix(stored: Any, name: str, path: Path) -> Any:
    parts = (stored[f"{name}_data"], stored[f"{name}_indices"], stored[f"{name}_indptr"])
    return sparse_matrix(*parts, stored[f"{name}_shape"], path)


def _labels(values: Array) -> Array:
    """A class a node, from 0; there are no more classes than nodes."""
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise ValueError("labels are whole numbers, one a node")
    if int(values.min()) < 0 or int(values.max()) >= len(values):
        raise ValueError(f"a label from {values.min()} to {values.max()}")
    return values.astype(np.int32)


def _class_names(stored: Any, count: int) -> tuple[str, ...]:
    """Amazon's file has names; Coauthor's hides them in a pickle, which is not opened."""
    try:
        names = tuple(str(name) for name in stored["class_names"])
    except (KeyError, ValueError):
        names = ()
    return names if len(names) == count else tuple(str(number) for number in range(count))
