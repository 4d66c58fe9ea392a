"""A relation with further entries: lists of neighbours, merged for the rows that changed and read for the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.entries import RelationEntries
from gamlp.graph.graph import Block, Relation
from gamlp.graph.unread import Unread
from gamlp.kernel import gather_rows


@dataclass(frozen=True)
class RowLists:
    """Neighbours of some rows: those of rows[i] are neighbours[offsets[i]:offsets[i + 1]], ascending."""

    rows: Array
    offsets: Array
    neighbours: Array
    weights: Array | None

    @property
    def sizes(self) -> Array:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class GrownRelation:
    """The entries of `base`, whose rows were `before`, and more; rows from `before` to `count` are new.

    `changed` are the rows, ascending, whose lists are not those of the base: new ones, and old ones that gained an
    entry. All others are read from the base, so that the cost is that of the addition.
    """

    base: Relation
    before: int
    count: int
    changed: RowLists

    @classmethod
    def of(cls, base: Relation, before: int, count: int, added: RelationEntries) -> GrownRelation:
        """Entries that are there already merge, weights add up: first what was stored, then what is added."""
        touched = np.unique(added.rows[added.rows < before]).astype(np.int64)
        rows = np.concatenate([touched, np.arange(before, count)])
        parts = list(_base_lists(base, touched))
        owners = [np.repeat(np.searchsorted(rows, part.rows), part.sizes) for part in parts]
        owners.append(np.searchsorted(rows, added.rows))
        neighbours = [*(part.neighbours for part in parts), added.neighbours]
        weights = None
        if added.weights is not None:
            found = [part.weights for part in parts if part.weights is not None]
            weights = np.concatenate([np.zeros(0, np.float32), *found, added.weights])
        merged = Block.from_edges(
            np.concatenate([np.zeros(0, np.int32), *owners]).astype(np.int32),
            np.concatenate([np.zeros(0, np.int32), *neighbours]).astype(np.int32),
            weights,
            start=0,
            stop=len(rows),
            symmetric=False,
            drop_loops=False,  # rows are places here: a loop was dropped when the table was read
        )
        changed = RowLists(rows, merged.offsets, merged.neighbours, merged.weights)
        return cls(base, before, count, changed)

    def lists(self, rows: Array) -> Iterator[RowLists]:
        """Lists of rows, which ascend; in parts, whose rows come in any order."""
        places = np.searchsorted(self.changed.rows, rows)
        inside = places < len(self.changed.rows)
        inside[inside] = self.changed.rows[places[inside]] == rows[inside]
        if inside.any():
            new = self.changed
            found = gather_rows(new.offsets, new.neighbours, new.weights, places[inside], None)
            yield RowLists(rows[inside], *found)
        if not inside.all():
            yield from _base_lists(self.base, rows[~inside])

    def sizes(self, rows: Array) -> Array:
        """How many neighbours rows have, which ascend; of lists that did not change nothing but offsets is read."""
        found = np.zeros(len(rows), np.int64)
        for block in self.base.blocks:
            first, last = np.searchsorted(rows, [block.start, block.stop])
            some = rows[first:last] - block.start
            found[first:last] = block.offsets[some + 1] - block.offsets[some]
        places = np.searchsorted(self.changed.rows, rows)
        inside = places < len(self.changed.rows)
        inside[inside] = self.changed.rows[places[inside]] == rows[inside]
        found[inside] = self.changed.sizes[places[inside]]
        return found

    @cached_property
    def relation(self) -> Relation:
        """All of it: blocks of the base, one that changed merged when it is first read, and one of the new rows."""
        blocks = [self._grown(block) for block in self.base.blocks]
        if self.count > self.before:
            first = int(np.searchsorted(self.changed.rows, self.before))
            begin = int(self.changed.offsets[first])
            weights = None if self.changed.weights is None else self.changed.weights[begin:]
            offsets = self.changed.offsets[first:] - begin
            blocks.append(Block(self.before, self.count, offsets, self.changed.neighbours[begin:], weights))
        old = self.base
        return Relation(old.name, old.source, old.target, old.directed, tuple(blocks), old.reverse)

    def touches(self, block: Block) -> bool:
        """Whether some row of a block of the base gained an entry."""
        first, last = np.searchsorted(self.changed.rows, [block.start, block.stop])
        return bool(first < last)

    def _grown(self, block: Block) -> Block:
        if not self.touches(block):
            return block
        first, last = (int(at) for at in np.searchsorted(self.changed.rows, [block.start, block.stop]))
        rows, offsets = self.changed.rows[first:last] - block.start, self.changed.offsets
        grown = int((offsets[first + 1 : last + 1] - offsets[first:last]).sum())
        entries = block.entries + grown - int((block.offsets[rows + 1] - block.offsets[rows]).sum())
        merge = _Merge(block, rows, self.changed, first, entries)
        weights = None
        if block.weighted:
            weights = Unread((entries,), np.dtype(np.float32), merge.weights)
        return Block(
            block.start,
            block.stop,
            Unread((block.stop - block.start + 1,), np.dtype(np.int64), lambda: merge.offsets),  # type: ignore[arg-type]
            Unread((entries,), np.dtype(np.int32), merge.neighbours),  # type: ignore[arg-type]
            weights,  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class _Merge:
    """A block with other lists for some of its rows: what lies between two of them is copied in one go."""

    block: Block
    rows: Array  # of the block, that changed
    changed: RowLists
    first: int  # the first of them among all that changed
    entries: int

    @cached_property
    def offsets(self) -> Array:
        sizes = np.diff(self.block.offsets)
        sizes[self.rows] = self.changed.sizes[self.first : self.first + len(self.rows)]
        return np.concatenate([[0], np.cumsum(sizes)])

    def neighbours(self) -> Array:
        return self._copied(self.block.neighbours, self.changed.neighbours, np.dtype(np.int32))

    def weights(self) -> Array:
        assert self.block.weights is not None and self.changed.weights is not None
        return self._copied(self.block.weights, self.changed.weights, np.dtype(np.float32))

    def _copied(self, old: Array, new: Array, dtype: np.dtype) -> Array:
        out: Array = np.empty(self.entries, dtype)
        before, after, lists = self.block.offsets, self.offsets, self.changed.offsets
        done = 0
        for place, row in enumerate(self.rows.tolist(), self.first):
            out[after[done] : after[row]] = old[before[done] : before[row]]
            out[after[row] : after[row + 1]] = new[lists[place] : lists[place + 1]]
            done = row + 1
        out[after[done] :] = old[before[done] :]
        return out


def _base_lists(relation: Relation, rows: Array) -> Iterator[RowLists]:
    """Lists of rows that ascend, block by block; a row behind the last block has none."""
    done = 0
    for block in relation.blocks:
        first, last = (int(at) for at in np.searchsorted(rows, [block.start, block.stop]))
        done = last
        if first < last:
            some = rows[first:last]
            yield RowLists(some, *_of_block(block, some - block.start))
    if done < len(rows):
        left = rows[done:]
        weights = np.zeros(0, np.float32) if relation.weighted else None
        yield RowLists(left, np.zeros(len(left) + 1, np.int64), np.zeros(0, np.int32), weights)


def _of_block(block: Block, rows: Array) -> tuple[Array, Array, Array | None]:
    if len(rows) == block.stop - block.start:  # all of it: nothing is copied
        return block.offsets, block.neighbours, block.weights
    return gather_rows(block.offsets, block.neighbours, block.weights, rows, None)
