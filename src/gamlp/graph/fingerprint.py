"""What a result depends on, as short names: the structure, the features, the training labels."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.graph import ROLES, Graph
from gamlp.graph.manifest import nodes_folder
from gamlp.graph.schema import EncodedAgain, PickedColumns
from gamlp.graph.unread import held
from gamlp.io import digest

_STRINGS = 1 << 16  # ids joined at a time
_ROWS = 1 << 20  # roles looked at at a time
_TRAIN = ROLES.index("train")


def structure(graph: Graph) -> str:
    """Changes with any edge, weight or direction; not with features, labels or split."""
    relations = {name: _relation(graph, name) for name in graph.relations}
    return digest(
        {"nodes": {node_type: nodes.count for node_type, nodes in graph.node_types.items()}, "relations": relations}
    )


def relation(graph: Graph, name: str) -> str:
    """Changes with any edge of one relation; two relations that hold the same edges have the same."""
    found = _relation(graph, name)
    prefix = len(f"relations/{name}/")
    files = [[file[0][prefix:], *file[1:]] if isinstance(file[0], str) else file for file in found[3]]
    return digest([*found[:3], files])


def _relation(graph: Graph, name: str) -> list[Any]:
    relation = graph.relations[name]
    files = _files(graph, f"relations/{name}/") or [
        [_crc(block.offsets), _crc(block.neighbours), None if block.weights is None else _crc(block.weights)]
        for block in relation.blocks
    ]
    return [relation.source, relation.target, relation.directed, files]


def features(graph: Graph, node_type: str | None = None) -> str:
    """Changes with any feature of a type, or name of a column: the target, unless another is named."""
    node_type = node_type or graph.target
    values = graph.node_types[node_type].features
    if values is None:
        return digest(None)
    files = _files(graph, f"{nodes_folder(node_type)}/features")  # one file, or a folder of shards
    more: list[Any] = [] if values.columns is None else [[column.model_dump() for column in values.columns]]
    kept = held(values, "values")  # a key is known without reading what it is the key of
    if isinstance(kept, EncodedAgain):
        files = _files(graph, f"{nodes_folder(node_type)}/raw/")
    if isinstance(kept, PickedColumns):
        more.append(kept.order.tolist())
    return digest([values.dtype, values.width, files or _crc(values.values), *more])


def ids(graph: Graph) -> str:
    """Changes with any original id of the target's nodes, or their order."""
    values = graph.nodes.ids.values
    if files := _files(graph, f"{nodes_folder(graph.target)}/ids"):
        return digest(files)
    if values is None or isinstance(values, np.ndarray):
        return digest(None if values is None else _crc(values))
    return digest(_crc_of_strings(graph, np.arange(graph.nodes.count)))


def training_labels(graph: Graph) -> str:
    """Changes with the training rows or their labels; not with any other label."""
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    count = of_rows = of_labels = 0
    for begin in range(0, len(split.roles), _ROWS):  # in chunks: a driver's memory must not grow with the nodes
        chunk = slice(begin, begin + _ROWS)
        inside = np.flatnonzero(split.roles[chunk] == _TRAIN)
        count += len(inside)
        of_rows = zlib.crc32((inside + begin).data, of_rows)
        of_labels = zlib.crc32(np.ascontiguousarray(labels.values[chunk][inside]).view(np.uint8).data, of_labels)
    rows = [str(np.dtype(np.int64)), [count], of_rows]
    values = [str(labels.values.dtype), [count, *labels.values.shape[1:]], of_labels]
    return digest([rows, values, list(labels.classes)])


def targets(graph: Graph) -> str:
    """Changes with any label or role: what a store copies beside its hops."""
    labels, split = graph.nodes.labels, graph.nodes.split
    return digest([labels and [_crc(labels.values), list(labels.classes)], split and _crc(split.roles)])


def members(graph: Graph, rows: Array) -> str:
    """Changes with the rows, or with a label, role or id of theirs; not with those of other rows."""
    nodes = graph.nodes
    labels = nodes.labels and [_crc(nodes.labels.values, rows), list(nodes.labels.classes)]
    ids = nodes.ids.values
    if ids is not None and not isinstance(ids, np.ndarray):
        ids = _crc_of_strings(graph, rows)
    elif ids is not None:
        ids = _crc(ids, rows)
    return digest([_crc(rows), labels, nodes.split and _crc(nodes.split.roles, rows), ids])


def _crc_of_strings(graph: Graph, rows: Array) -> int:
    """CRC-32 of the original ids of some rows, where they are texts."""
    crc = 0
    for begin in range(0, len(rows), _STRINGS):
        crc = zlib.crc32("\0".join(graph.nodes.ids.take(rows[begin : begin + _STRINGS]).to_pylist()).encode(), crc)
    return crc


def _files(graph: Graph, prefix: str) -> list[Any]:
    return [[name, *entry] for name, entry in sorted(graph.checksums.items()) if name.startswith(prefix)]


def _crc(values: Array, rows: Array | None = None) -> list[Any]:
    """Type, shape and CRC-32 of all values, or of some rows of them."""
    crc, step = 0, max(1, (8 << 20) // max(1, values[:1].nbytes))
    count = len(values) if rows is None else len(rows)
    for begin in range(0, count, step):
        chunk = slice(begin, begin + step)
        part = values[chunk] if rows is None else values[rows[chunk]]
        crc = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, crc)
    return [str(values.dtype), [count, *values.shape[1:]], crc]


def inputs(graph: Graph) -> str:
    """Changes with any edge or feature."""
    return digest([structure(graph), features(graph)])


def everything(graph: Graph) -> str:
    """Changes with any edge, feature, label or role."""
    return digest([inputs(graph), targets(graph)])
