"""One row that is larger than memory, sorted by ranges of its neighbours."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph.ingest.buckets import Buckets


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("others", [None, 50, 3])
def test_a_hub_larger_than_memory(others: int | None, weighted: bool, tmp_path: Path) -> None:
    """Row 2 of 10 has all neighbours, itself included: a self-loop only where neighbours are among the rows."""
    count = 10 if others is None else others
    neighbours = np.tile(np.arange(count, dtype=np.int32), 2)
    rows = np.full(len(neighbours), 2, np.int32)
    weights = np.arange(len(neighbours), dtype=np.float32) if weighted else None
    buckets = Buckets(tmp_path / "b", 10, weighted, 1, memory=100, others=others)
    buckets.add(rows, neighbours, weights)
    buckets.add(np.asarray([7], np.int32), np.asarray([1], np.int32), None if weights is None else weights[:1])
    blocks = list(buckets.blocks())
    found = {
        block.start + row: (part, None if block.weights is None else block.weights[at:end].tolist())
        for block in blocks
        for row, (at, end) in enumerate(zip(block.offsets[:-1], block.offsets[1:]))
        if (part := block.neighbours[at:end].tolist())
    }
    kept = [one for one in range(count) if others is not None or one != 2]
    assert found == {
        2: (kept, [float(one + one + count) for one in kept] if weighted else None),
        7: ([1], [0.0] if weighted else None),
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_one_edge_repeated_takes_no_memory(tmp_path: Path, weighted: bool) -> None:
    """Fifteen million entries, all equal: 60 MB a column, of which no more is held than is read at a time."""
    buckets = Buckets(tmp_path / "b", 10, weighted, 1, memory=1 << 20)
    rows, neighbours = np.full(1_500_000, 2, np.int32), np.full(1_500_000, 7, np.int32)
    for _ in range(10):
        buckets.add(rows, neighbours, np.full(1_500_000, 0.5, np.float32) if weighted else None)
    tracemalloc.start()
    blocks = {block.start: block for block in buckets.blocks() if len(block.neighbours)}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert list(blocks) == [2] and blocks[2].neighbours.tolist() == [7]
    assert blocks[2].weights is None or blocks[2].weights.tolist() == [7_500_000.0]
    assert peak < 50 << 20
