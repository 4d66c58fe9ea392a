"""Random edges with power-law degrees and planted communities, any block of rows by itself.

Rows are cut into blocks. The edges between the blocks i ≤ j come from generators seeded by (seed, i, j), so
the rows of a block are made from its pairs (i, ·) alone: there is no edge list, and threads change no byte.

Inside a block the nodes of a class form a cell. An edge picks cells first (the same class at both ends with
probability `homophily`, otherwise two independent ones) and then a rank in each: floor(size · u^steep) for
uniform u, so rank k is picked in proportion to k^(1/steep - 1) and degrees have a tail of exponent
1 + steep / (steep - 1): 2.5 for steep 3. Where a share of a class is hot, edges that ignore classes go to it alone and
edges inside the class to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Block

BLOCK_ENTRIES = 8_000_000  # entries a block: about 300 MB while it is built
BLOCK_ROWS = 1 << 22  # float32 has 24 bits: beyond this some ranks would never be drawn
PACKET = 1 << 16  # edges drawn at a time: the arrays stay in the second-level cache
_NODES, _EDGES = 0, 1  # what a stream of random numbers is for


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The random numbers of one stream: the same on every machine and in any order of use."""
    return np.random.Generator(np.random.SFC64([seed, *stream]))


@dataclass(frozen=True)
class Cells:
    """The nodes of one block of rows, sorted by class and, within a class, by rank."""

    index: int
    start: int
    stop: int
    steep: int
    group: int
    order: Array  # int32, node at each place
    first: Array  # int32 [classes + 1], first place of each class
    hot: float = 0.0  # share of a class's nodes, the first by rank

    @property
    def size(self) -> int:
        return self.stop - self.start

    @cached_property
    def sizes(self) -> Array:
        """Nodes of each class, int32."""
        return np.diff(self.first)

    @cached_property
    def classes(self) -> Array:
        """Class at each place."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int16), self.sizes)

    @cached_property
    def hot_sizes(self) -> Array:
        """Nodes of each class that edges which ignore classes go to, int32; all of them where none are hot."""
        if not self.hot:
            return self.sizes
        return np.maximum(np.rint(self.sizes * self.hot), 1).astype(np.int32)

    @cached_property
    def _passed(self) -> Array:
        """Nodes of each class that edges inside it do not go to: the hot ones, unless there are no others."""
        return np.where(self.hot_sizes < self.sizes, self.hot_sizes, 0).astype(np.int32)

    def pick(self, random: np.random.Generator, counts: Array, out: Array) -> None:
        """counts[c] nodes of each class c, popular ranks more often; sorted by class."""
        first, sizes = self.first[:-1] + self._passed, self.sizes - self._passed
        self._rank(random, np.repeat(first, counts), np.repeat(sizes, counts), out)

    def pick_any(self, random: np.random.Generator, out: Array) -> None:
        """Nodes whose classes are independent."""
        cell = self.classes.take(random.integers(0, self.size, len(out), dtype=np.int32))
        self._rank(random, self.first.take(cell), self.hot_sizes.take(cell), out)

    def ranks(self, classes: int) -> tuple[Array, Array, Array]:
        """Bins of ranks of a mean class: how many, and the chance of each at edges inside the class and at others."""
        size = self.size / classes
        if not self.hot:
            width, chance = rank_weights(size, self.steep)
            return width, chance, chance
        (hot, of_hot), (rest, of_rest) = (rank_weights(size * share, self.steep) for share in (self.hot, 1 - self.hot))
        none = np.zeros_like
        return np.append(hot, rest), np.append(none(of_hot), of_rest), np.append(of_hot, none(of_rest))

    def _rank(self, random: np.random.Generator, first: Array, sizes: Array, out: Array) -> None:
        uniform = random.random(len(first), dtype=np.float32)
        rank = uniform.copy()
        for _ in range(self.steep - 1):
            rank *= uniform
        rank *= sizes
        places = rank.astype(np.int32)
        places += first
        self.order.take(places, mode="clip", out=out)


@dataclass(frozen=True)
class Group:
    """Nodes that follow one another: how many, how steep their popularity, and which share of a class is hot."""

    count: int
    steep: int
    hot: float = 0.0


@dataclass(frozen=True)
class Planted:
    """An undirected random graph over groups of nodes; `between`: edges join different groups only."""

    groups: Sequence[Group]
    edges: int
    classes: int
    homophily: float
    seed: int
    between: bool = False

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)

    @cached_property
    def cells(self) -> list[Cells]:
        cells: list[Cells] = []
        start = 0
        for number, group in enumerate(self.groups):
            entries = self.edges if self.between else 2 * self.edges
            blocks = max(1, -(-entries // BLOCK_ENTRIES), -(-group.count // BLOCK_ROWS))
            bounds = np.linspace(start, start + group.count, blocks + 1).round().astype(np.int64)
            for low, high in pairwise(bounds):
                cells.append(self._cells(len(cells), int(low), int(high), group, number))
            start += group.count
        return cells

    def _cells(self, index: int, start: int, stop: int, group: Group, number: int) -> Cells:
        order = generator(self.seed, _NODES, index).permutation(np.arange(start, stop, dtype=np.int32))
        first = np.linspace(0, stop - start, self.classes + 1).round().astype(np.int32)
        return Cells(index, start, stop, group.steep, number, order, first, group.hot)

    def labels(self) -> Array:
        """Class of every node, int32."""
        labels = np.empty(self.count, np.int32)
        for cells in self.cells:
            labels[cells.order] = np.repeat(np.arange(self.classes, dtype=np.int32), cells.sizes)
        return labels

    def hot(self) -> Array:
        """Whether a node is one of the hot ones of its class, bool."""
        found = np.zeros(self.count, bool)
        for cells in self.cells:
            if cells.hot:
                rank = np.arange(cells.size) - np.repeat(cells.first[:-1], cells.sizes)
                found[cells.order] = rank < np.repeat(cells.hot_sizes, cells.sizes)
        return found

    def _share(self, a: Cells, b: Cells) -> float:
        """Weight of a pair of blocks among all: sizes multiplied, an ordered pair counted both ways."""
        if self.between and a.group == b.group:
            return 0.0
        return a.size * b.size * (1.0 if a.index == b.index else 2.0)

    @cached_property
    def _shares(self) -> float:
        return sum(self._share(a, b) for a in self.cells for b in self.cells if a.index <= b.index)

    @cached_property
    def draws(self) -> float:
        """Edges to draw so that `edges` distinct ones are expected: popular pairs come repeatedly."""
        kinds: dict[tuple[int, ...], tuple[Cells, Cells, float]] = {}
        number: dict[tuple[int, ...], int] = {}
        for a in self.cells:
            for b in self.cells[a.index :]:
                if share := self._share(a, b):
                    # sizes that differ by a row are one kind
                    kind = (a.size // 64, b.size // 64, a.group, b.group, int(a is b))
                    kinds.setdefault(kind, (a, b, share))
                    number[kind] = number.get(kind, 0) + 1

        def distinct(draws: float) -> float:
            return sum(
                number[kind] * self._distinct(draws * share / self._shares, a, b)
                for kind, (a, b, share) in kinds.items()
            )

        low, high = float(self.edges), float(self.edges)
        while distinct(high) < self.edges:
            low, high = high, high * 2
            if high > 64 * self.edges:
                raise GamlpError(
                    f"{self.edges} distinct edges are too many for {self.count} nodes",
                    hint="ask for fewer edges, more nodes or less homophily",
                )
        while high - low > 1e-3 * self.edges:
            middle = (low + high) / 2
            low, high = (middle, high) if distinct(middle) < self.edges else (low, middle)
        return high

    def _distinct(self, draws: float, a: Cells, b: Cells) -> float:
        """Expected distinct edges between two blocks: Σ over pairs of 1 - exp(-draws of the pair)."""
        c, own = self.classes, a is b
        (wa, pa, qa), (wb, pb, qb) = a.ranks(c), b.ranks(c)
        pairs = wa[:, None] * wb[None, :]
        inside, anywhere = draws * self.homophily / c, draws * (1 - self.homophily) / c**2
        same = inside * pa[:, None] * pb[None, :] + anywhere * qa[:, None] * qb[None, :]
        other = anywhere * qa[:, None] * qb[None, :]
        ways = 2.0 if own else 1.0  # within a block (u, v) and (v, u) are the same edge
        hit_same, hit_other = -np.expm1(-ways * same), -np.expm1(-ways * other)
        loops = float((wa * -np.expm1(-ways * (inside * pa * pa + anywhere * qa * qa))).sum()) if own else 0.0
        return float(c * ((pairs * hit_same).sum() - loops) + c * (c - 1) * (pairs * hit_other).sum()) / ways

    def block(self, index: int, threads: int = 2) -> Block:
        """The rows of one block, from its pairs alone."""
        mine = self.cells[index]
        packets: list[tuple[Cells, int, int, int]] = []  # (other, packet, its edges, where they go)
        at = 0
        for other in self.cells:
            pair = (mine, other) if mine.index <= other.index else (other, mine)
            total = round(self.draws * self._share(*pair) / self._shares)
            for packet, begin in enumerate(range(0, total, PACKET)):
                size = min(PACKET, total - begin)
                packets.append((other, packet, size, at))
                at += 2 * size if other is mine else size
        rows, columns = np.empty(at, np.int32), np.empty(at, np.int32)

        def fill(job: tuple[Cells, int, int, int]) -> None:
            other, packet, size, at = job
            here = slice(at, at + size)
            if mine.index <= other.index:
                self._draw(mine, other, packet, rows[here], columns[here])
            else:
                self._draw(other, mine, packet, columns[here], rows[here])
            if other is mine:
                reverse = slice(at + size, at + 2 * size)
                rows[reverse], columns[reverse] = columns[here], rows[here]

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, packets))
        return Block.from_edges(rows, columns, None, start=mine.start, stop=mine.stop, symmetric=False, threads=threads)

    def _draw(self, a: Cells, b: Cells, packet: int, u: Array, v: Array) -> None:
        """Fill u with nodes of block a and v with nodes of block b."""
        random = generator(self.seed, _EDGES, a.index, b.index, packet)
        same = round(len(u) * self.homophily)
        alike = apportion(random, same, a.sizes)
        a.pick(random, alike, u[:same])
        b.pick(random, alike, v[:same])
        a.pick_any(random, u[same:])
        b.pick_any(random, v[same:])


def apportion(random: np.random.Generator, total: int, weights: Array) -> Array:
    """Whole numbers in proportion to the weights that add up to `total`; a random phase is fair."""
    ends = np.cumsum(weights) * (total / weights.sum())
    ends[-1] = total
    cuts = np.floor(ends + random.random()).astype(np.int64)
    cuts[-1] = total
    return np.diff(np.minimum(cuts, total), prepend=0)


def rank_weights(size: float, steep: float) -> tuple[Array, Array]:
    """(how many ranks, chance of each) in geometric bins of the ranks of a cell."""
    bounds = np.unique(np.concatenate([[0], np.geomspace(1, max(size, 1.0), 40).round()]))
    mass = np.diff(bounds ** (1 / steep)) / bounds[-1] ** (1 / steep)
    return np.diff(bounds), mass / np.diff(bounds)
