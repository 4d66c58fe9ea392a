"""Needed rows in one go or some sources at a time: the same bytes; a damaged block is told."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.io import Place, put_rows
from gamlp.kernel import LANES, NUMPY_DTYPES, scale
from gamlp.propagation.blocks.hop import BlockHop
from gamlp.propagation.blocks.layout import Blocks, Needs
from tests.conformance import dense

COUNT, WIDTH = 90, 2 * LANES


def prepared(folder: Path, *, weighted: bool, directed: bool, blocks: int = 7) -> tuple[Needs, np.ndarray]:
    """A random graph with a hub and isolated nodes in blocks, and its dense matrix."""
    rng = np.random.default_rng(4)
    edges = np.concatenate([rng.integers(0, COUNT - 9, (2, 300)), np.stack([np.full(60, 5), np.arange(60)])], 1)
    edges = edges[:, edges[0] != edges[1]]
    weights = rng.uniform(0.5, 2, edges.shape[1]).astype(np.float32) if weighted else None
    graph = Graph.from_arrays(edges, count=COUNT, weights=weights, directed=directed).save(folder / "graph")
    needs = Needs(Blocks.of(graph, Place.of(folder / "graph"), blocks), Place.of(folder / "needs"))
    for index in needs.missing():
        needs.find(index)
    pairs = [(int(a), int(b)) for a, b in edges.T]
    return needs, dense.adjacency(COUNT, pairs, None if weights is None else weights.tolist(), directed=directed)


def stored(needs: Needs, folder: Path, values: np.ndarray, dtype: str) -> None:
    state = np.empty(values.shape, NUMPY_DTYPES[dtype])
    scale(values, "float32", state, dtype)
    for index in range(len(needs.blocks)):
        put_rows(Place.of(folder / f"{index}.npy"), state[needs.blocks.bounds[index] : needs.blocks.bounds[index + 1]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("some", [False, True], ids=["all rows", "some rows"])
def test_groups_of_sources_give_the_bytes_of_one_go(
    tmp_path: Path, weighted: bool, directed: bool, loops: bool, dtype: str, some: bool
) -> None:
    needs, matrix = prepared(tmp_path, weighted=weighted, directed=directed)
    values = np.random.default_rng(1).normal(size=(COUNT, WIDTH)).astype(np.float32)
    stored(needs, tmp_path, values, dtype)
    step = np.random.default_rng(2).uniform(0.2, 1, COUNT).astype(np.float32)
    tilde = matrix + np.eye(COUNT) if loops else matrix
    expected = step[:, None] * (tilde @ values)
    for index in range(len(needs.blocks)):
        begin, end = needs.blocks.bounds[index : index + 2]
        rows = np.arange(end - begin)[:: 3 if some else 1]
        found = {}
        for memory in (1 << 30, 0, 9000):
            dst = np.zeros((len(rows), WIDTH), NUMPY_DTYPES[dtype])
            hop = BlockHop(needs, index, rows, step[begin:end], loops, memory)
            lost, read = hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, dtype)
            assert lost == 0 and read > 0
            found[memory] = dst
        assert found[0].tobytes() == found[1 << 30].tobytes() == found[9000].tobytes()
        plain = np.empty(dst.shape, np.float32)
        scale(found[0], dtype, plain, "float32")
        limit = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype] * np.abs(expected).max()
        assert np.abs(plain - expected[begin:end][rows]).max() <= limit


def test_a_task_pulls_only_what_its_rows_need(tmp_path: Path) -> None:
    needs, matrix = prepared(tmp_path, weighted=False, directed=False)
    stored(needs, tmp_path, np.ones((COUNT, WIDTH), np.float32), "float32")
    for index in range(len(needs.blocks)):
        begin, end = needs.blocks.bounds[index : index + 2]
        step, dst = np.ones(end - begin, np.float32), np.zeros((1, WIDTH), np.float32)
        hop = BlockHop(needs, index, np.array([0]), step, True, 1 << 30)
        _, read = hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, "float32")
        outside = [other for other in np.flatnonzero(matrix[begin]) if not begin <= other < end]
        assert read == (end - begin + len(outside)) * WIDTH * 4


def test_a_block_of_another_shape_is_told(tmp_path: Path) -> None:
    needs, _ = prepared(tmp_path, weighted=False, directed=False)
    stored(needs, tmp_path, np.ones((COUNT, WIDTH), np.float32), "float32")
    put_rows(Place.of(tmp_path / "3.npy"), np.ones((2, WIDTH), np.float32))
    with pytest.raises(GamlpError, match=r"3\.npy: is no block of this hop; run the same command again"):
        for index in range(len(needs.blocks)):
            begin, end = needs.blocks.bounds[index : index + 2]
            dst = np.zeros((end - begin, WIDTH), np.float32)
            hop = BlockHop(needs, index, np.arange(end - begin), np.ones(end - begin, np.float32), True, 1 << 30)
            hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, "float32")


@pytest.mark.parametrize("blocks", [1, 2, 13, 500])
def test_blocks_hold_every_row_once_inside_the_files(tmp_path: Path, blocks: int) -> None:
    needs, matrix = prepared(tmp_path, weighted=False, directed=False, blocks=blocks)
    bounds = needs.blocks.bounds
    assert bounds[0] == 0 and bounds[-1] == COUNT and all(a < b for a, b in itertools.pairwise(bounds))
    assert len(needs.blocks) <= min(blocks, COUNT) and (blocks > 1) is (len(needs.blocks) > 1)
    for index in range(len(needs.blocks)):
        block = needs.blocks.csr(index)
        for row in range(block.start, block.stop):
            own = block.neighbours[block.offsets[row - block.start] : block.offsets[row - block.start + 1]]
            assert own.tolist() == np.flatnonzero(matrix[row]).tolist()
            needed, places = needs.read("needed", index), needs.read("places", index)
            assert np.array_equal(np.asarray(needed)[np.asarray(places)], block.neighbours)
