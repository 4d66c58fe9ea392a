"""Ids → rows, against a dictionary: the hash table of the kernel and what stands in for it."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.kernel import id_table
from gamlp.kernel import ids as module
from gamlp.kernel.ids import _ArrowStrings, _HashedIntegers, _HashedStrings, _parts, _SortedIntegers
from gamlp.kernel.native import native

Make = Callable[[Any], Any]
LEAST, MOST = -(2**63), 2**63 - 1

# Lengths around those where the hash reads differently (4, 8, 16 bytes), embedded NULs, and all of unicode.
few_letters = st.text("ab\0é", max_size=34)
texts = st.one_of(few_letters, st.text(max_size=6), few_letters.map(lambda text: text * 50))
integers = st.one_of(st.integers(LEAST, MOST), st.integers(-4, 4), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
kinds = st.sampled_from([pa.string(), pa.large_string()])


def dictionary(ids: Sequence[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for row, value in enumerate(ids):
        found.setdefault(value, row)
    return found


def check(table: Any, ids: Sequence[Any], queries: Sequence[Any], array: Make) -> None:
    first = dictionary(ids)
    found = table.rows(array(queries))
    assert found.dtype == np.int32
    assert found.tolist() == [first.get(value, -1) for value in queries]
    assert table.rows(array(ids)).tolist() == [first[value] for value in ids]
    firsts = table.first_rows()
    if len(first) == len(ids):
        assert firsts is None
    else:
        assert firsts.tolist() == [first[value] for value in ids]


def sliced(values: Sequence[str | None], before: Sequence[str], kind: pa.DataType) -> Any:
    """The values with others around them in the same buffers."""
    return pa.array([*before, *values, *before], kind).slice(len(before), len(values))


@pytest.mark.parametrize("make", [_HashedStrings, _ArrowStrings])
@settings(max_examples=150, deadline=None)
@given(ids=st.lists(texts, max_size=150), others=st.lists(texts, max_size=8), kind=kinds, query_kind=kinds)
def test_strings_are_found_as_a_dictionary_finds_them(
    make: Make, ids: list[str], others: list[str], kind: pa.DataType, query_kind: pa.DataType
) -> None:
    table = make(sliced(ids, others, kind))
    check(table, ids, [*others, *ids[::-1]], lambda values: sliced(values, others[:3], query_kind))


@pytest.mark.parametrize("make", [_HashedIntegers, _SortedIntegers])
@settings(max_examples=150, deadline=None)
@given(ids=st.lists(integers, max_size=150), others=st.lists(integers, max_size=8))
def test_integers_are_found_as_a_dictionary_finds_them(make: Make, ids: list[int], others: list[int]) -> None:
    def array(values: Sequence[int]) -> Any:
        return np.array(values, np.int64)

    check(make(array(ids)), ids, [*others, *ids[::-1]], array)


@pytest.mark.parametrize("make", [_HashedIntegers, _SortedIntegers])
def test_integers_may_lie_apart(make: Make) -> None:
    wide = np.arange(20).reshape(10, 2)
    wide.setflags(write=False)
    assert make(wide[:, 1]).rows(wide[:, 1]).tolist() == list(range(10))


@pytest.mark.parametrize("make", [_HashedStrings, _ArrowStrings])
def test_a_null_is_unknown_whatever_bytes_it_covers(make: Make) -> None:
    whole = pa.array(["a", "b", "c"], pa.large_string())
    _, offsets, data = whole.buffers()
    null_b = pa.Array.from_buffers(pa.large_string(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    assert null_b.null_count == 1
    table = make(pa.array(["", "c", "b", "a"]))
    assert table.rows(null_b).tolist() == [3, -1, 1]
    assert table.rows(null_b.slice(1)).tolist() == [-1, 1]
    assert table.rows(pa.nulls(2, pa.large_string())).tolist() == [-1, -1]


def test_null_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        id_table(pa.array(["a", None]))


@pytest.mark.parametrize(
    "wrong", [[0, 1, 4], [0, 3, 2], [-1, 1, 2], [0, MOST, 3], [2, 1, 3], [LEAST, 0, 1], [0, 1, MOST]]
)
def test_offsets_that_lead_out_of_the_data_are_refused(wrong: list[int]) -> None:
    """Some of these Arrow itself would not make an array of."""
    kernel: Any = native()
    offsets, data = np.array(wrong), np.frombuffer(b"abc", np.uint8)
    with pytest.raises(ValueError, match="offset"):
        kernel.StringIds(offsets, data)
    table = kernel.StringIds(np.array([0, 1]), data)
    with pytest.raises(ValueError, match="offset"):
        table.rows(offsets, data)
    with pytest.raises(ValueError, match="offset"):
        table.rows(offsets[:0], data)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_damaged_array_is_refused(kind: pa.DataType) -> None:
    offsets = np.array([0, 1000, 3], np.int32 if kind == pa.string() else np.int64)
    damaged = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="offset"):
        _HashedStrings(damaged)
    with pytest.raises(ValueError, match="offset"):
        _HashedStrings(pa.array(["a"])).rows(damaged)


def test_too_few_offsets_are_refused() -> None:
    short = type("Short", (), {"offset": 0, "__len__": lambda _: 9, "cast": lambda self, _: self})()
    short.buffers = pa.array(["a", "b"], pa.large_string()).buffers
    with pytest.raises(ValueError, match="fewer offsets"):
        _parts(short)


def test_buffers_at_odd_places() -> None:
    """Files that were not written by Arrow's own library may have them."""
    whole = pa.array([f"id {i}" for i in range(100)], pa.large_string())
    _, offsets, data = whole.buffers()
    moved = [None, *(pa.py_buffer(b"x" + part.to_pybytes()).slice(1) for part in (offsets, data))]
    odd = pa.Array.from_buffers(pa.large_string(), 100, moved)
    assert _HashedStrings(odd).rows(odd).tolist() == list(range(100))


def test_long_strings_are_kept_and_not_copied() -> None:
    ids = pa.array([f"the node with number {i}" for i in range(20_000)], pa.large_string())
    data = np.frombuffer(ids.buffers()[2], np.uint8)
    assert np.shares_memory(_parts(ids)[1], data)
    short = ids.cast(pa.string())
    assert np.shares_memory(_parts(short)[1], np.frombuffer(short.buffers()[2], np.uint8))
    table = _HashedStrings(ids)
    assert table._table.bytes <= 16 * len(ids)
    del ids, data
    gc.collect()
    pa.default_memory_pool().release_unused()
    queries = pa.array(["the node with number 19999", "the node with number 20000"])
    assert table.rows(queries).tolist() == [19_999, -1]


def test_short_strings_take_sixteen_bytes_each_and_are_let_go() -> None:
    """What is found does not depend on bytes that follow a string, and a longer query is none of them."""
    ids = pa.array([f"node {i}" for i in range(20_000)], pa.large_string())
    table = _HashedStrings(ids)
    before = pa.total_allocated_bytes()
    assert table._table.bytes <= 30 * len(ids)
    size = ids.nbytes
    del ids
    gc.collect()
    assert pa.total_allocated_bytes() <= before - size // 2
    asked = ["node 19999", "node 20000", "node 19999 and more", "node 1", "node 1\0", "", "n"]
    assert table.rows(pa.array(asked)).tolist() == [19_999, -1, -1, 1, -1, -1, -1]


def test_strings_of_every_length_by_many_threads() -> None:
    """A hundred thousand queries are shared by threads; lengths go past those that are kept as words."""
    values = [f"{i % 97:x}" + "é" * (i % 17) + str(i) for i in range(100_000)]
    for some in (values, [value for value in values if len(value.encode()) <= 15]):
        ids, first = pa.array(some), dictionary(some)
        assert np.array_equal(_HashedStrings(ids).rows(ids), [first[value] for value in some])


def test_many_threads_may_look_up_in_one_table() -> None:
    ids = pa.array([f"{i * i}" for i in range(50_000)])
    table = _HashedStrings(ids)
    with ThreadPoolExecutor(4) as pool:
        starts = list(range(0, 40_000, 5_000)) * 3
        for start, rows in zip(starts, pool.map(lambda at: table.rows(ids.slice(at, 10_000)), starts)):
            assert np.array_equal(rows, np.arange(start, start + 10_000))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: i << 32,
        lambda i: i << 40,
        lambda i: i * 320_001,  # the number of slots
        lambda i: i,
        lambda i: f"{'x' * 40}{i:08d}",
        lambda i: f"{i:08d}{'x' * 40}",
        lambda i: "\0" * (i % 400) + str(i // 400),
        lambda i: f"{i:020b}".replace("0", "Aa").replace("1", "BB"),  # all alike to Java's hash
    ],
)
def test_ids_of_a_pattern_do_not_pile_up(make: Callable[[int], int | str]) -> None:
    values = [make(i) for i in range(200_000)]
    ids = pa.array(values) if isinstance(values[0], str) else np.array(values)
    began = time.monotonic()
    table = id_table(ids)
    assert np.array_equal(table.rows(ids), np.arange(len(values)))
    assert time.monotonic() - began < 5  # a hundredth of a second; many minutes if they did


def test_one_id_over_and_over() -> None:
    assert id_table(pa.array(["again"] * 100_000)).first_rows().tolist() == [0] * 100_000  # type: ignore[union-attr]


def test_more_ids_than_rows_can_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 2)
    with pytest.raises(GamlpError, match="3 nodes are more than this format holds"):
        id_table(np.arange(3))


def test_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(id_table(pa.array(["a"])), _HashedStrings)
    assert isinstance(id_table(np.arange(3)), _HashedIntegers)
    monkeypatch.setattr(sys.modules["gamlp.kernel.ids"], "native", lambda: None)
    strings = id_table(pa.array(["a"]))
    assert isinstance(strings, _ArrowStrings) and strings.rebuilds
    assert isinstance(id_table(np.arange(3)), _SortedIntegers)
