"""A random graph close to a citation graph: heavy-tailed degrees, classes as communities, small groups in them.

`gamlp.kernel.generate` makes any row by itself. Here is found what it is made from: how many stubs the nodes get, so
that after loops and repeats as many edges are left as were asked for, and as many of them inside of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import GraphWriter
from gamlp.graph.graph import UNKNOWN, Labels, Split
from gamlp.io import ordered_map
from gamlp.kernel import (
    MOST_NODES,
    MOST_STUBS,
    NOISE,
    WHOLE,
    FloatName,
    Matching,
    matched_rows,
    mix_keys,
    noisy_rows,
    permutations,
    permuted_range,
)
from gamlp.progress import Progress

EDITION = 2  # raised when the same wishes give other bytes
BLOCK_ENTRIES = 1 << 26  # entries a block: a file of 256 MB

TAIL = 1.6  # P(stubs > x) falls with x^-1.6, so that degrees have a tail of exponent 2.6
MOST_DEGREE = 100_000
GROUP = 8  # nodes that may know each other
_CLOSENESS = 0.3  # that chance, for each stub of the one with fewer
_CLOSEST = 0.9  # chance that two nodes of a group are joined, at most
_CLOSE_SHARE = 0.75  # of the entries inside of classes, those by groups, at most
_BINS = 1 << 16
_SAMPLE = 1 << 16  # rows that are made to see how many entries are left
_NEAR, _FAR = 0.002, 0.01  # shares of all entries that may be missed: no more is tried, nothing is made
_FEW = 16  # entries that a graph of a few nodes may miss
_ROUNDS = 30
_CHUNK = 1 << 20  # rows at a time, at most
_PART = 1 << 20  # entries, or features, that a thread makes at a time
_ORDER, _RANKS, _FEATURES, _SPLIT = 0, 3, 4, 5  # keys of a seed; 1 and 2 join stubs and groups


def degree_values(ranks: Array, count: int, scale: float, least: float, most: int) -> Array:
    """Stubs by rank among `count`: least + scale · ((1 - q)^(-1/TAIL) - 1) where q = (rank + ½) / count."""
    quantile = (ranks + 0.5) / count
    return np.minimum(least + scale * ((1 - quantile) ** (-1 / TAIL) - 1), most).astype(np.int64)


@dataclass(frozen=True)
class Degrees:
    """Stubs by rank: one number for each of the highest ranks, and one for each bin of the others."""

    body: Array
    top: Array
    count: int

    @classmethod
    def of(cls, count: int, stubs: float, most: int) -> Degrees:
        """About `stubs` in all."""
        high = min(count, _BINS)
        rest = count - high
        bins = min(rest, _BINS)
        bounds = np.arange(bins + 1) * rest // max(1, bins)
        middle, width = (bounds[1:] + bounds[:-1] - 1) / 2, np.diff(bounds)
        top = np.arange(rest, count)
        least = min(1.0, stubs / count / 4)
        low, large = 0.0, float(most)
        for _ in range(64):
            scale = (low + large) / 2
            made = cls(
                degree_values(middle, count, scale, least, most), degree_values(top, count, scale, least, most), count
            )
            total = int((made.body * width).sum() + made.top.sum())
            low, large = (scale, large) if total < stubs else (low, scale)
        return made

    def offsets(self, seed: int) -> Array:
        """int64 `[count + 1]`, the ranks in an order of their own."""
        table = permutations(np.array([self.count]), mix_keys(seed, _RANKS))[0]
        offsets = np.zeros(self.count + 1, np.int64)
        rest = self.count - len(self.top)
        both = np.concatenate([self.body, self.top])
        for begin in range(0, self.count, _CHUNK):
            ranks = permuted_range(table, begin, min(begin + _CHUNK, self.count))
            bins = (ranks * len(self.body) + len(self.body) - 1) // max(1, rest)
            places = np.where(ranks < rest, np.minimum(bins, len(self.body) - 1), ranks - rest + len(self.body))
            part = offsets[begin + 1 : begin + 1 + len(ranks)]
            np.cumsum(both[places], out=part)
            part += offsets[begin]
        return offsets


@dataclass(frozen=True)
class Matched:
    """An undirected graph of about `edges` edges, a share `homophily` of them inside a class, the others anywhere."""

    count: int
    edges: int
    classes: int
    homophily: float
    seed: int

    @cached_property
    def order(self) -> Array:
        """The permutation from node to hidden place."""
        return np.asarray(permutations(np.array([self.count]), mix_keys(self.seed, _ORDER))[0])

    def labels(self, begin: int, end: int) -> Array:
        """Classes of the nodes begin..end, int32."""
        return (permuted_range(self.order, begin, end) * self.classes // self.count).astype(np.int32)

    @cached_property
    def matching(self) -> Matching:
        """Stubs are raised or lowered until what a sample of rows keeps is what was asked for."""
        if self.count >= MOST_NODES:
            raise GamlpError(f"{self.count} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
        entries = 2.0 * self.edges
        inside, outside = entries * self.homophily, entries * (1 - self.homophily)
        stubs, closeness = np.array([inside * (1 - _CLOSE_SHARE / 2), outside]), _CLOSENESS
        best, error = (stubs, closeness), np.inf
        for _ in range(_ROUNDS):
            made = self._try(stubs, closeness)
            kept = self._kept(made)
            wanted = np.array([inside - kept[0], outside])
            missed = float(max(abs(kept.sum() - entries), abs(kept[2] - outside)))
            if missed <= _NEAR * entries:
                return made
            del made  # so that the next is not held beside it
            if missed < error:
                best, error = (stubs, closeness), missed
            if kept[0] > _CLOSE_SHARE * inside:
                closeness *= 0.95 * _CLOSE_SHARE * inside / float(kept[0])
            ratio = np.divide(wanted, kept[1:], out=np.ones(2), where=kept[1:] > 0)
            stubs = stubs * np.clip(ratio, 0.25, 4.0)
            if stubs.sum() > 64 * entries:
                break
        if error > max(_FAR * entries, _FEW):
            raise GamlpError(
                f"{self.edges} distinct edges are too many for {self.count} nodes",
                hint="ask for fewer edges, more nodes or less homophily",
            )
        return self._try(*best)

    def _try(self, stubs: Array, closeness: float) -> Matching:
        total = float(stubs.sum())
        if total >= MOST_STUBS:
            raise GamlpError(f"{self.edges} edges are too many", hint=f"ask for fewer than {MOST_STUBS // 2}")
        most = int(min(MOST_DEGREE, max(2 * (2 * self.edges) ** 0.5, 4 * total / self.count)))
        return Matching(
            offsets=Degrees.of(self.count, total, most).offsets(self.seed),
            classes=self.classes,
            inside=round(WHOLE * float(stubs[0]) / total),
            group=GROUP,
            closeness=round(2**32 * closeness),
            closest=round(2**32 * _CLOSEST),
            seed=self.seed,
        )

    def _kept(self, made: Matching) -> Array:
        """Entries by groups, inside of classes beside, and others, of all rows as a sample tells them."""
        rows = matched_rows(made, 0, self.count, max(1, self.count // _SAMPLE))
        share = len(rows.counts) / self.count
        total = int(made.offsets[-1])
        all_inside = total * made.inside // WHOLE
        stubs = np.array([all_inside, total - all_inside])
        # Of stubs the ratio that is left: a hub more or less in the sample counts on both sides.
        left = np.divide(rows.kept[1:], rows.stubs, out=np.zeros(2), where=rows.stubs > 0)
        return np.append(rows.kept[0] / share, left * stubs)

    def write_edges(self, writer: GraphWriter, threads: int, progress: Progress) -> None:
        """Row after row, made by all threads and written by this one."""
        progress("degrees", 0, None, "")
        matching = self.matching
        matching.index, matching.joins, matching.hidden  # noqa: B018  (once, before threads share them)
        writer.relation(directed=False, weighted=False)
        entries = 2 * self.edges
        bounds = np.linspace(0, self.count, max(1, -(-entries // BLOCK_ENTRIES)) + 1).round().astype(np.int64)
        at_once = max(1, min(_CHUNK, _PART * self.count // max(1, entries)))
        stored = 0

        def make(rows: tuple[int, int]) -> tuple[Array, Array]:
            made = matched_rows(matching, *rows)
            return made.counts, made.neighbours

        for start, stop in pairwise(bounds.tolist()):
            cuts = [*range(start, stop, at_once), stop]
            made = ordered_map(threads, make, pairwise(cuts))
            expected = int(entries * (stop - start) / self.count)
            stored += writer.stream_block(start, stop, _told(made, stored, self.edges, progress), expected)

    def write_features(
        self, writer: GraphWriter, centres: Array, dtype: FloatName, threads: int, progress: Progress
    ) -> None:
        """x = centre of the class + noise."""
        key, values = mix_keys(self.seed, _FEATURES), normal_values()
        width = centres.shape[1]
        at_once = max(1, min(_CHUNK, _PART // width))

        def make(rows: tuple[int, int]) -> Array:
            return noisy_rows(self.labels(*rows), centres, values, key, rows[0], dtype)

        for shard, (start, stop) in enumerate(writer.feature_shards(width, dtype)):
            cuts = [*range(start, stop, at_once), stop]
            with writer.stream_features(shard) as rows:
                for made in ordered_map(threads, make, pairwise(cuts)):
                    rows.append(made)
                    progress("features", start + rows.rows, self.count, "rows")

    def write_targets(self, writer: GraphWriter, labelled: float, train: float, valid: float) -> None:
        """Labels of a share of the nodes, and their parts: exactly these shares, of nodes drawn by chance."""
        known = max(1, round(labelled * self.count))
        ends = [round(train * known), round((train + valid) * known), known]
        table = permutations(np.array([self.count]), mix_keys(self.seed, _SPLIT))[0]
        labels, roles = np.full(self.count, UNKNOWN, np.int32), np.zeros(self.count, np.int8)
        for begin in range(0, self.count, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, self.count))
            rank = permuted_range(table, part.start, part.stop)
            roles[part] = np.searchsorted([0, *ends], rank, side="right") % 4
            labels[part] = np.where(rank < known, self.labels(part.start, part.stop), UNKNOWN)
        names = tuple(str(number) for number in range(self.classes))
        writer.labels(Labels(labels, names, "integer"))
        writer.split(Split(roles))


def normal_values() -> Array:
    """float32 numbers of mean 0 and deviation 1: quantiles of the normal distribution, all as probable."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((place + 0.5) / NOISE) for place in range(NOISE)])
    return np.asarray(values / values.std(), np.float32)


def _told(
    parts: Iterable[tuple[Array, Array]], stored: int, edges: int, progress: Progress
) -> Iterator[tuple[Array, Array]]:
    for counts, neighbours in parts:
        stored += len(neighbours)
        progress("edges", stored / 2, edges, "edges")
        yield counts, neighbours
