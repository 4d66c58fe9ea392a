"""Rows of a random graph, each from its number alone, and noise: in C++, or in numpy with the same bytes.

Nodes have a hidden order, a permutation of their numbers: classes follow one another in it and, inside of a class,
groups of a few nodes. Hidden place h has the stubs offsets[h]..offsets[h+1]; a share of them is for nodes of the same
class, the others for any node. Stubs of a range are numbered; number 2i is joined to number 2·Q(i) + 1, Q a permutation
that can be computed both ways. So the other end of any stub is known without a list of edges. Two nodes of a group are
joined where a hash of the pair falls below a share of the smaller number of stubs. Loops and repeats are dropped, at
both ends alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gamlp.arrays import Array
from gamlp.kernel.dtypes import NUMPY_DTYPES, FloatName, scale, store_as
from gamlp.kernel.native import native_if_built

WHOLE = 1 << 16  # shares of stubs are in 65536ths
MOST_STUBS = 1 << 35  # numbers of stubs times WHOLE stay exact in float64
NOISE = 1 << 12  # values that noise can have
_STEP = 64  # stubs between two entries of the index of offsets
_GOLDEN = 0x9E3779B97F4A7C15


def mixed(values: Array) -> Array:
    """SplitMix64's last step: 64 bits of which every one depends on all that were given."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def permutations(counts: Array, key: int) -> Array:
    """One permutation of 0..count-1 for each count: uint64 `[len(counts), 11]`.

    Columns: count, mask of the smallest 2^k that is no less, shift of half of k, three odd factors, two summands, the
    inverses of the factors modulo 2^64.
    """
    table = np.zeros((len(counts), 11), np.uint64)
    table[:, 0] = counts
    bits = np.array([max(1, (max(1, int(count)) - 1).bit_length()) for count in counts], np.uint64)
    table[:, 1] = (np.uint64(1) << bits) - np.uint64(1)
    table[:, 2] = (bits + np.uint64(1)) // np.uint64(2)
    place = np.arange(len(counts) * 5, dtype=np.uint64).reshape(-1, 5)
    table[:, 3:8] = mixed(np.uint64(key) + (place + np.uint64(1)) * np.uint64(_GOLDEN))
    table[:, 3:6] |= np.uint64(1)
    inverse = table[:, 3:6] * np.uint64(3) ^ np.uint64(2)
    for _ in range(4):  # Newton: each step doubles the bits that are right, five at first
        inverse *= np.uint64(2) - table[:, 3:6] * inverse
    table[:, 8:] = inverse
    return table


def permuted(values: Array, table: Array, *, inverse: bool = False) -> Array:
    """Where values (uint64) go; `table` is one row of `permutations`, or one for each value.

    What lands outside of the range goes on until it is inside.
    """
    step: Callable[[Array, Array], Array] = _step_back if inverse else _step
    values = step(values, table)
    while len(outside := np.flatnonzero(values >= table[..., 0])):
        values[outside] = step(values[outside], table if table.ndim == 1 else table[outside])
    return values


def _step(x: Array, table: Array) -> Array:
    _, mask, shift, a, b, c, e, f, *_ = np.moveaxis(table, -1, 0)
    x = (x * a + e) & mask
    x = ((x ^ (x >> shift)) * b + f) & mask
    return np.asarray((x ^ (x >> shift)) * c & mask)


def _step_back(x: Array, table: Array) -> Array:
    _, mask, shift, _, _, _, e, f, a, b, c = np.moveaxis(table, -1, 0)
    x = x * c & mask  # shifting by half of the bits undoes itself
    x = ((x ^ (x >> shift)) - f) * b & mask
    return np.asarray(((x ^ (x >> shift)) - e) * a & mask)


def permuted_range(table: Array, begin: int, end: int) -> Array:
    """Where begin..end go, int64."""
    if (module := native_if_built()) is not None:
        out = np.empty(end - begin, np.int64)
        module.permute(table, begin, out)
        return out
    return permuted(np.arange(begin, end, dtype=np.uint64), table).astype(np.int64)


@dataclass(frozen=True)
class Matching:
    """All that a row is made from. `offsets` int64 `[count + 1]`, by hidden place."""

    offsets: Array
    classes: int
    inside: int  # of WHOLE stubs, those for the same class
    group: int  # nodes of a group
    closeness: int  # of 2^32, the chance that nodes of a group are joined, for each stub
    closest: int  # of 2^32, the greatest chance
    seed: int

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def hidden(self) -> Array:
        """The permutation from node to hidden place."""
        return np.asarray(permutations(np.array([self.count]), mix_keys(self.seed, 0))[0])

    @cached_property
    def bounds(self) -> Array:
        """First hidden place of each class, and the end, int64 `[classes + 1]`."""
        return -(-np.arange(self.classes + 1, dtype=np.int64) * self.count // self.classes)

    @cached_property
    def firsts(self) -> Array:
        """First stub of each class among those for the same class; the last range is that of stubs for any node."""
        return np.append(self.offsets[self.bounds[:-1]] * self.inside // WHOLE, 0)

    @cached_property
    def joins(self) -> Array:
        """The permutation of each class's pairs of stubs, and of those for any node."""
        stubs = int(self.offsets[-1])
        inside = stubs * self.inside // WHOLE
        sizes = np.append(np.diff(self.firsts[:-1], append=inside), stubs - inside)
        return permutations(sizes // 2, mix_keys(self.seed, 1))

    @cached_property
    def index(self) -> Array:
        """The hidden place of every 64th stub, int32."""
        places = np.arange(0, max(1, int(self.offsets[-1])), _STEP, dtype=np.int64)
        if (module := native_if_built()) is None:
            return (np.searchsorted(self.offsets, places, side="right") - 1).astype(np.int32)
        out = np.empty(len(places), np.int32)
        module.index_offsets(self.offsets, _STEP, out)
        return out

    @property
    def pair_key(self) -> int:
        return mix_keys(self.seed, 2)


def mix_keys(seed: int, stream: int) -> int:
    """A key for one use of a seed."""
    return int(np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Rows:
    """Of some rows: how many neighbours each has, these one after the other, ascending, and what they came from."""

    counts: Array  # int64
    neighbours: Array  # int32
    kept: Array  # int64 [3]: entries by groups, inside of classes beside, and others
    stubs: Array  # int64 [2]: stubs for the same class, for any node


def matched_rows(matching: Matching, begin: int, end: int, step: int = 1) -> Rows:
    """The rows begin, begin + step, … below end."""
    if (module := native_if_built()) is None:
        return _rows_with_numpy(matching, np.arange(begin, end, step, dtype=np.uint64))
    counts, kept, stubs = np.empty(len(range(begin, end, step)), np.int64), np.zeros(3, np.int64), np.zeros(2, np.int64)
    neighbours = module.matched_rows(
        matching.offsets, matching.index, matching.bounds, matching.firsts, matching.joins, matching.hidden,
        matching.inside, matching.group, matching.closeness, matching.closest, matching.pair_key, begin, step,
        counts, kept, stubs,
    )  # fmt: skip
    return Rows(counts, neighbours, kept, stubs)


def _rows_with_numpy(m: Matching, rows: Array) -> Rows:
    hidden = permuted(rows, m.hidden).astype(np.int64)
    begin, end = m.offsets[hidden], m.offsets[hidden + 1]
    inside, inside_end = begin * m.inside // WHOLE, end * m.inside // WHOLE
    classes = hidden * m.classes // m.count
    parts = [_group_neighbours(m, hidden, classes)]
    for kind, first, last in ((1, inside, inside_end), (2, begin - inside, end - inside_end)):
        row, stub = _enumerate(first, last)
        place = classes[row] if kind == 1 else np.full(len(row), m.classes)
        found, other = _joined(m, place, stub)
        row = row[found]
        inner, outer = ((other + 1) * WHOLE - 1) // max(1, m.inside), other * WHOLE // max(1, WHOLE - m.inside)
        at = inner if kind == 1 else outer
        parts.append((row, np.searchsorted(m.offsets, at, side="right") - 1, np.full(len(row), kind)))
    row, other, kinds = (np.concatenate(part) for part in zip(*parts))
    node = permuted(other.astype(np.uint64), m.hidden, inverse=True).astype(np.int64)
    keep = other != hidden[row]
    key = np.sort((row << 33 | node << 2 | kinds)[keep])
    key = key[np.diff(key >> 2, prepend=-1) != 0]  # the first of equal ones, by groups before others
    return Rows(
        np.bincount(key >> 33, minlength=len(rows)).astype(np.int64),
        (key >> 2 & 0x7FFFFFFF).astype(np.int32),
        np.bincount(key & 3, minlength=3).astype(np.int64),
        np.array([(inside_end - inside).sum(), (end - begin - inside_end + inside).sum()]),
    )


def _enumerate(first: Array, last: Array) -> tuple[Array, Array]:
    """(row, number) of all numbers first[row]..last[row]."""
    counts = last - first
    row = np.repeat(np.arange(len(first)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + first[row]


def _joined(m: Matching, place: Array, stub: Array) -> tuple[Array, Array]:
    """Which stubs of ranges are joined to another one, and the number of the other; of an odd number one is not."""
    local = (stub - m.firsts[place]).astype(np.uint64)
    found = np.flatnonzero(local >> np.uint64(1) < m.joins[place, 0])
    local, place = local[found], place[found]
    half, odd, other = local >> np.uint64(1), (local & np.uint64(1)).astype(bool), np.empty_like(local)
    other[~odd] = permuted(half[~odd], m.joins[place[~odd]]) * np.uint64(2) + np.uint64(1)
    other[odd] = permuted(half[odd], m.joins[place[odd]], inverse=True) * np.uint64(2)
    return found, other.astype(np.int64) + m.firsts[place]


def _group_neighbours(m: Matching, hidden: Array, classes: Array) -> tuple[Array, Array, Array]:
    """(row, hidden place, 0) of nodes that are joined because they are in one group."""
    first, size = m.bounds[classes], np.diff(m.bounds)[classes]
    groups = np.maximum(1, size // m.group)
    group = (hidden - first) * groups // size
    row, other = _enumerate(first - -group * size // groups, first - -(group + 1) * size // groups)
    own = hidden[row]
    low, high = np.minimum(own, other), np.maximum(own, other)
    least = np.minimum(m.offsets[own + 1] - m.offsets[own], m.offsets[other + 1] - m.offsets[other])
    chance = np.minimum(least * m.closeness, m.closest)
    drawn = mixed(np.uint64(m.pair_key) + (low << 32 | high).astype(np.uint64) * np.uint64(_GOLDEN)) >> np.uint64(32)
    joined = np.flatnonzero((drawn.astype(np.int64) < chance) & (own != other))
    return row[joined], other[joined], np.zeros(len(joined), np.int64)


def noisy_rows(labels: Array, centres: Array, values: Array, key: int, begin: int, dtype: FloatName) -> Array:
    """Rows centres[label] + noise as they are stored; row i has number begin + i.

    Noise is one of NOISE float32 `values`, picked by 16 bits of a hash of the row and the column.
    """
    width = centres.shape[1]
    if (module := native_if_built()) is None:
        words = -(-width // 4)
        number = np.arange(begin * words, (begin + len(labels)) * words, dtype=np.uint64)
        drawn = mixed(np.uint64(key) + number * np.uint64(_GOLDEN)).astype("<u8").view("<u2").reshape(-1, 4 * words)
        return store_as(centres[labels] + values[drawn[:, :width] % NOISE], dtype)
    made = np.empty((len(labels), width), np.float32)
    module.noisy_rows(labels, centres, values, key, begin, made)
    if dtype == "float32":
        return made
    out = np.empty(made.shape, NUMPY_DTYPES[dtype])
    scale(made, "float32", out, dtype)
    return out
