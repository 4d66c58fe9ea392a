"""A task that is run again, because another in the same place died, leaves what is whole and mends what is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.io import Place, Workers
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from gamlp.propagation.blocks import sums
from gamlp.propagation.blocks.hop import BlockPass
from tests.conformance.engines import BlocksHere
from tests.propagation.store.small_store import NODES, make_graph


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
                assert again[0]["written"] > 0 and all(result["written"] == 0 for result in again[1:])
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


@dataclass(frozen=True)
class Killed(BlocksHere):
    """Ends before its first hop."""

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(work: Any, numbers: Sequence[int], stage: str, *rest: Any) -> list[dict[str, Any]]:
                if stage.startswith("hop 1"):
                    raise KeyboardInterrupt
                return workers.tasks(work, numbers, stage, *rest)

            yield Workers(tasks, workers.slots)


def test_labels_that_changed_after_a_kill_are_the_new_ones(tmp_path: Path) -> None:
    plan = Plan(features=None, labels=LabelSignal(hops=2))
    old, new = make_graph(train=20), make_graph(train=10)
    with pytest.raises(KeyboardInterrupt):
        Killed().propagate(old, plan, tmp_path / "store")
    found = BlocksHere().propagate(new, plan, tmp_path / "store")
    right = LocalPropagator().propagate(new, plan, tmp_path / "local")
    rows = np.arange(NODES)
    assert np.array_equal(found.signals["labels"].gather(rows), right.signals["labels"].gather(rows))


def test_kept_rows_are_those_of_this_run_and_not_of_one_before(tmp_path: Path) -> None:
    """Behind a URL workers keep copies: ten other rows are another file."""
    graph, place = make_graph(), Place.of(f"memory://{tmp_path.name}") / "store"
    assert graph.nodes.split is not None
    for part in ("valid", "test"):
        plan = Plan(features=FeatureSignal(hops=2), rows=part)
        found = BlocksHere().propagate(graph, plan, place)
        right = LocalPropagator().propagate(graph, plan, tmp_path / part)
        rows = graph.nodes.split.rows(part)
        assert np.array_equal(found.signals["features"].gather(rows), right.signals["features"].gather(rows))
        place.remove()


def test_groups_begin_without_the_matrix_of_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    groups, plain = sums.BlockHop._groups, BlockPass.enter

    def looked(self: sums.BlockHop, room: int) -> list[tuple[int, int]]:
        seen.append(getattr(sums._kept, "memory", None))
        return groups(self, room)

    def enter(self: BlockPass, index: int) -> dict[str, Any]:  # by its name it is sent to tasks
        made = plain(self, index)
        sums._kept.memory = np.zeros(1, np.uint8)  # as a whole block would have left it
        return made

    monkeypatch.setattr(sums.BlockHop, "_groups", looked)
    monkeypatch.setattr(BlockPass, "enter", enter)
    BlocksHere(memory=4000).propagate(make_graph(), Plan(features=FeatureSignal(hops=2)), tmp_path / "s")
    assert seen and all(each is None for each in seen)
