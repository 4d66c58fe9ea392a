"""Rows of a random graph, each by itself: in C++ and in numpy the same, and what the words say about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.kernel import WHOLE, Matching, matched_rows, mix_keys, noisy_rows, permutations, permuted_range
from gamlp.kernel import generate as generating
from gamlp.kernel.native import native_if_built

Array = np.ndarray[Any, Any]
needs_kernel = pytest.mark.skipif(native_if_built() is None, reason="the C++ kernel was not built")


@st.composite
def matchings(draw: st.DrawFn) -> Matching:
    """Few nodes with few or many stubs, none at all among them."""
    count = draw(st.integers(2, 60))
    stubs = draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 40, 200]), min_size=count, max_size=count))
    return Matching(
        offsets=np.concatenate([[0], np.cumsum(stubs)]).astype(np.int64),
        classes=draw(st.integers(1, min(count, 5))),
        inside=draw(st.sampled_from([0, 1, 20_000, WHOLE - 1, WHOLE])),
        group=draw(st.integers(1, 9)),
        closeness=draw(st.sampled_from([0, 2**28, 2**31])),
        closest=draw(st.sampled_from([0, 2**31, 2**32])),
        seed=draw(st.integers(0, 2**40)),
    )


def by_hand(m: Matching) -> list[set[int]]:
    """Every pair of stubs joined one by one, as the words say; neighbours of every node."""
    node = permuted_range(m.hidden, 0, m.count)
    number = {int(hidden): row for row, hidden in enumerate(node)}
    classes = [hidden * m.classes // m.count for hidden in range(m.count)]
    pools: dict[int, list[int]] = {place: [] for place in range(m.classes + 1)}
    for hidden in range(m.count):
        begin, end = int(m.offsets[hidden]), int(m.offsets[hidden + 1])
        inside = end * m.inside // WHOLE - begin * m.inside // WHOLE
        pools[classes[hidden]] += [hidden] * inside
        pools[m.classes] += [hidden] * (end - begin - inside)
    found: list[set[int]] = [set() for _ in range(m.count)]

    def join(a: int, b: int) -> None:
        if a != b:
            found[number[a]].add(number[b])
            found[number[b]].add(number[a])

    for place, pool in pools.items():
        partner = permuted_range(m.joins[place], 0, len(pool) // 2)
        for pair in range(len(pool) // 2):
            join(pool[2 * pair], pool[2 * int(partner[pair]) + 1])
    for place in range(m.classes):
        members = [hidden for hidden in range(m.count) if classes[hidden] == place]
        groups = max(1, len(members) // m.group)
        for at, low in enumerate(members):
            for high in members[at + 1 :]:
                same = at * groups // len(members) == (high - members[0]) * groups // len(members)
                least = min(int(m.offsets[one + 1] - m.offsets[one]) for one in (low, high))
                word = (m.pair_key + (low << 32 | high) * 0x9E3779B97F4A7C15) % 2**64
                drawn = int(generating.mixed(np.array([word], np.uint64))[0]) >> 32
                if same and drawn < min(least * m.closeness, m.closest):
                    join(low, high)
    return found


@settings(max_examples=60)
@given(matchings())
def test_rows_are_the_stubs_joined_one_by_one(m: Matching) -> None:
    rows = matched_rows(m, 0, m.count)
    found = np.split(rows.neighbours, np.cumsum(rows.counts)[:-1])
    assert [one.tolist() for one in found] == [sorted(one) for one in by_hand(m)]
    assert rows.kept.sum() == len(rows.neighbours)
    assert rows.stubs.sum() == m.offsets[-1]


@needs_kernel
@settings(max_examples=60)
@given(matchings(), st.integers(0, 9), st.integers(1, 7))
def test_numpy_makes_the_same_rows(m: Matching, begin: int, step: int) -> None:
    ours = matched_rows(m, min(begin, m.count), m.count, step)
    theirs = generating._rows_with_numpy(m, np.arange(min(begin, m.count), m.count, step, dtype=np.uint64))
    for name in ("counts", "neighbours", "kept", "stubs"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert one.dtype == other.dtype and np.array_equal(one, other), name


@given(st.integers(1, 400), st.integers(0, 2**64 - 1))
def test_permutations_are_permutations_and_can_be_undone(count: int, key: int) -> None:
    table = permutations(np.array([count]), key)[0]
    there = permuted_range(table, 0, count)
    assert sorted(there.tolist()) == list(range(count))
    numbers = np.arange(count, dtype=np.uint64)
    assert np.array_equal(generating.permuted(numbers, table).astype(np.int64), there)
    assert np.array_equal(generating.permuted(there.astype(np.uint64), table, inverse=True), numbers)


def test_permuted_numbers_are_far_from_their_neighbours() -> None:
    there = permuted_range(permutations(np.array([100_000]), mix_keys(0, 0))[0], 0, 100_000)
    # Of two places drawn by chance the mean distance is a third of the whole.
    assert np.abs(np.diff(there)).mean() == pytest.approx(100_000 / 3, rel=0.02)
    assert abs(np.corrcoef(there[:-1], there[1:])[0, 1]) < 0.01


@needs_kernel
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("width", [1, 3, 4, 130])
def test_numpy_makes_the_same_noise_whatever_rows_are_made_at_a_time(
    dtype: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    labels, values = random.integers(0, 5, 50).astype(np.int32), random.normal(size=4096).astype(np.float32)
    centres = random.normal(size=(5, width)).astype(np.float32)
    ours = noisy_rows(labels, centres, values, 2**63 + 5, 7, dtype)
    parts = [noisy_rows(labels[a : a + 20], centres, values, 2**63 + 5, 7 + a, dtype) for a in (0, 20, 40)]
    assert np.concatenate(parts).tobytes() == ours.tobytes()
    monkeypatch.setattr(generating, "native_if_built", lambda: None)
    assert noisy_rows(labels, centres, values, 2**63 + 5, 7, dtype).tobytes() == ours.tobytes()


@needs_kernel
def test_parts_that_do_not_fit_are_refused() -> None:
    module: Any = native_if_built()
    with pytest.raises(ValueError, match="11 numbers"):
        module.permute(np.zeros(3, np.uint64), 0, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="do not fit"):
        module.noisy_rows(np.zeros(2, np.int32), np.zeros((1, 3), np.float32), np.zeros(9, np.float32), 0, 0,
                          np.zeros((2, 3), np.float32))  # fmt: skip
    small = Matching(np.array([0, 1, 2]), 1, 0, 1, 0, 0, 0)
    with pytest.raises(ValueError, match="not among the 2 rows"):
        matched_rows(small, 0, 4)
