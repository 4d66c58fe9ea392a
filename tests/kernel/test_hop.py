"""One hop and rows between storage types: bytes against plain numpy, misuse told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gamlp.kernel import BLOCK, NUMPY_DTYPES, HopTask, build_csr, hop, nonzero_rows, scale, window_bits
from gamlp.kernel.native import native

Array = np.ndarray[Any, Any]
STORAGES = ("float32", "float16", "bfloat16")
NODES, START, STOP = 40, 9, 31  # the block is a window of rows: node numbers and row numbers differ
# Vectors of 8: 1 to 13 fill one tile, up to 24 two, then three.
WIDTHS = [8 * vectors for vectors in (*range(1, 18), 24, 25, 26)]

pytestmark = pytest.mark.skipif(native() is None, reason="the C++ kernel was not built")


def widen(values: Array, storage: str) -> Array:
    if storage == "float16":
        return values.view(np.float16).astype(np.float32)
    if storage == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def narrow(values: Array, storage: str) -> Array:
    """Round to nearest even, by torch."""
    if storage == "float32":
        return values
    half = torch.from_numpy(values).to(getattr(torch, storage))
    return half.view(torch.int16).numpy().view(NUMPY_DTYPES[storage])


def make_task(
    width: int,
    storage: str = "float32",
    weighted: bool = False,
    factors: bool = True,
    loops: bool = True,
    seed: int = 0,
) -> HopTask:
    random = np.random.default_rng(seed)
    edges = random.integers(0, NODES, (2, 260))
    edges[0, :60] = START + 3  # a hub: more edges than are prefetched ahead
    weights = random.random(260, np.float32) if weighted else None
    offsets, neighbours, merged = build_csr(*edges, weights, start=START, stop=STOP, symmetric=False)
    return HopTask(
        offsets,
        neighbours,
        merged,
        random.uniform(0.1, 1.0, NODES).astype(np.float32) if factors else None,
        START,
        loops,
        narrow(random.normal(size=(NODES, width)).astype(np.float32), storage),
        np.full((NODES, width), 7, NUMPY_DTYPES[storage]),
        storage,
    )


def in_blocks(terms: list[Array], width: int) -> Array:
    """Σ terms: BLOCK summed by themselves, and these sums likewise, until one is left."""
    if len(terms) <= BLOCK:
        total = np.zeros(width, np.float32)
        for term in terms:
            total += term
        return total
    return in_blocks([in_blocks(terms[at : at + BLOCK], width) for at in range(0, len(terms), BLOCK)], width)


def by_loop(task: HopTask, begin: int, end: int) -> Array:
    """dst after the hop, every product and sum rounded to float32 in ascending order of the node, in blocks."""
    dst, src = task.dst.copy(), widen(task.src, task.storage)
    for position in range(begin, end):
        row = position if task.rows is None else int(task.rows[position]) - task.start
        node = task.start + row
        terms = {
            int(task.neighbours[e]): np.float32(1.0) if task.weights is None else task.weights[e]
            for e in range(task.offsets[row], task.offsets[row + 1])
        }
        if task.loops:
            terms[node] = np.float32(1.0)
        total = in_blocks([src[neighbour] * terms[neighbour] for neighbour in sorted(terms)], src.shape[1])
        if task.factors is not None:
            total *= task.factors[node]
        dst[position if task.rows is not None else node] = narrow(total, task.storage)
    return dst


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_hop_is_a_plain_loop_at_every_width(width: int, storage: str) -> None:
    for weighted in (False, True):
        expected = by_loop(make_task(width, storage, weighted), 0, STOP - START)
        for near in (False, True):
            task = replace(make_task(width, storage, weighted), near=near)
            assert hop(task, 0, STOP - START) == 0
            assert np.array_equal(task.dst, expected)


@pytest.mark.parametrize("baseline", [False, True], ids=["best loop", "baseline loop"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("factors", [False, True], ids=["", "factors"])
@pytest.mark.parametrize("loops", [False, True], ids=["", "loops"])
@pytest.mark.parametrize("some_rows", [False, True], ids=["", "rows"])
def test_a_hop_is_a_plain_loop_with_every_option(
    some_rows: bool, loops: bool, factors: bool, weighted: bool, baseline: bool
) -> None:
    task = make_task(24, "float32", weighted, factors, loops)
    count = STOP - START
    if some_rows:
        rows = np.array([9, 10, 12, 13, 20, 29, 30])
        task, count = replace(task, rows=rows, dst=np.zeros((len(rows), 24), np.float32)), len(rows)
    expected = by_loop(task, 0, count)
    hop(task, 0, count, baseline=baseline)
    assert np.array_equal(task.dst, expected)


def long_rows(storage: str, weighted: bool, width: int, lengths: list[int], loops: bool) -> HopTask:
    """Rows of given lengths in a graph of some more nodes; each has itself at another place among its neighbours."""
    random, count = np.random.default_rng(len(lengths)), max(lengths) + 40
    rows = [np.sort(random.choice(np.delete(np.arange(count), row), size, False)) for row, size in enumerate(lengths)]
    weights = random.random(sum(lengths), np.float32) if weighted else None
    factors = random.uniform(0.001, 0.002, count).astype(np.float32)
    src = narrow(random.normal(1.0, 1.0, size=(count, width)).astype(np.float32), storage)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = np.concatenate(rows).astype(np.int32)
    dst = np.zeros((count, width), NUMPY_DTYPES[storage])
    return HopTask(offsets, neighbours, weights, factors, 0, loops, src, dst, storage)


@pytest.mark.parametrize("loops", [False, True], ids=["", "loops"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize(("storage", "width"), [("float32", 8), ("float16", 136), ("bfloat16", 24)])
def test_long_rows_are_summed_in_blocks(storage: str, width: int, weighted: bool, loops: bool) -> None:
    near = [BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1]
    lengths = [0, 1, *near, 1000, BLOCK * BLOCK - 1, BLOCK * BLOCK, BLOCK * BLOCK + 1]
    best, baseline = (long_rows(storage, weighted, width, lengths, loops) for _ in range(2))
    expected = by_loop(best, 0, len(lengths))
    assert hop(best, 0, len(lengths)) == hop(baseline, 0, len(lengths), baseline=True) == 0
    assert best.dst.tobytes() == baseline.dst.tobytes() == expected.tobytes()


@pytest.mark.parametrize("baseline", [False, True], ids=["best loop", "baseline loop"])
@pytest.mark.parametrize("loops", [False, True], ids=["", "loops"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize(("storage", "width"), [("float32", 136), ("float16", 32), ("bfloat16", 8)])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_rows_of_zeros_are_left_out_and_the_bytes_stay(
    share: float, storage: str, width: int, weighted: bool, loops: bool, baseline: bool
) -> None:
    lengths = [*range(60), *[7] * 1200, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1400]  # several chunks of rows
    task = long_rows(storage, weighted, width, lengths, loops)
    task.src[np.random.default_rng(1).random(len(task.src)) >= share] = 0
    task.src[5] = narrow(np.full(width, -0.0, np.float32), storage)  # a zero all the same: either bit is right
    nonzero = nonzero_rows(task.src)
    without = replace(task, nonzero=nonzero, dst=np.full_like(task.dst, 7))
    hop(task, 0, len(lengths))
    assert hop(without, 0, len(lengths), baseline=baseline) == 0
    assert without.dst[: len(lengths)].tobytes() == task.dst[: len(lengths)].tobytes()
    minus = replace(without, nonzero=np.packbits(widen(task.src, storage).any(1), bitorder="little"))
    some = np.array([0, 3, 62, 1260, 1264])
    minus = replace(minus, rows=some, dst=np.full((5, width), 7, task.dst.dtype))
    assert hop(minus, 0, 5, baseline=baseline) == 0
    assert minus.dst.tobytes() == task.dst[some].tobytes()


@pytest.mark.parametrize("baseline", [False, True], ids=["best loop", "baseline loop"])
@pytest.mark.parametrize("loops", [False, True], ids=["", "loops"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("width", [8, 16, 24, 32])
def test_windows_give_the_bytes_of_a_plain_loop(
    width: int, storage: str, weighted: bool, loops: bool, baseline: bool
) -> None:
    lengths = [0, 1, 2, *range(60), BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 1400, 3]
    task = long_rows(storage, weighted, width, lengths, loops)
    expected = by_loop(task, 0, len(lengths))
    for bits in (5, 8, 20):  # 46 windows, six, one
        windowed = replace(task, window_bits=bits, dst=np.zeros_like(task.dst))
        assert hop(windowed, 0, len(lengths), baseline=baseline) == 0
        assert windowed.dst.tobytes() == expected.tobytes()


def test_windows_of_several_chunks_and_of_a_row_that_is_longer_than_a_chunk() -> None:
    random, count, hub = np.random.default_rng(0), 2_200_000, 70_000
    lengths = random.integers(0, 6, hub + 2)  # over 65,536 rows
    lengths[hub] = count - 1  # over 2^21 entries
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = random.integers(0, count, offsets[-1]).astype(np.int32)
    neighbours[offsets[hub] : offsets[hub + 1]] = np.delete(np.arange(count, dtype=np.int32), hub)
    for row in np.flatnonzero(lengths[:hub] > 1):
        neighbours[offsets[row] : offsets[row + 1]].sort()
    src = random.normal(size=(count, 8)).astype(np.float32)
    plain, windowed = (
        HopTask(
            offsets, neighbours, None, None, 0, True, src, np.zeros((len(lengths), 8), np.float32), window_bits=bits
        )
        for bits in (0, 17)
    )
    assert hop(plain, 0, len(lengths)) == hop(windowed, 0, len(lengths)) == 0
    assert windowed.dst.tobytes() == plain.dst.tobytes()
    assert np.allclose(plain.dst[hub], src.sum(0, dtype=np.float64), atol=0.05)


def test_windows_are_for_large_states_of_narrow_rows() -> None:
    def state(rows: int, columns: int) -> Array:
        return np.lib.stride_tricks.as_strided(np.zeros(columns, np.float32), (rows, columns), (0, 4))

    assert [window_bits(state(rows, 32)) for rows in (40, 25_000_000, 50_000_000)] == [0, 0, 23]  # 6.4 GB
    assert window_bits(state(50_000_000, 40)) == 0
    rows = 4_000_000_000
    assert (rows - 1 >> window_bits(state(rows, 32))) + 1 <= 64


def test_a_row_whose_bit_is_not_set_is_not_read() -> None:
    task = make_task(16, factors=False)
    task.src[:] = np.nan
    task.src[NODES // 2] = 1
    plain = replace(task, src=np.where(np.isnan(task.src), np.float32(0), task.src))
    expected = by_loop(plain, 0, STOP - START)
    hop(replace(task, nonzero=nonzero_rows(plain.src)), 0, STOP - START)
    assert np.array_equal(task.dst, expected) and (task.dst == 1).any()


@pytest.mark.parametrize("storage", STORAGES)
def test_bits_of_rows_tell_which_hold_anything(storage: str) -> None:
    values = np.zeros((21, 40), NUMPY_DTYPES[storage])
    values[[0, 7, 8, 20], [0, 15, 16, 31]] = 1
    assert np.flatnonzero(np.unpackbits(nonzero_rows(values), bitorder="little")).tolist() == [0, 7, 8, 20]
    assert np.flatnonzero(np.unpackbits(nonzero_rows(values[:, 8:24]), bitorder="little")).tolist() == [7, 8]
    assert nonzero_rows(values[:16]).tobytes() + nonzero_rows(values[16:]).tobytes() == nonzero_rows(values).tobytes()
    assert len(nonzero_rows(values[:0])) == 0


def test_every_length_keeps_its_digits() -> None:
    """A row of 2,200,000 neighbours fills three levels of sums of blocks; a plain sum is far off."""
    count = BLOCK**3 + 102_848
    src = np.random.default_rng(0).random((count, 8), np.float32)
    everyone, dst = np.arange(count, dtype=np.int32), np.zeros_like(src)
    hop(HopTask(np.array([0, count]), everyone, None, None, 0, False, src, dst), 0, 1)
    level = src
    while len(level) > 1:
        padded = np.concatenate([level, np.zeros((-len(level) % BLOCK, 8), np.float32)]).reshape(-1, BLOCK, 8)
        level = np.add.accumulate(padded, 1, dtype=np.float32)[:, -1]
    assert dst[0].tobytes() == level[0].tobytes()
    exact, plain = src.sum(0, dtype=np.float64), np.add.accumulate(src, 0, dtype=np.float32)[-1]
    assert np.abs(dst[0] / exact - 1).max() < 1e-6 < np.abs(plain / exact - 1).max()


def summed_in_blocks(values: Any, block: int) -> np.float32:
    """Sums of blocks, and sums of these, all in float32 and in order."""
    while len(values) > 1:
        padded = np.concatenate([values, np.zeros(-len(values) % block, np.float32)]).reshape(-1, block)
        values = np.add.accumulate(padded, 1, dtype=np.float32)[:, -1]
    return np.float32(values[0])


def test_a_hub_of_a_million_leaves_is_their_mean() -> None:
    count = 10**6
    leaves = np.arange(1, count + 1, dtype=np.int32)
    src = np.full((count + 1, 8), 0.1, np.float32)
    task = HopTask(
        np.array([0, count]), leaves, None, np.array([1 / (count + 1)], np.float32), 0, True, src, np.zeros_like(src)
    )
    hop(task, 0, 1)
    assert np.abs(task.dst[0] - 0.1).max() < 3e-7  # a plain sum gives 0.10096
    assert BLOCK == 128 and 1e-6 < abs(summed_in_blocks(src[1:, 0], 1024) / np.float32(count + 1) - 0.1) < 2e-6


def test_a_range_of_rows_leaves_the_others_alone() -> None:
    task = make_task(16)
    expected = by_loop(task, 5, 11)
    hop(task, 5, 11)
    assert np.array_equal(task.dst, expected)
    assert (task.dst[: START + 5] == 7).all() and (task.dst[START + 11 :] == 7).all()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("width", [8, 104, 112, 208])
def test_the_baseline_loop_gives_the_same_bytes(storage: str, width: int) -> None:
    best, plain = (make_task(width, storage, weighted=True, seed=3) for _ in range(2))
    hop(best, 0, STOP - START)
    hop(plain, 0, STOP - START, baseline=True)
    assert best.dst.tobytes() == plain.dst.tobytes()


@pytest.mark.parametrize("storage", STORAGES)
def test_matrices_may_be_columns_of_wider_ones(storage: str) -> None:
    task = make_task(48, storage)
    wide_src, wide_dst = np.zeros((NODES, 80), NUMPY_DTYPES[storage]), np.full((NODES, 64), 9, NUMPY_DTYPES[storage])
    wide_src[:, 16:64] = task.src
    strided = replace(task, src=wide_src[:, 16:64], dst=wide_dst[:, 8:56])
    hop(task, 0, STOP - START)
    hop(strided, 0, STOP - START)
    assert np.array_equal(strided.dst[START:STOP], task.dst[START:STOP])
    assert (wide_dst[:, :8] == 9).all() and (wide_dst[:, 56:] == 9).all()


@pytest.mark.parametrize("baseline", [False, True])
def test_sums_beyond_float16_are_counted(baseline: bool) -> None:
    task = make_task(8, "float16", factors=False)
    src = np.zeros((NODES, 8), np.float16)
    src[:, 2] = 60_000.0
    task = replace(task, src=src.view(np.uint16))
    crowded = sum(1 for row in range(STOP - START) if task.offsets[row + 1] > task.offsets[row])
    assert hop(task, 0, STOP - START, baseline=baseline) == crowded > 0
    assert hop(replace(make_task(8, "bfloat16"), src=narrow(src.astype(np.float32), "bfloat16")), 0, 22) == 0


TINY = np.array([2.0**-25, -(2.0**-25), 2.0**-26, 1e-9, 0.0, -0.0, 6e-8, 2.9802326e-08, 1.0], np.float32)


@pytest.mark.parametrize("baseline", [False, True])
def test_values_that_become_zero_above_their_floor_are_counted(baseline: bool) -> None:
    """2^-25 ties to zero and the next number does not; zeros of both signs are no loss."""
    into = np.zeros((2, 9), np.uint16)
    values = np.stack([TINY, TINY])

    def lost(storage: str = "float16", **floors: Array) -> int:
        return scale(values, "float32", into, storage, baseline=baseline, **floors)

    assert lost() == 0
    assert lost(row_floors=np.zeros(2, np.float32)) == 8
    assert (into.view(np.float16) == 0).sum() == 12
    assert lost(column_floors=np.zeros(9, np.float32)) == 8
    assert lost(row_floors=np.array([0, 1e-8], np.float32)) == 4 + 3
    assert lost(row_floors=np.array([1, 2], np.float32), column_floors=np.full(9, 1e-8, np.float32)) == 3 + 2
    assert lost("bfloat16", row_floors=np.zeros(2, np.float32)) == 0
    values[:] = 1e-41
    assert lost("bfloat16", row_floors=np.zeros(2, np.float32)) == 18


@pytest.mark.parametrize("baseline", [False, True])
def test_sums_that_become_zero_are_counted(baseline: bool) -> None:
    task = make_task(16, "float16", factors=False)
    factors = np.full(NODES, 2.0**-24, np.float32)
    task = replace(task, src=np.full((NODES, 16), 2.0**-3, np.float16).view(np.uint16), factors=factors)
    # A row of m entries is m 2^-27: up to four of them become zero.
    few = sum(1 for row in range(STOP - START) if 0 < task.offsets[row + 1] - task.offsets[row] + 1 <= 4)
    assert hop(task, 0, STOP - START, baseline=baseline) == 0
    assert hop(replace(task, floors=np.zeros(NODES, np.float32)), 0, STOP - START, baseline=baseline) == 16 * few > 0
    assert hop(replace(task, floors=np.ones(NODES, np.float32)), 0, STOP - START, baseline=baseline) == 0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        pytest.param(
            lambda t: replace(t, src=t.src[:, :12], dst=t.dst[:, :12]),
            "src has 12 columns and dst has 12: they must have as many, a multiple of 8",
            id="width not of 8",
        ),
        pytest.param(
            lambda t: replace(t, dst=np.zeros((NODES, 24), np.float32)),
            "src has 16 columns and dst has 24: they must have as many",
            id="other width of dst",
        ),
        pytest.param(
            lambda t: replace(t, dst=t.dst[: STOP - 1]), "dst has 30 rows, and 31 are written", id="too few rows of dst"
        ),
        pytest.param(
            lambda t: replace(t, src=t.src[: STOP - 1]),
            "src has 30 rows, and the block ends at 31",
            id="too few rows of src",
        ),
        pytest.param(
            lambda t: replace(t, storage="float16"),
            "src holds float32, which cannot be read as float16",
            id="storage of another size",
        ),
        pytest.param(
            lambda t: replace(t, factors=t.factors[: STOP - 1]),
            "there are 30 factors, and the block ends at 31",
            id="too few factors",
        ),
        pytest.param(
            lambda t: replace(t, floors=np.zeros(STOP - 1, np.float32)),
            "there are 30 floors, and the block ends at 31",
            id="too few floors",
        ),
        pytest.param(
            lambda t: replace(t, nonzero=np.zeros(4, np.uint8)),
            "there are bits of 32 rows, and src has 40",
            id="too few bits",
        ),
        pytest.param(
            lambda t: replace(t, nonzero=np.zeros(5, np.uint8), accumulate=True),
            "sums that begin with what dst holds do not leave out zero rows",
            id="bits and sums that go on",
        ),
        pytest.param(
            lambda t: replace(t, window_bits=3, accumulate=True),
            "windows are for all rows",
            id="windows and sums that go on",
        ),
        pytest.param(
            lambda t: replace(t, src=np.zeros((1000, 16), np.float32), window_bits=3),
            r"2\^3 rows make 125 windows, and there may be 64",
            id="too many windows",
        ),
        pytest.param(
            lambda t: replace(t, weights=np.ones(3, np.float32)),
            r"there are 3 weights for \d+ neighbours",
            id="too few weights",
        ),
        pytest.param(
            lambda t: replace(t, src=t.src.T, dst=t.dst.T),
            "columns of src must lie side by side, not 16 apart",
            id="columns apart",
        ),
        pytest.param(
            lambda t: replace(t, rows=np.array([START, START + 1])),
            r"rows 0\.\.22 are not among the 2 rows there are",
            id="fewer rows than asked for",
        ),
    ],
)
def test_misuse_of_a_hop_raises(wrong: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hop(wrong(make_task(16)), 0, STOP - START)


def test_torch_sums_in_the_kernels_blocks() -> None:
    module = native()
    assert module is not None and module.block == BLOCK


def test_a_hop_takes_its_arguments_by_name() -> None:
    module, task = native(), make_task(16)
    assert module is not None
    with pytest.raises(TypeError):
        module.hop(task.offsets, task.neighbours, None, None, None, START, 0, 2, True, task.src, task.dst, 0)


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (0, STOP - START + 1)])
def test_a_range_outside_the_block_raises(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="rows"):
        hop(make_task(16), begin, end)


@pytest.mark.parametrize("rows", [[START - 1, START], [START, STOP], [START, 2**62]])
def test_rows_outside_the_block_raise(rows: list[int]) -> None:
    task = replace(make_task(16), rows=np.array(rows), dst=np.zeros((2, 16), np.float32))
    with pytest.raises(IndexError, match="outside the block"):
        hop(task, 0, 2)


def special_values(storage: str) -> Array:
    """Bits of a storage type that conversions get wrong: subnormals, ties, the largest, infinities, both zeros."""
    if storage != "float32":
        return np.arange(2**16, dtype=np.uint16)[~np.isnan(widen(np.arange(2**16, dtype=np.uint16), storage))]
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[1:] + halves[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    brains = (np.arange(0x7F80, dtype=np.uint32) << 16 | 0x8000).view(np.float32)  # halfway between two bfloat16
    more = [65504, 65519.996, 65520, 65536, 1e38, 3.4028235e38, 1e-45, 5.9e-8, 2.98e-8, 2.9802322e-8, 6e-39, 0, np.inf]
    values = np.concatenate([halves, ties, *beside, brains, np.array(more, np.float32)])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("baseline", [False, True], ids=["best loop", "baseline loop"])
@pytest.mark.parametrize("into", STORAGES)
@pytest.mark.parametrize("storage", STORAGES)
def test_every_value_is_converted_as_torch_does(storage: str, into: str, baseline: bool) -> None:
    values = special_values(storage)
    values = values[: len(values) // 13 * 13].reshape(-1, 13)  # 13: one vector of eight and a rest of five
    expected = narrow(widen(values, storage), into)
    found = np.zeros(values.shape, NUMPY_DTYPES[into])
    lost = scale(values, storage, found, into, baseline=baseline)
    assert found.tobytes() == expected.tobytes()
    assert lost == (~np.isfinite(widen(expected, into))).sum() > 0


@pytest.mark.parametrize("into", ["float16", "bfloat16"])
@pytest.mark.parametrize("baseline", [False, True])
def test_not_a_number_stays_so(into: str, baseline: bool) -> None:
    found = np.zeros((1, 9), np.uint16)
    lost = scale(np.full((1, 9), np.nan, np.float32), "float32", found, into, baseline=baseline)
    assert np.isnan(widen(found, into)).all()
    assert lost == 9


@pytest.mark.parametrize("width", [1, 5, 7, 8, 9, 16, 23, 100])
@pytest.mark.parametrize("into", STORAGES)
@pytest.mark.parametrize("storage", STORAGES)
def test_rows_are_picked_and_multiplied(storage: str, into: str, width: int) -> None:
    random = np.random.default_rng(width)
    values = narrow(random.normal(size=(30, width)).astype(np.float32), storage)
    rows = random.integers(0, 30, 50)  # any order, with repeats
    by_row, by_column = random.random(50, np.float32), random.random(width, np.float32)
    options = {
        "plain": ({}, widen(values, storage)),
        "rows": ({"rows": rows}, widen(values, storage)[rows]),
        "row factors": ({"row_factors": by_row[:30]}, widen(values, storage) * by_row[:30, None]),
        "column factors": ({"column_factors": by_column}, widen(values, storage) * by_column),
        "all": (
            {"rows": rows, "row_factors": by_row, "column_factors": by_column},
            widen(values, storage)[rows] * by_row[:, None] * by_column,
        ),
    }
    for name, (given, expected) in options.items():
        for baseline in (False, True):
            around = np.full((len(expected), width + 4), 9, NUMPY_DTYPES[into])
            assert scale(values, storage, around[:, 2:-2], into, **given, baseline=baseline) == 0
            assert np.array_equal(around[:, 2:-2], narrow(expected, into)), name
            assert (around[:, :2] == 9).all() and (around[:, -2:] == 9).all(), name


def test_values_may_be_multiplied_in_place() -> None:
    values = np.arange(60, dtype=np.float32).reshape(6, 10)
    expected = values * np.float32(0.5)
    scale(values, "float32", values, "float32", row_factors=np.full(6, 0.5, np.float32))
    assert np.array_equal(values, expected)


@pytest.mark.parametrize(
    "given",
    [
        {"dst": np.zeros((4, 9), np.float32)},
        {"dst": np.zeros((5, 8), np.float32)},
        {"dst": np.zeros((4, 8), np.uint16)},
        {"src": np.zeros((4, 8), np.float64)},
        {"rows": np.arange(3)},
        {"row_factors": np.ones(3, np.float32)},
        {"column_factors": np.ones(9, np.float32)},
        {"row_floors": np.ones(3, np.float32)},
        {"column_floors": np.ones(9, np.float32)},
    ],
    ids=lambda given: f"{next(iter(given))} {next(iter(given.values())).dtype} {next(iter(given.values())).shape}",
)
def test_misuse_of_scale_raises(given: dict[str, Array]) -> None:
    src, dst = given.pop("src", np.zeros((4, 8), np.float32)), given.pop("dst", np.zeros((4, 8), np.float32))
    with pytest.raises((ValueError, TypeError)):
        scale(src, "float32", dst, "float32", **given)


@pytest.mark.parametrize("rows", [[0, 1, 2, 4], [-1, 0, 1, 2], [0, 2**62, 1, 2]])
def test_rows_that_are_not_in_the_source_raise(rows: list[int]) -> None:
    src, dst = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)
    with pytest.raises(IndexError, match="rows"):
        scale(src, "float32", dst, "float32", rows=np.array(rows))
