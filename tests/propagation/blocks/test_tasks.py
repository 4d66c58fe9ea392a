"""A task that is run again, because another in the same place died, leaves what is whole and mends what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.graph import Graph
from gamlp.io import Workers
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan
from tests.conformance.engines import BlocksHere


@dataclass(frozen=True)
class Twice(BlocksHere):
    """Runs every block of a hop twice, the second time after the first block's file was cut."""

    work: Path = Path()

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(work: Any, numbers: Sequence[int], stage: str, *rest: Any) -> list[dict[str, Any]]:
                first = workers.tasks(work, numbers, stage, *rest)
                if stage != "hop 1 of 2":
                    return first
                states = {path.name: path for path in self.work.rglob("hop1/*.npy")}
                kept = states["00001.npy"].stat().st_mtime_ns
                states["00000.npy"].write_bytes(states["00000.npy"].read_bytes()[:-8])
                again = workers.tasks(work, numbers, stage, *rest)
                assert again[0]["read"] > 0 and all(result["read"] == 0 for result in again[1:])
                assert states["00001.npy"].stat().st_mtime_ns == kept
                return first

            yield Workers(tasks, workers.slots)


def test_blocks_that_are_whole_are_left_and_others_mended(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_arrays(rng.integers(0, 50, (2, 200)), rng.normal(size=(50, 6)))
    plan = Plan(features=FeatureSignal(hops=2))
    ours = Twice(blocks=4, work=tmp_path / "ours").propagate(graph, plan, tmp_path / "ours").gather(np.arange(50)).x
    theirs = LocalPropagator().propagate(graph, plan, tmp_path / "theirs").gather(np.arange(50)).x
    assert np.array_equal(ours, theirs)
