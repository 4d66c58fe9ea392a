"""Rows with more neighbours than a block should have: split over tasks, and the local engine's bytes all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from gamlp.io import Place
from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Operator, Plan
from gamlp.propagation.blocks.hubs import UNIT, Hub
from gamlp.propagation.blocks.layout import Blocks
from gamlp.propagation.blocks.needs import Needs
from tests.propagation.blocks.test_parcels import Told, contents

LEAVES = 3 * UNIT - 1000  # the hub itself comes into one of its parts, and moves what follows
HUBS = (0, 20_000)


def stars(*, weighted: bool, directed: bool) -> Graph:
    """Two hubs that hear all others, one in front of them and one between, and some edges more."""
    rng = np.random.default_rng(0)
    others = np.setdiff1d(np.arange(LEAVES + 2), HUBS)
    ends = [np.stack([others, np.full(LEAVES, hub)]) for hub in HUBS]
    edges = np.concatenate([*ends, rng.choice(others, (2, 5000))], axis=1)
    weights = rng.uniform(0.5, 2, edges.shape[1]).astype(np.float32) if weighted else None
    none, kept = np.zeros(0, np.int64), np.concatenate([[HUBS[1]], rng.choice(others, 400, replace=False)])
    split = Split.of(LEAVES + 2, train=none, valid=none, test=np.sort(kept))
    features = rng.normal(size=(LEAVES + 2, 5)).astype(np.float32)
    return Graph.from_arrays(edges, features, split=split, weights=weights, directed=directed)


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place.of(f"memory://{tmp_path.name}/store" if request.param == "url" else str(tmp_path / "store"))
    yield place
    place.remove()


CASES = {
    "plain": (False, False, Plan(features=FeatureSignal(hops=2))),
    "weighted, directed": (True, True, Plan(features=FeatureSignal(hops=2, operator=Operator(r=0.3)))),
    "no loops, halves": (
        False,
        True,
        Plan(features=FeatureSignal(hops=2, dtype="bfloat16", operator=Operator(r=0.0, loops=False))),
    ),
    "weighted, some rows": (True, False, Plan(features=FeatureSignal(hops=2, dtype="float16"), rows="test")),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("store", ["folder", "url"], indirect=True)
@pytest.mark.parametrize("memory", [None, 600_000], ids=["", "little memory"])
def test_the_store_is_the_local_engines(tmp_path: Path, store: Place, name: str, memory: int | None) -> None:
    weighted, directed, plan = CASES[name]
    graph = stars(weighted=weighted, directed=directed)
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    engine = Told(blocks=24, memory=memory)
    engine.propagate(graph, plan, store)
    assert contents(store) == contents(Place.of(tmp_path / "local"))
    hubs = [key for key in engine.answers if key.endswith(": hubs")]
    assert hubs == ["hop 1 of 2: hubs", "hop 2 of 2: hubs"]
    each = LEAVES // UNIT + 1
    assert [len(engine.answers[key]) for key in hubs] == [2 * each, each if plan.rows == "test" else 2 * each]


def test_no_task_looks_at_more_entries_than_a_block_should_have(tmp_path: Path) -> None:
    graph = stars(weighted=False, directed=True).save(tmp_path / "graph")
    blocks = Blocks.of(graph, Place.of(tmp_path / "graph"), 12)
    share = (graph.relation.entries + graph.nodes.count) / 12
    assert sorted(hub.row for hub in blocks.hubs) == list(HUBS)
    needs = Needs(blocks, Place.of(tmp_path / "needs"))
    answers = [needs.find(index) for index in range(blocks.readers)]
    assert max(answer["entries"] for answer in answers) <= max(2 * UNIT, 2 * share)
    assert sum(answer["entries"] for answer in answers) == graph.relation.entries  # each by one reader
    assert needs.missing() == []


@pytest.mark.parametrize("loop", [None, 0, 1, UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 2 * UNIT + 5])
@pytest.mark.parametrize("entries", [2 * UNIT + 5, 2 * UNIT - 1, 2 * UNIT, 3 * UNIT])
def test_parts_are_the_row_one_after_the_other(entries: int, loop: int | None) -> None:
    loop = None if loop is None else min(loop, entries)
    hub, neighbours = Hub(0, 0, entries, UNIT), np.arange(entries)
    expected = neighbours if loop is None else np.insert(neighbours, loop, -1)
    found = []
    for part in range(hub.parts):
        low, high = hub.stored(part)
        listed, at = hub.listed(part, loop)
        own = neighbours[low:high][listed]
        found.append(own if at is None else np.insert(own, at, -1))
        assert len(found[-1]) == min(UNIT, len(expected) - part * UNIT)
    assert np.array_equal(np.concatenate(found), expected)


def test_a_run_that_was_broken_off_among_the_parts_goes_on(tmp_path: Path) -> None:
    graph, plan = stars(weighted=False, directed=False), Plan(features=FeatureSignal(hops=2))
    LocalPropagator().propagate(graph, plan, tmp_path / "local")

    def stop() -> None:
        (lost,) = (tmp_path / "store").rglob("hop2/hubs/00001.npy")
        lost.unlink()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Told(blocks=24, before_end="hop 2 of 2: hubs", then=stop).propagate(graph, plan, tmp_path / "store")
    again = Told(blocks=24)
    again.propagate(graph, plan, tmp_path / "store")
    assert len(again.answers["hop 2 of 2: hubs"]) == 1 and "hop 1 of 2: hubs" not in again.answers
    assert contents(Place.of(tmp_path / "store")) == contents(Place.of(tmp_path / "local"))
    assert HopStore.open(tmp_path / "store").files()
