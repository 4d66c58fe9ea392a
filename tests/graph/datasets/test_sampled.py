"""PPI, Flickr and Reddit from fabricated raw files, against PyG's own processing of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.graph.datasets.loading import load
from tests.graph.datasets.raw_folders import write_flickr, write_ppi, write_reddit

pyg: Any = pytest.importorskip("torch_geometric.datasets")


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for rows, columns, _ in graph.relation.edges() for a, b in zip(rows, columns)}


def pairs(edge_index: Any, start: int = 0) -> set[tuple[int, int]]:
    return {(a + start, b + start) for a, b in edge_index.t().tolist() if a != b}


def test_ppi_is_one_disjoint_graph_with_many_labels(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "PPI" / "raw"
    write_ppi(raw)
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
    write_flickr(raw)
    (tmp_path / "pyg").mkdir()
    (tmp_path / "pyg" / "raw").symlink_to(raw)
    compare(load("flickr", tmp_path / "data"), pyg.Flickr(str(tmp_path / "pyg"))[0])


def test_reddit_streams_and_reads_as_pyg_reads_it(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "Reddit" / "raw"
    write_reddit(raw)
    (tmp_path / "pyg").mkdir()
    (tmp_path / "pyg" / "raw").symlink_to(raw)
    compare(load("reddit", tmp_path / "data"), pyg.Reddit(str(tmp_path / "pyg"))[0])


@pytest.mark.parametrize("folder", ["{name}/raw", "{name}", "{lower}"])
@pytest.mark.parametrize(("name", "write"), [("PPI", write_ppi), ("Flickr", write_flickr), ("Reddit", write_reddit)])
def test_a_folder_that_was_unpacked_by_hand_is_found(name: str, write: Any, folder: str, tmp_path: Path) -> None:
    """PyG makes <Name>/raw; who unpacks an archive does not."""
    write(tmp_path / folder.format(name=name, lower=name.lower()))
    assert load(name.lower(), tmp_path).nodes.count > 20
