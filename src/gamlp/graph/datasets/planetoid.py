"""Cora, CiteSeer, PubMed: the files of Planetoid, with the public split.

They are pickles by origin, the one exception to the rule that no file is unpickled. Only the handful of array
types that they hold may be built; any other name in the file is refused before it is looked up.
"""

from __future__ import annotations

import collections
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion, numbered
from gamlp.graph.graph import Split

_VALID = 500


def read(raw: Conversion) -> None:
    """Rows: `allx` (the training rows `x` first), then the test rows in the order of their numbers."""
    names = ("y", "tx", "ty", "allx", "ally", "graph")
    y, tx, ty, allx, ally, graph = (_unpickle(raw.file("ind.{prefix}." + name)) for name in names)
    test = np.loadtxt(raw.file("ind.{prefix}.test.index"), dtype=np.int64)
    known = allx.shape[0]
    count = max(int(test.max()) + 1, known)
    # CiteSeer's test numbers have gaps: those nodes have neither features nor a label and get zero rows.
    place = scipy.sparse.coo_array(
        (np.ones(len(test), np.float32), (test - known, np.arange(len(test)))), (count - known, len(test))
    )
    features = scipy.sparse.vstack([scipy.sparse.csr_array(allx), place @ scipy.sparse.csr_array(tx)], format="csr")
    hot = np.zeros((count, ally.shape[1]), np.int64)
    hot[:known], hot[test] = ally, ty
    labels = np.where(hot.any(1), hot.argmax(1), 0)  # a row without label counts as class 0, as in PyG
    raw.writer.nodes(count)
    raw.write_sparse(features)
    raw.writer.labels(numbered(labels, hot.shape[1]))
    train = np.arange(len(y))
    raw.writer.split(Split.of(count, train=train, valid=len(y) + np.arange(_VALID), test=test))
    source = np.repeat(np.fromiter(graph, np.int64), [len(ends) for ends in graph.values()])
    target = np.fromiter((end for ends in graph.values() for end in ends), np.int64)
    raw.write_edges([(source, target)], count, len(source))


def _rebuild_array() -> Any:
    # What numpy itself writes into a pickle of an array, wherever this version keeps it.
    return np.zeros(0).__reduce__()[0]


_ALLOWED: dict[tuple[str, str], Callable[[], Any]] = {
    ("__builtin__", "list"): lambda: list,
    ("builtins", "list"): lambda: list,
    ("collections", "defaultdict"): lambda: collections.defaultdict,
    ("numpy", "ndarray"): lambda: np.ndarray,
    ("numpy", "dtype"): lambda: np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
    ("scipy.sparse.csr", "csr_matrix"): lambda: scipy.sparse.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): lambda: scipy.sparse.csr_matrix,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"names {module}.{name}, which is no array")
        return _ALLOWED[module, name]()


def _unpickle(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _ArraysOnly(file, encoding="latin1").load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise GamlpError(f"not a Planetoid file ({error})", file=path, hint="fetch it again") from error
