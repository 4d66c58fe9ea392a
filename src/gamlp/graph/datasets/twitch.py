"""Twitch users of one country: who follows whom, what they play, whether they stream for adults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion
from gamlp.graph.graph import ROLES, Labels, Split


def read(raw: Conversion) -> None:
    """Multi-hot features of the width all countries share; every row plays the country's part (`role`)."""
    labels = _labels(raw.file("target.csv"))
    count = len(labels)
    raw.writer.nodes(count)
    raw.write_sparse(_features(raw.file("features.json"), count, raw.options["width"]))
    raw.writer.labels(Labels(labels, tuple(raw.options["classes"])))
    raw.writer.split(Split(np.full(count, ROLES.index(raw.options["role"]), np.int8)))
    source, target = _columns(raw.file("edges.csv"), "from", "to")
    raw.write_edges([(source, target)], count, len(source))


def _labels(path: Path) -> Array:
    """FR lists two users twice, alike: they are one node each, and 6549 nodes are in its graph."""
    node, mature = _columns(path, "new_id", "mature")
    labels = np.full(int(node.max(initial=-1)) + 1, -1, np.int32)
    labels[node] = mature
    if node.min(initial=0) < 0 or (labels < 0).any() or not np.array_equal(labels[node], mature):
        raise GamlpError("new_id does not number the nodes, or gives one two labels", file=path)
    return labels


def _features(path: Path, count: int, width: int) -> scipy.sparse.csr_array:
    """One where a node has a feature; a node without an entry has a zero row."""
    try:
        lists = {int(node): features for node, features in json.loads(path.read_bytes()).items()}
    except ValueError as error:
        raise GamlpError(f"not the JSON it should be ({error})", file=path, hint="fetch it again") from error
    rows = np.repeat(np.fromiter(lists, np.int64), [len(features) for features in lists.values()])
    columns = np.fromiter((index for features in lists.values() for index in features), np.int64, len(rows))
    if len(rows) and (rows.max() >= count or columns.max() >= width):
        raise GamlpError(f"a node beyond {count} or a feature beyond {width}", file=path)
    matrix = scipy.sparse.coo_array((np.ones(len(rows), np.float32), (rows, columns)), (count, width)).tocsr()
    matrix.data[:] = 1.0  # a feature listed twice is still there once
    return matrix


def _columns(path: Path, *names: str) -> list[Array]:
    try:
        table = pa.csv.read_csv(path)
        return [np.asarray(table[name].cast(pa.int64()).to_numpy()) for name in names]
    except (pa.ArrowException, KeyError) as error:
        raise GamlpError(f"not the table it should be ({error})", file=path, hint="fetch it again") from error
