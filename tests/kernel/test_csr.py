"""Edge list → CSR, against a dictionary and against scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.kernel import add_up, build_csr, instructions, spread_rows
from gamlp.kernel.csr import _build_with_numpy

Array = np.ndarray[Any, Any]
Built = tuple[Array, Array, Array | None]


@dataclass(frozen=True)
class EdgeList:
    rows: Array
    columns: Array
    weights: Array | None
    start: int
    stop: int
    symmetric: bool
    drop_loops: bool

    def built(self, threads: int | None = None) -> Built:
        return build_csr(
            self.rows,
            self.columns,
            self.weights,
            start=self.start,
            stop=self.stop,
            symmetric=self.symmetric,
            drop_loops=self.drop_loops,
            threads=threads,
        )


@st.composite
def edge_lists(draw: st.DrawFn) -> EdgeList:
    """Few nodes, so that duplicates, reversed duplicates and loops are common; a window of rows."""
    count = draw(st.integers(1, 12))
    node = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=50))
    edges = np.array(pairs, draw(st.sampled_from([np.int32, np.int64]))).reshape(-1, 2)
    weights = None
    if draw(st.booleans()):  # sixteenths: sums are exact whatever their order
        weights = np.array([draw(st.integers(0, 64)) / 16 for _ in pairs], np.float32)
    start = draw(st.integers(0, count))
    stop = draw(st.integers(start, count))
    return EdgeList(edges[:, 0], edges[:, 1], weights, start, stop, draw(st.booleans()), draw(st.booleans()))


def by_dictionary(edges: EdgeList) -> Built:
    table: dict[int, dict[int, float]] = {row: {} for row in range(edges.start, edges.stop)}
    for position, (row, column) in enumerate(zip(edges.rows.tolist(), edges.columns.tolist())):
        if edges.drop_loops and row == column:
            continue
        for r, c in [(row, column), (column, row)] if edges.symmetric else [(row, column)]:
            if r in table:
                weight = 1.0 if edges.weights is None else float(edges.weights[position])
                table[r][c] = table[r].get(c, 0.0) + weight
    lists = [sorted(neighbours.items()) for neighbours in table.values()]
    flat = [item for neighbours in lists for item in neighbours]
    return (
        np.cumsum([0, *(len(neighbours) for neighbours in lists)]),
        np.array([column for column, _ in flat], np.int32),
        None if edges.weights is None else np.array([weight for _, weight in flat], np.float32),
    )


def same(one: Built, other: Built) -> bool:
    pairs = list(zip(one, other))
    if any((a is None) != (b is None) for a, b in pairs):
        return False
    return all(a is None or (a.dtype == b.dtype and np.array_equal(a, b)) for a, b in pairs)


@settings(max_examples=150, deadline=None)
@given(edges=edge_lists())
def test_csr_is_what_a_dictionary_gives(edges: EdgeList) -> None:
    found = edges.built()
    assert [None if part is None else part.dtype for part in found] == [
        np.int64,
        np.int32,
        None if edges.weights is None else np.float32,
    ]
    assert same(found, by_dictionary(edges))


@settings(max_examples=60, deadline=None)
@given(edges=edge_lists())
def test_numpy_builds_the_same_arrays_as_the_kernel(edges: EdgeList) -> None:
    fallback = _build_with_numpy(
        edges.rows, edges.columns, edges.weights, edges.start, edges.stop, edges.symmetric, edges.drop_loops
    )
    assert same(fallback, edges.built())


@settings(max_examples=40, deadline=None)
@given(edges=edge_lists())
def test_the_width_of_the_input_does_not_matter(edges: EdgeList) -> None:
    other = np.int64 if edges.rows.dtype == np.int32 else np.int32
    widened = EdgeList(edges.rows.astype(other), edges.columns.astype(other), *list(vars(edges).values())[2:])
    assert same(widened.built(), edges.built())


@pytest.mark.parametrize("weighted", [False, True])
def test_any_number_of_threads_builds_the_same_arrays(weighted: bool) -> None:
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, 5000, (2, 120_000))
    weights = random.random(120_000, np.float32) if weighted else None  # rounding would tell another order of adding
    edges = EdgeList(rows, columns, weights, 0, 5000, True, True)
    alone = edges.built(threads=1)
    assert all(same(alone, edges.built(threads=threads)) for threads in (2, 3, 4))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_million_edges_are_as_scipy_has_them(weighted: bool) -> None:
    random = np.random.default_rng(1)
    count, nodes = 1_000_000, 60_000
    # A power law, so that some rows hold thousands of entries and many none.
    rows, columns = (nodes * random.random((2, count)) ** 3).astype(np.int32)
    values = random.random(count, np.float32) if weighted else np.ones(count, np.float32)
    offsets, neighbours, weights = build_csr(
        rows, columns, values if weighted else None, start=0, stop=nodes, symmetric=True
    )
    apart = rows != columns
    forth = scipy.sparse.coo_matrix((values[apart].astype(np.float64), (rows[apart], columns[apart])), (nodes, nodes))
    expected = (forth + forth.T).tocsr()
    expected.sort_indices()
    assert np.array_equal(offsets, expected.indptr)
    assert np.array_equal(neighbours, expected.indices)
    assert (weights is None) == (not weighted)
    if weights is not None:
        assert np.allclose(weights, expected.data, rtol=1e-6, atol=0)


def test_a_window_of_rows_is_a_slice_of_the_whole() -> None:
    random = np.random.default_rng(2)
    rows, columns = random.integers(0, 3000, (2, 40_000))
    offsets, neighbours, _ = build_csr(rows, columns, start=0, stop=3000, symmetric=True)
    part_offsets, part_neighbours, _ = build_csr(rows, columns, start=700, stop=1900, symmetric=True)
    assert np.array_equal(part_offsets, offsets[700:1901] - offsets[700])
    assert np.array_equal(part_neighbours, neighbours[offsets[700] : offsets[1900]])


def test_no_edges_give_empty_rows() -> None:
    nothing = np.zeros(0, np.int64)
    offsets, neighbours, weights = build_csr(nothing, nothing, start=0, stop=3, symmetric=True)
    assert offsets.tolist() == [0, 0, 0, 0] and len(neighbours) == 0 and weights is None


def test_the_largest_node_number_is_kept_and_more_nodes_are_refused() -> None:
    far = np.array([2**31 - 2])
    _, neighbours, _ = build_csr(np.array([0]), far, start=0, stop=1, symmetric=False)
    assert neighbours.tolist() == [2**31 - 2]
    offsets, neighbours, _ = build_csr(far, np.array([5]), start=2**31 - 3, stop=2**31 - 1, symmetric=False)
    assert offsets.tolist() == [0, 0, 1] and neighbours.tolist() == [5]
    with pytest.raises(GamlpError, match="2147483648 nodes are more than this format holds"):
        build_csr(far, far, start=0, stop=2**31, symmetric=False)


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        build_csr(np.arange(3), np.arange(2), start=0, stop=3, symmetric=False)
    with pytest.raises(ValueError, match="differ in length"):
        build_csr(np.arange(3), np.arange(3), np.ones(2, np.float32), start=0, stop=3, symmetric=False)


@pytest.mark.parametrize("weighted", [False, True])
def test_add_up_is_a_plain_loop(weighted: bool) -> None:
    random = np.random.default_rng(4)
    places = random.integers(0, 50, 1000).astype(np.int32)
    weights = random.random(1000, dtype=np.float32) if weighted else None
    sums = np.ones(60)
    expected = np.ones(60)
    for index, place in enumerate(places):
        expected[place] += 1.0 if weights is None else float(weights[index])
    add_up(places, weights, sums)
    assert np.abs(sums - expected).max() < 1e-12


def test_add_up_never_writes_outside() -> None:
    if instructions() == "torch":
        pytest.skip("the kernel is absent")
    with pytest.raises(IndexError, match="outside"):
        add_up(np.array([0, -1], np.int32), None, np.zeros(3))


@pytest.mark.parametrize("wrong", [-1, 2**31 - 1, 2**40])
@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_any_thread_reaches_the_caller(wrong: int, threads: int) -> None:
    """The last edge is read by the last thread: an exception that left it there would end the process."""
    rows, columns = np.arange(1000), np.arange(1000) + 1
    columns[-1] = wrong
    sentence = f"neighbour {wrong} is not a node number from 0 to 2147483646"
    with pytest.raises(ValueError, match=sentence):
        build_csr(rows, columns, start=0, stop=1000, symmetric=False, threads=threads)
    with pytest.raises(ValueError, match=sentence):
        _build_with_numpy(rows, columns, None, 0, 1000, False, True)


@pytest.mark.parametrize("with_kernel", [True, False])
@settings(max_examples=100, deadline=None)
@given(edges=edge_lists(), width=st.integers(1, 13))
def test_edges_by_range_of_rows_keep_their_order(with_kernel: bool, edges: EdgeList, width: int) -> None:
    """Of range k: the entries whose row is in [k width, (k + 1) width), both ways of an edge one after the other."""
    entries = []
    for place, (row, column) in enumerate(zip(edges.rows.tolist(), edges.columns.tolist())):
        weight = None if edges.weights is None else float(edges.weights[place])
        entries += [(row, column, weight), *([(column, row, weight)] if edges.symmetric else [])]
    with pytest.MonkeyPatch.context() as patch:
        if not with_kernel:
            patch.setattr("gamlp.kernel.csr.native", lambda: None)
        options = {"symmetric": edges.symmetric, "width": width, "count": -(-12 // width)}
        begin, rows, columns, weights = spread_rows(edges.rows, edges.columns, edges.weights, **options)
    assert (weights is None) == (edges.weights is None) and rows.dtype == columns.dtype == np.int32
    values = [None] * len(rows) if weights is None else weights.tolist()
    found = list(zip(rows.tolist(), columns.tolist(), values))
    for k in range(options["count"]):
        expected = [entry for entry in entries if k * width <= entry[0] < (k + 1) * width]
        assert found[begin[k] : begin[k + 1]] == expected


@pytest.mark.parametrize("rows", [[0, 6], [-1, 2], [2**31 - 1, 0]])
def test_a_row_that_is_in_no_range_is_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="in no range"):
        spread_rows(np.array(rows, np.int32), np.zeros(2, np.int32), None, symmetric=False, width=3, count=2)


def test_ranges_are_exact_at_the_ends_of_int32() -> None:
    rows = np.array([0, 2**31 - 2, 715_827_881, 715_827_882, 715_827_883], np.int32)
    width = 715_827_882
    begin, found, _, _ = spread_rows(rows, rows, None, symmetric=False, width=width, count=4)
    assert np.array_equal(np.repeat(np.arange(4), np.diff(begin)), found // width)
