"""PPI, Flickr and Reddit: the graphs of the inductive benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.conversion import Conversion, numbered
from gamlp.graph.datasets.raw_files import Npz
from gamlp.graph.graph import ROLES, Labels, Split

_ROWS = 1 << 14
_EDGES = 1 << 22


def read_ppi(raw: Conversion) -> None:
    """24 tissues as one disjoint graph, rows of train, valid and test in this order; many labels a node."""
    parts = ("train", "valid", "test")
    features = [_load(raw.file(f"{part}_feats.npy")) for part in parts]
    labels = [_load(raw.file(f"{part}_labels.npy")) for part in parts]
    counts = [len(part) for part in features]
    starts = np.cumsum([0, *counts])
    raw.writer.nodes(int(starts[-1]))
    raw.write_dense(features, features[0].shape[1], int(starts[-1]))
    hot = np.concatenate(labels).astype(np.int8)
    raw.writer.labels(Labels(hot, tuple(str(number) for number in range(hot.shape[1])), "integer"))
    raw.writer.split(Split(np.repeat(np.arange(1, 4, dtype=np.int8), counts)))
    chunks = [_edges(raw.file(f"{part}_graph.json"), int(start)) for part, start in zip(parts, starts)]
    raw.write_edges(chunks, int(starts[-1]), sum(len(source) for source, _ in chunks))


def _edges(path: Path, start: int) -> tuple[Array, Array]:
    links = _json(path)["links"]
    source, target = (np.asarray([edge[end] for edge in links], np.int64) for end in ("source", "target"))
    return start + source, start + target


def read_flickr(raw: Conversion) -> None:
    """Adjacency as CSR, classes and roles as JSON."""
    features = _load(raw.file("feats.npy"))
    count = len(features)
    raw.writer.nodes(count)
    raw.write_dense(_pieces(features), features.shape[1], count)
    labels = np.full(count, -1, np.int32)
    for node, label in _json(raw.file("class_map.json")).items():
        labels[int(node)] = label
    raw.writer.labels(numbered(labels, raw.options["classes"]))
    roles = _json(raw.file("role.json"))
    raw.writer.split(Split.of(count, train=roles["tr"], valid=roles["va"], test=roles["te"]))
    with Npz(raw.file("adj_full.npz")) as stored:
        offsets, neighbours = stored.read_all("indptr"), stored.read_all("indices")
    rows = np.repeat(np.arange(count), np.diff(offsets))
    raw.write_edges([(neighbours, rows)], count, len(rows))


def read_reddit(raw: Conversion) -> None:
    """Features and edges stream from the archives: neither is ever whole in memory."""
    with Npz(raw.file("reddit_data.npz")) as stored:
        count, width = stored.shape("feature")
        raw.writer.nodes(count)
        raw.write_dense(stored.chunks("feature", _ROWS), width, count)
        raw.writer.labels(numbered(stored.read_all("label"), raw.options["classes"]))
        roles = stored.read_all("node_types")  # 1, 2, 3: train, valid, test, as ours
        raw.writer.split(Split(np.where(roles < len(ROLES), roles, 0).astype(np.int8)))
    with Npz(raw.file("reddit_graph.npz")) as stored:
        edges = zip(stored.chunks("row", _EDGES), stored.chunks("col", _EDGES))
        # Both directions are in the file: one of each pair is enough.
        once = ((row[row < column], column[row < column]) for row, column in edges)
        raw.write_edges(once, count, stored.shape("row")[0] // 2)


def _pieces(values: Array) -> Any:
    return (values[row : row + _ROWS] for row in range(0, len(values), _ROWS))


def _load(path: Path) -> Array:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, OSError) as error:
        raise GamlpError(f"not a readable .npy array ({error})", file=path, hint="fetch it again") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise GamlpError(f"not readable JSON ({error})", file=path, hint="fetch it again") from error
