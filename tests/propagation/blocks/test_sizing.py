"""The arithmetic of docs/spark.md, against what a run writes and holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, Plan
from gamlp.propagation.blocks.sizing import Sizing, full_rounds, least_blocks, small_blocks_together
from tests.conformance.engines import BlocksHere


def test_what_is_pulled_and_written_stays_within_the_figures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count, width, hops = 400, 16, 2
    graph = Graph.from_arrays(rng.integers(0, count, (2, 1500)), rng.normal(size=(count, width)))
    memory = 60_000
    sizing = Sizing(count, graph.relation.entries, width, hops, memory=memory, slots=3)
    assert sizing.blocks == full_rounds(least_blocks(count, graph.relation.entries, 4 * width, memory), 3) > 2
    results: list[tuple[str, list[dict[str, int]]]] = []

    class Noting(BlocksHere):
        def workers(self):  # type: ignore[no-untyped-def]
            from contextlib import contextmanager
            from dataclasses import replace

            @contextmanager
            def noted():  # type: ignore[no-untyped-def]
                with BlocksHere.workers(self) as workers:

                    def tasks(work, numbers, stage, progress, together):  # type: ignore[no-untyped-def]
                        found = workers.tasks(work, numbers, stage, progress)
                        results.append((stage, found))
                        return found

                    yield replace(workers, tasks=tasks)

            return noted()

    store = Noting(memory=memory).propagate(graph, Plan(features=FeatureSignal(hops=hops)), tmp_path / "store")
    for k in range(1, hops + 1):
        found = next(found for stage, found in results if stage == f"hop {k} of {hops}")
        # Here one worker does all blocks: the hop before is pulled once.
        assert sizing.state <= sum(result["read"] for result in found) <= sizing.pulled
        assert sizing.state <= sum(result["written"] for result in found) <= sizing.state + 128 * len(found)
    assert sum(file.bytes for _, file in store.files()) == pytest.approx(sizing.store, rel=0.05)


def test_more_slots_take_fewer_rounds_and_seconds() -> None:
    few, many = (Sizing(10_000_000, 200_000_000, 128, 5, slots=slots) for slots in (2, 128))
    assert few.blocks % 2 == 0 and many.blocks % 128 == 0
    assert many.rounds < few.rounds and many.kernel_seconds(5e6) < few.kernel_seconds(5e6)
    assert few.kernel_seconds(1e6) == pytest.approx(200_000_000 / 2 / 1e6)
    assert few.storage_seconds(1e9) == pytest.approx((few.pulled + 4 * 200_000_000 + few.state) / 1e9)


def test_behind_a_url_parcels_spare_what_ranges_would_read_through() -> None:
    """A billion nodes, twenty billion entries, 1,024 blocks: a block wants two in a hundred rows of another."""
    sizing = Sizing(10**9, 2 * 10**10, 64, 1, memory=1 << 30, slots=1024)
    assert sizing.blocks == 1024
    remote, row_bytes = sizing.remote, 256
    assert remote.whole == 1024 * 10**9 * row_bytes and remote.ranges > 0.9 * remote.whole
    assert remote.read == pytest.approx(sizing.pulled, rel=0.01) and remote.read < remote.whole / 40
    assert remote.sent == pytest.approx(sizing.pulled - sizing.state, rel=0.01)
    assert remote.requests < 2.1 * 1024**2 + 10**5
    few = Sizing(10**6, 10**8, 64, 1, slots=4)  # nearly every row is wanted: files are read
    assert few.remote.sent == 0 and few.remote.read <= few.remote.whole
    assert sizing.remote_seconds(1e9, 1e9) > sizing.storage_seconds(1e9)


def test_halves_need_less_storage_and_kept_rows_less_still() -> None:
    whole = Sizing(10_000_000, 200_000_000, 128, 5)
    half = Sizing(10_000_000, 200_000_000, 128, 5, "float16")
    few = Sizing(10_000_000, 200_000_000, 128, 5, kept=100_000)
    assert half.storage < whole.storage and few.storage < whole.storage and few.shards < whole.shards


def test_small_blocks_share_tasks_and_large_ones_do_not() -> None:
    assert small_blocks_together(8, 1 << 20, 2) == 4  # no slot is idle
    assert small_blocks_together(100, 1 << 30, 2) == 4  # enough to do
    assert small_blocks_together(100, 64 << 30, 2) == 1
    assert small_blocks_together(1, 0, 8) == 1
