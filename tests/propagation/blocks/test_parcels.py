"""Behind a URL blocks send each other the rows that are wanted: few bytes are read, and the store is the local one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gamlp.propagation.blocks.parcels
from gamlp.graph import Graph, Split
from gamlp.io import Place, Workers
from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Plan
from tests.conformance.engines import BlocksHere
from tests.watched_store import watched

COUNT, WIDTH, BLOCKS = 12_000, 64, 20
PLAN = Plan(features=FeatureSignal(hops=3))


@dataclass(frozen=True)
class Told(BlocksHere):
    """Keeps what tasks answered; after the stage `before_end` it calls `then`."""

    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    before_end: str = ""
    then: Any = None

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(work: Any, numbers: Sequence[int], stage: str, *rest: Any) -> list[dict[str, Any]]:
                self.answers[stage] = workers.tasks(work, numbers, stage, *rest)
                if stage == self.before_end:
                    self.then()
                return self.answers[stage]

            yield Workers(tasks, workers.slots)


def random_graph(kept: float = 1.0) -> Graph:
    """Neighbours lie anywhere: a block wants about two in a hundred rows of another."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, COUNT, (2, COUNT // 5 * 2))
    features, none = rng.normal(size=(COUNT, WIDTH)), np.zeros(0, np.int64)
    split = Split.of(COUNT, train=none, valid=none, test=np.flatnonzero(rng.random(COUNT) < kept))
    return Graph.from_arrays(edges, features.astype(np.float32), split=split, directed=True)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph()


@pytest.fixture(scope="module")
def expected(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    place = Place.of(tmp_path_factory.mktemp("local") / "store")
    LocalPropagator().propagate(graph, PLAN, place)
    return contents(place)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Place]:
    place = Place.of(f"memory://{tmp_path.name}") / "store"
    yield place
    place.remove()


def contents(store: Place) -> dict[str, bytes]:
    return {place.url.removeprefix(store.url): place.read() for place, _ in HopStore.open(store).files()}


def test_what_is_wanted_is_read_and_little_else(graph: Graph, store: Place, expected: dict[str, bytes]) -> None:
    state, read = COUNT * WIDTH * 4, []
    with watched() as watch:
        engine = Told(blocks=BLOCKS, before_end="hop 1 of 3", then=lambda: read.append(watch.read))
        engine.propagate(graph, PLAN, store)
    assert contents(store) == expected
    own, others = state, graph.relation.entries * WIDTH * 4
    for k in (1, 2, 3):
        told = sum(answer["read"] for answer in engine.answers[f"hop {k} of 3"])
        headers = BLOCKS * BLOCKS * 1024
        assert own <= told <= own + others + headers < BLOCKS * state / 8  # whole files would be twenty states
    assert read[0] >= sum(answer["read"] for answer in engine.answers["hop 1 of 3"])


def test_parcels_lie_in_several_files_where_they_are_many(
    graph: Graph, store: Place, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gamlp.propagation.blocks.parcels, "_FILE", 40 * WIDTH * 4)
    seen: list[list[str]] = []

    def look() -> None:
        work = store / "work"
        folder = next(name for name in work.names() if name.startswith("blocks-"))
        moved = next(name for name in (work / folder).names() if name.startswith("pass-"))
        seen.append((work / folder / moved / "hop1" / "parcels").names())
        assert "parcels" in (work / folder / moved / "hop0").names()  # what is read goes when all have read it

    Told(blocks=BLOCKS, before_end="hop 1 of 3", then=look).propagate(graph, PLAN, store)
    assert contents(store) == expected
    assert len(seen[0]) > 3 * BLOCKS and seen[0][0] == "00000-000.npy"


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.01])
def test_where_some_rows_are_kept_parcels_serve_the_last_hop_too(store: Place, tmp_path: Path, kept: float) -> None:
    graph, plan = random_graph(kept), Plan(features=FeatureSignal(hops=2, dtype="bfloat16"), rows="test")
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    files: list[str] = []
    engine = Told(blocks=BLOCKS, before_end="hop 1 of 2", then=lambda: files.extend(_walk(store / "work")))
    engine.propagate(graph, plan, store)
    assert contents(store) == contents(Place.of(tmp_path / "local"))
    told = sum(answer["read"] for answer in engine.answers["hop 2 of 2"])
    assert told <= (COUNT + graph.relation.entries) * WIDTH * 2 + 2 * BLOCKS * BLOCKS * 1024
    assert any("/hop1/parcels/" in name for name in files) is (kept > 0.1)  # for few rows ranges are enough


def test_parcels_that_are_gone_are_not_missed(graph: Graph, store: Place, expected: dict[str, bytes]) -> None:
    def lose() -> None:
        gone = [name for name in _walk(store / "work") if "/hop1/parcels/" in name]
        for name in gone[::2]:
            Place.of(name).remove()
        assert gone

    Told(blocks=BLOCKS, before_end="hop 1 of 3", then=lose).propagate(graph, PLAN, store)
    assert contents(store) == expected


def test_a_run_that_was_broken_off_goes_on(graph: Graph, store: Place, expected: dict[str, bytes]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Told(blocks=BLOCKS, before_end="hop 2 of 3", then=stop).propagate(graph, PLAN, store)
    again = Told(blocks=BLOCKS)
    again.propagate(graph, PLAN, store)
    assert "hop 3 of 3" in again.answers and "wanted rows" not in again.answers
    assert contents(store) == expected


def test_near_neighbours_are_read_in_ranges(store: Place) -> None:
    """Of a chain a block wants a row or two of the next: no parcel is cheaper than these."""
    graph = Graph.from_arrays(np.stack([np.arange(COUNT - 1), np.arange(1, COUNT)]), np.ones((COUNT, 8), np.float32))
    names: list[str] = []
    engine = Told(blocks=4, before_end="hop 1 of 3", then=lambda: names.extend(_walk(store / "work")))
    engine.propagate(graph, PLAN, store)
    told = sum(answer["read"] for answer in engine.answers["hop 2 of 3"])
    assert told < 1.1 * COUNT * 8 * 4
    assert any("/hop1/" in name for name in names) and not any("/parcels/" in name for name in names)


def _walk(place: Place) -> list[str]:
    files = [(place / name).url for name in place.sizes()]
    folders = [name for name in place.names() if name not in place.sizes()]
    return [*files, *(name for folder in folders for name in _walk(place / folder))]
