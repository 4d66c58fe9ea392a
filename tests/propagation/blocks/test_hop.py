"""Needed rows in one go or some sources at a time: the same bytes; a damaged block is told."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph
from gamlp.io import Place, even_ranges, put_rows
from gamlp.kernel import LANES, NUMPY_DTYPES, scale
from gamlp.propagation.blocks import sums
from gamlp.propagation.blocks.layout import Blocks, even_stops
from gamlp.propagation.blocks.needs import Needs, compact
from gamlp.propagation.blocks.sizing import least_blocks, state_row_bytes
from gamlp.propagation.blocks.sums import BlockHop
from tests.conformance import dense
from tests.watched_store import watched

COUNT, WIDTH, WIDE = 90, 2 * LANES, 12 * LANES


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
def test_slices_of_columns_and_groups_of_sources_give_the_bytes_of_one_go(
    tmp_path: Path, weighted: bool, directed: bool, loops: bool, dtype: str, some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all rows of the hop before give them too, that a worker keeps for its next block."""
    monkeypatch.setattr(sums, "_MOST", 0.0)
    goes = []
    monkeypatch.setattr(sums, "hop", lambda task, *ends, plain=sums.hop: goes.append(task) or plain(task, *ends))
    needs, matrix = prepared(tmp_path, weighted=weighted, directed=directed)
    values = np.random.default_rng(1).normal(size=(COUNT, WIDE)).astype(np.float32)
    stored(needs, tmp_path, values, dtype)
    step = np.random.default_rng(2).uniform(0.2, 1, COUNT).astype(np.float32)
    tilde = matrix + np.eye(COUNT) if loops else matrix
    expected = step[:, None] * (tilde @ values)
    for index in range(len(needs.blocks)):
        begin, end = needs.blocks.bounds[index : index + 2]
        rows = np.arange(end - begin)[:: 3 if some else 1]
        found, lines = [], -(-WIDE * np.dtype(NUMPY_DTYPES[dtype]).itemsize // 64)
        for at_a_time in (lines, 1, 2, 0):  # lines of 64 bytes of every row; none: sources come in groups
            dst = np.zeros((len(rows), WIDE), NUMPY_DTYPES[dtype])
            hop = BlockHop(needs, index, rows, step[begin:end], loops, 0)
            held = dst.nbytes + hop.places.nbytes + hop.offsets.nbytes
            hop.memory = held + at_a_time * 64 * (len(hop.needed) + len(rows))
            goes.clear()
            lost, read = hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, dtype)
            assert lost == 0 and read == len(hop.needed) * WIDE * dst.itemsize
            if at_a_time:
                assert [task.src.shape[1] * dst.itemsize for task in goes] == [
                    min(64 * at_a_time, dst.strides[0] - at) for at in range(0, dst.strides[0], 64 * at_a_time)
                ]
            else:
                assert goes[0].accumulate
            found.append(dst)
        found.append(np.zeros_like(dst))
        hop = BlockHop(needs, index, rows, step[begin:end], loops, 1 << 30, name=f"{tmp_path} {dtype}")
        assert hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), found[-1], dtype)[0] == 0
        assert len({each.tobytes() for each in found}) == 1
        plain = np.empty(dst.shape, np.float32)
        scale(found[0], dtype, plain, "float32")
        limit = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype] * np.abs(expected).max()
        assert np.abs(plain - expected[begin:end][rows]).max() <= limit


@pytest.mark.parametrize("weighted", [False, True])
def test_entries_are_sorted_by_groups_in_one_scan(
    tmp_path: Path, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many groups there are, entries are sorted by them once, and each is summed up once."""
    needs, _ = prepared(tmp_path, weighted=weighted, directed=False)
    values = np.random.default_rng(1).normal(size=(COUNT, WIDTH)).astype(np.float32)
    stored(needs, tmp_path, values, "float32")
    scans, summed = [], []
    plain_scan, plain_hop = sums.by_group, sums.hop

    def counted_scan(places: np.ndarray, lows: np.ndarray) -> Any:
        scans.append((len(places), len(lows)))
        return plain_scan(places, lows)

    def counted_hop(task: Any, begin: int, end: int) -> int:
        if task.accumulate:
            summed.append(len(task.neighbours))
            assert end == len(task.offsets) - 1 <= len(task.neighbours)  # pieces with an entry in this group alone
        return plain_hop(task, begin, end)

    monkeypatch.setattr(sums, "by_group", counted_scan)
    monkeypatch.setattr(sums, "hop", counted_hop)
    for index in range(len(needs.blocks)):
        scans.clear(), summed.clear()
        begin, end = needs.blocks.bounds[index : index + 2]
        entries, dst = int(needs.blocks.shape_of(index)[0][-1]), np.zeros((end - begin, WIDTH), np.float32)
        hop = BlockHop(needs, index, np.arange(end - begin), np.ones(end - begin, np.float32), False, 0)
        hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, "float32")
        assert scans == [(entries, len(needs.blocks))] and sum(summed) == entries


@pytest.mark.parametrize("weighted", [False, True])
def test_a_dense_block_is_summed_within_its_memory(tmp_path: Path, weighted: bool) -> None:
    """Blocks that `least_blocks` finds enough hold what it was told, and a few megabytes that do not grow with them."""
    count, edges = 4000, np.random.default_rng(0).integers(0, 4000, (2, 1_000_000))
    weights = np.random.default_rng(1).uniform(0.5, 2, edges.shape[1]).astype(np.float32) if weighted else None
    graph = Graph.from_arrays(edges, count=count, weights=weights, directed=True).save(tmp_path / "graph")
    entries, memory = graph.relation.entries, 16 << 20
    blocks = least_blocks(count, entries, state_row_bytes(LANES, "float32"), memory, weighted)
    needs = Needs(Blocks.of(graph, Place.of(tmp_path / "graph"), blocks), Place.of(tmp_path / "needs"))
    for index in needs.missing():
        needs.find(index)
    stored(needs, tmp_path, np.ones((count, LANES), np.float32), "float32")
    begin, end = needs.blocks.bounds[:2]
    dst, step = np.zeros((end - begin, LANES), np.float32), np.ones(end - begin, np.float32)
    tracemalloc.start()
    hop = BlockHop(needs, 0, np.arange(end - begin), step, True, memory)
    hop._in_groups(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, "float32", 1 << 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + dst.nbytes <= memory + (4 << 20)
    block = needs.blocks.csr(0)
    each = np.ones(block.entries) if block.weights is None else np.asarray(block.weights, np.float64)
    sums = np.add.reduceat(each, np.asarray(block.offsets[:-1])) + 1
    np.testing.assert_allclose(dst, np.repeat(sums[:, None], LANES, 1), rtol=1e-5)


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


def test_a_worker_pulls_a_hop_once_for_all_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks need most of its rows and these have room; never rows of another hop, or of another run."""
    needs, matrix = prepared(tmp_path, weighted=False, directed=False)
    state = COUNT * WIDTH * 4

    def read(name: str | None, value: float, memory: int = 1 << 30) -> int:
        stored(needs, tmp_path, np.full((COUNT, WIDTH), value, np.float32), "float32")
        pulled = 0
        for index in range(len(needs.blocks)):
            begin, end = needs.blocks.bounds[index : index + 2]
            dst, step = np.zeros((end - begin, WIDTH), np.float32), np.ones(end - begin, np.float32)
            hop = BlockHop(needs, index, np.arange(end - begin), step, True, memory, name=name)
            pulled += hop.run(lambda block: Place.of(tmp_path / f"{block}.npy"), dst, "float32")[1]
            np.testing.assert_allclose(dst[:, 0], value * (matrix[begin:end].sum(1) + 1), rtol=1e-5)
        return pulled

    each = sum(len(needs.read("needed", index)) for index in range(len(needs.blocks))) * WIDTH * 4
    assert each > state and read(None, 1.0) == each
    monkeypatch.setattr(sums, "_MOST", 1.01)
    assert read(f"{tmp_path} 1", 2.0) == each  # they need too few
    monkeypatch.setattr(sums, "_MOST", 0.0)
    assert read(f"{tmp_path} 1", 3.0) == state
    assert read(f"{tmp_path} 2", 4.0) == state
    assert read(f"{tmp_path} 3", 5.0, memory=state) == each


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_behind_a_url_only_wanted_rows_are_pulled(tmp_path: Path, dtype: str) -> None:
    """A thousandth of the rows is wanted, in clusters that lie apart: the bytes of a folder, and few are read."""
    count, width = 64_000, 4 * LANES
    hubs = np.arange(0, count, count // 16)
    edges = np.concatenate([np.stack([np.full(len(hubs), row), hubs + row]) for row in range(4)], 1)
    graph = Graph.from_arrays(edges, count=count, directed=True).save(tmp_path / "graph")
    needs = Needs(Blocks.of(graph, Place.of(tmp_path / "graph"), 40), Place.of(tmp_path / "needs"))
    for index in needs.missing():
        needs.find(index)
    index = max(range(len(needs.blocks)), key=lambda index: int(np.diff(needs.blocks.shape_of(index)[0]).max()))
    begin, end = needs.blocks.bounds[index : index + 2]
    values, url = np.random.default_rng(0).normal(size=(count, width)).astype(np.float32), f"memory://{tmp_path.name}"
    stored(needs, tmp_path, values, dtype)
    for block in range(len(needs.blocks)):
        (Place.of(url) / f"{block}.npy").put_file(tmp_path / f"{block}.npy")
    asked = np.flatnonzero(np.diff(needs.blocks.shape_of(index)[0]))[-1:]
    found, read = {}, {}
    for root in (str(tmp_path), url):
        for memory in (1 << 30, 200_000):
            hop = BlockHop(needs, index, asked, np.ones(end - begin, np.float32), False, memory)
            dst = np.zeros((len(asked), width), NUMPY_DTYPES[dtype])
            with watched() as watch:
                _, told = hop.run(lambda block, root=root: Place.of(root) / f"{block}.npy", dst, dtype)
            found[root, memory], read[root, memory] = dst.tobytes(), told
            assert watch.read == (told if root == url else 0)
    assert len(set(found.values())) == 1
    files = len(np.unique(np.searchsorted(needs.blocks.bounds, np.asarray(needs.read("needed", index)), "right")))
    row_bytes = width * np.dtype(NUMPY_DTYPES[dtype]).itemsize
    assert read[url, 1 << 30] <= read[str(tmp_path), 1 << 30] + files * (1024 + row_bytes) < count * row_bytes / 10
    Place.of(url).remove()


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


@pytest.mark.parametrize("count", [5000, 100_000_000])
def test_no_table_of_all_nodes_is_made_where_they_are_many(count: int) -> None:
    """What is needed of a hundred million nodes by a hundred rows is found with what these have room for."""
    rng = np.random.default_rng(0)
    offsets = np.arange(101) * 5
    neighbours = np.sort(rng.integers(0, count, (100, 5)).astype(np.int32)).reshape(-1)
    tracemalloc.start()
    needed, places = compact(Block(1000, 1100, offsets, neighbours), count)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert needed.tolist() == sorted({*neighbours.tolist(), *range(1000, 1100)})
    assert np.array_equal(needed[places], neighbours)


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


def test_behind_a_url_blocks_are_cut_by_entries_too(tmp_path: Path) -> None:
    """The rows of a folder, found by one task a file that reads offsets once, and holds few of them."""
    rng = np.random.default_rng(3)
    ends = np.minimum(rng.zipf(1.4, 6000) - 1, 2999)  # a few rows have most of the entries
    graph = Graph.from_arrays(np.stack([rng.integers(0, 3000, 6000), ends]), count=3000).save(tmp_path / "graph")
    root = Place.of(f"memory://{tmp_path.name}") / "graph"
    for path in (tmp_path / "graph").rglob("*"):
        if path.is_file():
            (root / path.relative_to(tmp_path / "graph").as_posix()).put_file(path)
    asked: list[tuple[str, tuple[int, ...]]] = []

    def run(work: Any, numbers: Sequence[int], stage: str) -> list[dict[str, Any]]:
        asked.append((stage, tuple(numbers)))
        return [work(number) for number in numbers]

    for wanted in (1, 2, 9, 200):
        here = Blocks.of(graph, Place.of(tmp_path / "graph"), wanted)
        with watched() as watch:
            there = Blocks.of(Graph.open(root), root, wanted, run)
        assert there.bounds == here.bounds
        assert watch.read < 3 * 3001 * 8 + (1 << 16)
        if wanted == 9:
            sizes = [there.csr(index).entries + there.bounds[index + 1] - there.bounds[index] for index in range(9)]
            heaviest = int(np.diff(np.asarray(graph.relation.blocks[0].offsets)).max())
            assert max(sizes) <= sum(sizes) / 9 + heaviest + 1
    assert asked == [("blocks", (0,))] * 3
    root.remove()


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_cuts_that_are_streamed_are_those_that_are_looked_up(step: int, parts: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(parts).integers(0, 9, 60) ** 2)])
    assert even_stops(offsets, parts, step) == [stop for _, stop in even_ranges(offsets, parts)]
