"""Cora, CiteSeer, PubMed: the files of Planetoid, with the public split."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion, numbered
from gamlp.graph.datasets.inert_pickle import InertPickle
from gamlp.graph.graph import Split

_VALID = 500


def read(raw: Conversion) -> None:
    """Rows: `allx` (the training rows `x` first), then the test rows in the order of their numbers."""
    files = {name: InertPickle(raw.file("ind.{prefix}." + name)) for name in ("y", "tx", "ty", "allx", "ally", "graph")}
    y, ty, ally = (files[name].array() for name in ("y", "ty", "ally"))
    tx, allx = files["tx"].matrix(), files["allx"].matrix()
    graph = files["graph"].lists()
    known = allx.shape[0]
    test = _test_rows(raw.file("ind.{prefix}.test.index"), known, len(ty))
    _check_sizes(raw.raw, {"y": y, "ty": ty, "ally": ally, "tx": tx, "allx": allx})
    count = max(int(test.max()) + 1, known)
    # CiteSeer's test numbers have gaps: those nodes have neither features nor a label and get zero rows.
    place = scipy.sparse.coo_array(
        (np.ones(len(test), np.float32), (test - known, np.arange(len(test)))), (count - known, len(test))
    )
    features = scipy.sparse.vstack([allx, place @ tx], format="csr")
    hot = np.zeros((count, ally.shape[1]), np.int64)
    hot[:known], hot[test] = ally, ty
    labels = np.where(hot.any(1), hot.argmax(1), 0)  # a row without label counts as class 0, as in PyG
    raw.writer.nodes(count)
    raw.write_sparse(features)
    raw.writer.labels(numbered(labels, hot.shape[1]))
    train = np.arange(len(y))
    raw.writer.split(Split.of(count, train=train, valid=len(y) + np.arange(_VALID), test=test))
    source = np.repeat(np.fromiter(graph, np.int64), [len(ends) for ends in graph.values()])
    target = np.fromiter(chain.from_iterable(graph.values()), np.int64)
    raw.write_edges([(source, target)], count, len(source))


def _test_rows(path: Path, known: int, expected: int) -> Array:
    """Numbers of the test rows, each once, after the `known` ones; few are left out between them."""
    try:
        test = np.loadtxt(path, dtype=np.int64, ndmin=1)
    except (ValueError, OverflowError) as error:
        raise GamlpError(f"not a list of rows ({error})", file=path, hint="fetch it again") from error
    inside = len(test) == expected and len(test) > 0 and test.min() >= known and test.max() < known + 2 * len(test)
    if not inside or len(np.unique(test)) < len(test):
        raise GamlpError(
            f"{expected} different rows from {known} on are expected", file=path, hint="fetch the files again"
        )
    return test


def _check_sizes(folder: Path, found: dict[str, Any]) -> None:
    rows, columns = ({name: one.shape[axis] for name, one in found.items()} for axis in (0, 1))
    fits = rows["allx"] == rows["ally"] and rows["tx"] == rows["ty"] and rows["y"] + _VALID <= rows["allx"]
    if not fits or columns["allx"] != columns["tx"] or len({columns[name] for name in ("y", "ty", "ally")}) > 1:
        raise GamlpError("rows and columns of the files do not fit together", file=folder, hint="fetch the files again")
