"""Random edges between two node types with power-law degrees, of which an exact share stays inside a class.

As in `planted`, rows are cut into blocks and the edges between a block of sources and one of targets come from
generators seeded by that pair: rows of targets and rows of sources are made apart from one another and still
hold the same edges, so a relation and its reverse need neither an edge list nor a transposition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import planted
from gamlp.graph.csr import csr_block
from gamlp.graph.graph import Array, Block
from gamlp.graph.planted import Cells, apportion, generator, rank_weights

_ORDER, _EDGES = 6, 7  # streams of random numbers beside those of `planted` and `synthetic`


@dataclass(frozen=True)
class End:
    """The nodes at one end of a relation: the class of each (int32), and how steep their popularity."""

    labels: Array
    steep: int


@dataclass(frozen=True)
class PlantedRelation:
    """`edges` distinct edges source → target; a share signal + (1 - signal) / classes joins nodes of one class.

    That is: a share `signal` by choice, and chance does the rest. One class alone: ends are independent.
    `within`: both ends are the same nodes, and none is joined with itself.
    """

    source: End
    target: End
    edges: int
    classes: int
    signal: float
    seed: int
    number: int  # tells the random numbers of the relations of one graph apart
    within: bool = False

    @cached_property
    def sources(self) -> list[Cells]:
        return self._cells(self.source, 0)

    @cached_property
    def targets(self) -> list[Cells]:
        return self._cells(self.target, 1)

    def _cells(self, end: End, side: int) -> list[Cells]:
        """Blocks of rows; in each the nodes of a class follow one another in an order drawn at random."""
        blocks = max(1, -(-self.edges // planted.BLOCK_ENTRIES), -(-len(end.labels) // planted.BLOCK_ROWS))
        bounds = np.linspace(0, len(end.labels), blocks + 1).round().astype(np.int64)
        cells = []
        for index, (start, stop) in enumerate(pairwise(bounds.tolist())):
            random = generator(self.seed, _ORDER, self.number, side, index)
            order = random.permutation(np.arange(start, stop, dtype=np.int32))
            labels = end.labels[order]
            order = order[np.argsort(labels, kind="stable")]
            sizes = np.bincount(labels, minlength=self.classes)
            if sizes.min() == 0:
                raise GamlpError(
                    f"{self.classes} classes are too many for {stop - start} nodes of a type", hint="ask for fewer"
                )
            first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
            cells.append(Cells(index, start, stop, end.steep, side, order, first))
        return cells

    @cached_property
    def draws(self) -> tuple[float, float]:
        """(within a class, regardless of class): edges to draw so that the distinct ones are as many as asked for.

        Popular pairs come repeatedly, and more so within a class; each part is made up for by itself.
        """
        c = self.classes
        pairs = len(self.sources) * len(self.targets)
        (ws, ps), (wt, pt) = (
            rank_weights(len(end.labels) / len(cells) / c, end.steep)
            for end, cells in ((self.source, self.sources), (self.target, self.targets))
        )
        number, chance = ws[:, None] * wt[None, :] * pairs, ps[:, None] * pt[None, :] / pairs

        def distinct(rate: float, cells: int) -> float:
            """Edges among `cells` pairs of classes, each of which is drawn `rate` times: Σ 1 - exp(-rate · chance)."""
            return float(cells * (number * -np.expm1(-rate * chance)).sum())

        apart = (1 - self.signal) * (1 - 1 / c) * self.edges
        free = self._solve(lambda draws: distinct(draws / c**2, c * (c - 1)), apart)
        alike = self._solve(lambda draws: distinct(draws / c + free / c**2, c), self.edges - apart)
        return alike, free

    def _solve(self, distinct: Callable[[float], float], wanted: float) -> float:
        """The number of draws that gives `wanted` distinct edges, by bisection."""
        if distinct(0.0) >= wanted:
            return 0.0
        low, high = 0.0, wanted
        while distinct(high) < wanted:
            low, high = high, high * 2
            if high > 64 * self.edges:
                raise GamlpError(
                    f"{self.edges} distinct edges, {self.signal:.2g} of them within a class, are too many for "
                    f"{len(self.source.labels)} and {len(self.target.labels)} nodes of {self.classes} classes",
                    hint="ask for fewer classes, a larger scale or less signal",
                )
        while high - low > 1e-4 * self.edges:
            middle = (low + high) / 2
            low, high = (middle, high) if distinct(middle) < wanted else (low, middle)
        return high

    def blocks(self, *, reverse: bool, threads: int) -> Iterator[Block]:
        """The rows of targets with their sources, or, in reverse, the rows of sources with their targets."""
        for mine in self.sources if reverse else self.targets:
            pairs = [(mine, other) for other in self.targets] if reverse else [(one, mine) for one in self.sources]
            sources, targets = self._edges(pairs, threads)
            rows, neighbours = (sources, targets) if reverse else (targets, sources)
            yield csr_block(
                rows,
                neighbours,
                None,
                start=mine.start,
                stop=mine.stop,
                symmetric=False,
                drop_loops=self.within,  # node 3 of one type and node 3 of another are no self-loop
                threads=threads,
            )

    def _edges(self, pairs: list[tuple[Cells, Cells]], threads: int) -> tuple[Array, Array]:
        """The edges between pairs of blocks, repeats included."""
        packets: list[tuple[Cells, Cells, int, slice]] = []
        at = 0
        for source, target in pairs:
            share = source.size / len(self.source.labels) * target.size / len(self.target.labels)
            total = round(sum(self.draws) * share)
            for packet, begin in enumerate(range(0, total, planted.PACKET)):
                size = min(planted.PACKET, total - begin)
                packets.append((source, target, packet, slice(at, at + size)))
                at += size
        sources, targets = np.empty(at, np.int32), np.empty(at, np.int32)

        def fill(job: tuple[Cells, Cells, int, slice]) -> None:
            source, target, packet, here = job
            self._draw(source, target, packet, sources[here], targets[here])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, packets))
        return sources, targets

    def _draw(self, source: Cells, target: Cells, packet: int, u: Array, v: Array) -> None:
        """Fill u with sources and v with targets: first those within a class, then those regardless of it."""
        random = generator(self.seed, _EDGES, self.number, source.index, target.index, packet)
        alike, free = self.draws
        same = round(len(u) * alike / (alike + free))
        counts = apportion(random, same, source.sizes)
        source.pick(random, counts, u[:same])
        target.pick(random, counts, v[:same])
        source.pick_any(random, u[same:])
        target.pick_any(random, v[same:])
