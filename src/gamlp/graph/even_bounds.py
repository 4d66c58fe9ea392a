"""Ranges of rows of several types with about as many rows and entries each, of all relations that lead to them.

Where offsets are mapped, few of them are looked at. Where they lie elsewhere, tasks count entries by cells of rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.entries import CHUNK, ends_of, refuse_strays, turned_sizes
from gamlp.graph.graph import Graph, Relation

Asked = tuple[str, bool]  # a relation, and whether its edges are turned
_CELLS = 64  # of rows, for every range that is wanted


@dataclass(frozen=True)
class EntryCells:
    """How many entries of relations lead to each cell of `sizes[i]` rows; `count(i)` is a task."""

    open: Callable[[], Graph]
    asked: tuple[Asked, ...]
    sizes: tuple[int, ...]

    def count(self, index: int) -> dict[str, Any]:
        """One task: all of a relation; little of it is held at a time."""
        graph, (name, turned), size = self.open(), self.asked[index], self.sizes[index]
        relation = graph.relations[name]
        rows = graph.node_types[ends_of(relation, turned)[1]].count
        cells = np.zeros(-(-rows // size), np.int64)
        for block in relation.blocks:
            if turned:
                for at in range(0, block.entries, CHUNK):
                    sources = np.asarray(block.neighbours[at : at + CHUNK])
                    refuse_strays(graph, relation, sources)
                    cells += np.bincount(sources // size, minlength=len(cells))
            elif block.stop > block.start:
                first = block.start // size
                inner = np.arange(first + 1, -(-block.stop // size)) * size
                edges = np.concatenate([[block.start], inner, [block.stop]])
                cells[first : first + len(edges) - 1] += np.diff(np.asarray(block.offsets[edges - block.start]))
        return {"cells": cells.tolist()}


def cell_sizes(graph: Graph, asked: Collection[Asked], parts: int) -> dict[Asked, int]:
    """Rows of a cell of every relation."""
    counts = {(name, turned): ends_of(graph.relations[name], turned)[1] for name, turned in sorted(asked)}
    return {key: max(1, -(-graph.node_types[target].count // (_CELLS * parts))) for key, target in counts.items()}


class _Entries(Protocol):
    """Entries of a relation that lead to rows before one."""

    total: int

    def before(self, row: int) -> int: ...


class _ByOffsets:
    def __init__(self, relation: Relation) -> None:
        self._blocks = relation.blocks
        self._before = np.cumsum([0, *(block.entries for block in relation.blocks)]).tolist()
        self.total: int = self._before[-1]

    def before(self, row: int) -> int:
        index = bisect_left(self._blocks, row, key=lambda block: block.stop)
        block = self._blocks[index]
        return int(self._before[index] + int(block.offsets[row - block.start]))


class _ByCells:
    """Inside a cell entries are taken to lie evenly."""

    def __init__(self, cells: Array, size: int) -> None:
        self._before, self._size = np.concatenate([[0], np.cumsum(cells)]).tolist(), size
        self.total: int = self._before[-1]

    def before(self, row: int) -> int:
        cell, inside = divmod(row, self._size)
        if cell + 1 >= len(self._before):
            return self.total
        low, high = self._before[cell], self._before[cell + 1]
        return int(low + (high - low) * inside // self._size)


def even_bounds(
    graph: Graph,
    types: Sequence[str],
    asked: Collection[Asked],
    parts: int,
    cells: Mapping[Asked, Sequence[int]] | None,
) -> tuple[int, ...]:
    """Rows of all types, one type after the other, in about `parts` ranges. `cells`: as counted; None: by offsets."""
    sizes = cell_sizes(graph, asked, parts)
    kinds: list[tuple[int, list[_Entries]]] = []
    for node_type in types:
        into: list[_Entries] = []
        for name, turned in sorted(asked):
            relation = graph.relations[name]
            if ends_of(relation, turned)[1] != node_type or not relation.blocks:
                continue
            if cells is not None:
                into.append(_ByCells(np.asarray(cells[name, turned]), sizes[name, turned]))
            elif (read := turned_sizes(graph, relation) if turned else relation).blocks:
                into.append(_ByOffsets(read))
        kinds.append((graph.node_types[node_type].count, into))
    totals = [count + sum(entries.total for entries in into) for count, into in kinds]
    bounds = [0]
    for part in range(1, parts):
        left, at = sum(totals) * part // parts, 0
        for (count, into), total in zip(kinds, totals):
            if left <= total:
                bounds.append(at + bisect_left(range(count), left, key=partial(_work, into)))
                break
            left, at = left - total, at + count
    return tuple(sorted({*bounds, sum(count for count, _ in kinds)}))


def _work(into: Sequence[_Entries], row: int) -> int:
    return row + sum(entries.before(row) for entries in into)
