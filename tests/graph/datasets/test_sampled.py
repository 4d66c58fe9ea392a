"""PPI, Flickr and Reddit from fabricated raw files, against PyG's own processing of the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gamlp.graph import Graph
from gamlp.graph.datasets.loading import load

pyg: Any = pytest.importorskip("torch_geometric.datasets")
random = np.random.default_rng(0)


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for rows, columns, _ in graph.relation.edges() for a, b in zip(rows, columns)}


def pairs(edge_index: Any, start: int = 0) -> set[tuple[int, int]]:
    return {(a + start, b + start) for a, b in edge_index.t().tolist() if a != b}


def symmetric(count: int, edges: int) -> Any:
    a, b = random.integers(0, count, (2, edges))
    matrix = scipy.sparse.coo_array((np.ones(edges), (a, b)), (count, count)).tocsr()
    return ((matrix + matrix.T) > 0).astype(np.float32)


def test_ppi_is_one_disjoint_graph_with_many_labels(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "PPI" / "raw"
    raw.mkdir(parents=True)
    sizes = {"train": [7, 5], "valid": [4], "test": [6]}
    for part, counts in sizes.items():
        count = sum(counts)
        links, start = [], 0
        for size in counts:
            ring = [(start + i, start + (i + 1) % size) for i in range(size)]
            links += [{"source": a, "target": b} for a, b in ring] + [{"source": b, "target": a} for a, b in ring]
            start += size
        nodes = [{"id": node} for node in range(count)]
        graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
        (raw / f"{part}_graph.json").write_text(json.dumps(graph))
        np.save(raw / f"{part}_feats.npy", random.standard_normal((count, 50)))
        np.save(raw / f"{part}_labels.npy", random.integers(0, 2, (count, 121)))
        np.save(raw / f"{part}_graph_id.npy", np.repeat(np.arange(len(counts)) + 1, counts))
    mine = load("ppi", tmp_path / "data")
    nodes_ = mine.nodes
    assert nodes_.features is not None and nodes_.labels is not None and nodes_.split is not None
    assert [len(part) for part in (nodes_.split.train, nodes_.split.valid, nodes_.split.test)] == [12, 4, 6]
    (tmp_path / "pyg").mkdir()
    (tmp_path / "pyg" / "raw").symlink_to(raw)
    start, wanted = 0, set()
    for part in ("train", "val", "test"):
        for tissue in pyg.PPI(str(tmp_path / "pyg"), split=part):
            rows = slice(start, start + tissue.num_nodes)
            assert np.array_equal(nodes_.features.values[rows], tissue.x.numpy())
            assert np.array_equal(nodes_.labels.values[rows], tissue.y.numpy())
            wanted |= pairs(tissue.edge_index, start)
            start += tissue.num_nodes
    assert edges_of(mine) == wanted and start == nodes_.count


def compare(mine: Graph, theirs: Any) -> None:
    nodes = mine.nodes
    assert nodes.features is not None and nodes.labels is not None and nodes.split is not None
    assert np.array_equal(nodes.features.values, theirs.x.numpy())
    assert np.array_equal(nodes.labels.values, theirs.y.numpy())
    assert edges_of(mine) == pairs(theirs.edge_index)
    masks = (theirs.train_mask, theirs.val_mask, theirs.test_mask)
    for rows, mask in zip((nodes.split.train, nodes.split.valid, nodes.split.test), masks):
        assert np.array_equal(rows, np.flatnonzero(mask))


def test_flickr_reads_as_pyg_reads_it(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "Flickr" / "raw"
    raw.mkdir(parents=True)
    matrix = symmetric(50, 200)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(raw / "adj_full.npz", **parts)
    np.save(raw / "feats.npy", random.standard_normal((50, 500)))
    (raw / "class_map.json").write_text(json.dumps({str(i): i % 7 for i in range(50)}))
    (raw / "role.json").write_text(json.dumps({"tr": list(range(20)), "va": list(range(20, 30)), "te": [40, 41]}))
    (tmp_path / "pyg").mkdir()
    (tmp_path / "pyg" / "raw").symlink_to(raw)
    compare(load("flickr", tmp_path / "data"), pyg.Flickr(str(tmp_path / "pyg"))[0])


def test_reddit_streams_and_reads_as_pyg_reads_it(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "Reddit" / "raw"
    raw.mkdir(parents=True)
    features, labels = random.standard_normal((60, 602)).astype(np.float32), np.arange(60) % 41
    np.savez(raw / "reddit_data.npz", feature=features, label=labels, node_types=np.arange(60) % 3 + 1)
    scipy.sparse.save_npz(raw / "reddit_graph.npz", symmetric(60, 300).tocoo())
    (tmp_path / "pyg").mkdir()
    (tmp_path / "pyg" / "raw").symlink_to(raw)
    compare(load("reddit", tmp_path / "data"), pyg.Reddit(str(tmp_path / "pyg"))[0])
