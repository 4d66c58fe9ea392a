"""Entries (row, neighbour, weight) of a task, packed by relation and block of rows: few large values to move."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.graph.graph import Array
from gamlp.graph.joins import Join

PACKS = pa.schema(
    [
        ("relation", pa.string()),
        ("block", pa.int32()),
        ("rows", pa.binary()),
        ("neighbours", pa.binary()),
        ("weights", pa.binary()),
        ("note", pa.string()),
    ]
)


class Packs:
    """Entries by relation until there are enough of them to be put into packs by block."""

    def __init__(self) -> None:
        self.entries = 0
        self._parts: dict[tuple[str, int], list[tuple[Array, Array, Array | None]]] = {}

    def add(self, join: Join, sources: Array, targets: Array, weights: Array | None, *sizes: int) -> int:
        """Row = target, neighbour = source; both ways where edges have no direction, or in a reverse.

        `sizes`: rows of a block of sources and of targets. Returns how many entries the relation itself is given.
        """
        own = self._parts.setdefault((join.name, sizes[1]), [])
        own.append((targets, sources, weights))
        if join.symmetric:
            own.append((sources, targets, weights))
        elif join.reverse is not None:
            self._parts.setdefault((join.reverse, sizes[0]), []).append((sources, targets, weights))
        count = len(sources) * (2 if join.symmetric else 1)
        self.entries += count if join.reverse is None else 2 * count
        return count

    def taken(self) -> list[tuple[Any, ...]]:
        """(relation, block, rows, neighbours, weights, note) of all entries; there are none afterwards."""
        found: list[tuple[Any, ...]] = []
        for (relation, size), parts in self._parts.items():
            rows, neighbours = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
            weights = None if parts[0][2] is None else np.concatenate([part[2] for part in parts])
            block = rows // size
            order = np.argsort(block, kind="stable")
            bounds = np.flatnonzero(np.diff(block[order], prepend=-1, append=-1))
            for begin, end in pairwise(bounds):
                some = order[begin:end]
                heavy = None if weights is None else weights[some].tobytes()
                pack = rows[some].tobytes(), neighbours[some].tobytes(), heavy
                found.append((relation, int(block[some[0]]), *pack, None))
        self._parts, self.entries = {}, 0
        return found


def pack_batch(packs: list[tuple[Any, ...]]) -> Any:
    """Packs, and notes in their place, as rows for Spark."""
    columns = list(zip(*packs)) if packs else [()] * len(PACKS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PACKS)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKS)
