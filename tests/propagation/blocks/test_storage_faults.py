"""A store that answers slowly, loses one call in fifty, or all of them: the right bytes, or one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import fsspec
import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split
from gamlp.io import Place, open_rows, patience, put_rows
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from tests.conformance.engines import BlocksHere
from tests.propagation.blocks.test_parcels import Told, contents
from tests.watched_store import watched

COUNT = 200
PLANS = {
    "all rows": Plan(features=FeatureSignal(hops=2, scaling="standard"), labels=LabelSignal(hops=2)),
    "some rows": Plan(features=FeatureSignal(hops=2, dtype="float16"), rows="split"),
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "WAITS", (0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    rng = np.random.default_rng(2)
    split = Split.of(COUNT, train=np.arange(0, 60), valid=np.arange(60, 80), test=np.arange(80, 120))
    features, labels = rng.normal(size=(COUNT, 12)).astype(np.float32), rng.integers(0, 3, COUNT)
    made = Graph.from_arrays(rng.integers(0, COUNT, (2, 700)), features, labels, split=split)
    return made.save(tmp_path_factory.mktemp("graph") / "graph")


@pytest.fixture
def root(graph: Graph, tmp_path: Path) -> Iterator[Place]:
    place = Place.of(f"memory://{tmp_path.name}")
    assert isinstance(graph.folder, Path)
    for path in graph.folder.rglob("*"):
        if path.is_file():
            (place / "graph" / path.relative_to(graph.folder).as_posix()).put_file(path)
    yield place
    place.remove()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("fails", [50, 29])
def test_calls_that_fail_are_made_again(
    graph: Graph, root: Place, tmp_path: Path, name: str, fails: int, caplog: pytest.LogCaptureFixture
) -> None:
    LocalPropagator().propagate(graph, PLANS[name], tmp_path / "local")
    with watched(fails=fails) as watch, caplog.at_level(logging.WARNING, "gamlp.io"):
        for _ in range(20):
            try:
                BlocksHere(blocks=5).propagate(Graph.open(root / "graph"), PLANS[name], root / "store")
                break
            except GamlpError as error:  # what cannot be asked again: run the same command again
                assert "cannot be reached" in str(error) and "\n" not in str(error)
        else:
            pytest.fail("it never came to an end")
    assert watch.failed > 10
    told = [record.getMessage() for record in caplog.records if "asked again in" in record.getMessage()]
    assert len(told) > 0.8 * watch.failed and "Connection reset by peer" in told[0] and root.url in told[0]
    assert contents(root / "store") == contents(Place.of(tmp_path / "local"))


def test_a_store_that_answers_slowly_is_waited_for(graph: Graph, root: Place, tmp_path: Path) -> None:
    plan = Plan(features=FeatureSignal(hops=1))
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    with watched(seconds=0.005) as watch:
        BlocksHere(blocks=2).propagate(Graph.open(root / "graph"), plan, root / "store")
    assert watch.calls.total() > 50
    assert contents(root / "store") == contents(Place.of(tmp_path / "local"))


def test_of_two_drivers_the_second_is_refused_and_the_first_goes_on(graph: Graph, root: Place, tmp_path: Path) -> None:
    plan, remote, refused = PLANS["all rows"], Graph.open(root / "graph"), []
    LocalPropagator().propagate(graph, plan, tmp_path / "local")

    def second() -> None:
        with pytest.raises(GamlpError, match="another run is writing this store; wait for it to end"):
            BlocksHere(blocks=3).propagate(remote, plan, root / "store")
        refused.append(True)

    Told(blocks=5, before_end="hop 1 of 2", then=second).propagate(remote, plan, root / "store")
    assert refused and contents(root / "store") == contents(Place.of(tmp_path / "local"))


def test_the_lease_of_a_driver_that_died_is_passed_over_when_it_is_stale(graph: Graph, root: Place) -> None:
    plan, remote = PLANS["some rows"], Graph.open(root / "graph")
    lease = root / "store" / ".lock-00000001"
    lease.put(b'{"seen": 0}')
    with pytest.raises(GamlpError, match="another run is writing this store"):
        BlocksHere(blocks=3).propagate(remote, plan, root / "store")
    system, path = fsspec.core.url_to_fs(lease.url)
    system.store[path].modified -= timedelta(seconds=100)
    BlocksHere(blocks=3).propagate(remote, plan, root / "store")
    assert contents(root / "store") and not lease.exists()


def test_a_store_that_is_gone_is_one_sentence_after_a_few_calls(root: Place) -> None:
    graph = Graph.open(root / "graph")
    with watched(fails=1) as watch:
        with pytest.raises(GamlpError, match=r"cannot be reached \(.*Connection reset by peer\)"):
            BlocksHere(blocks=2).propagate(graph, PLANS["all rows"], root / "store")
        assert watch.calls.total() <= 4 * (1 + len(patience.WAITS))
        with pytest.raises(GamlpError, match="cannot be reached"):
            (root / "graph").exists()  # not: there is nothing


def test_of_many_ranges_those_that_failed_are_asked_for_again(root: Place) -> None:
    values = np.arange(400 * 100_000, dtype=np.uint8).reshape(400, 100_000)
    put_rows(root / "rows.npy", values)
    with watched(fails=11) as watch:
        assert np.array_equal(open_rows(root / "rows.npy")[np.arange(0, 400, 4)], values[::4])
        assert watch.failed > 5 and watch.calls["read"] - watch.failed <= 102
        assert watch.read <= 100 * 100_000 + 2048


def test_answers_are_final(root: Place) -> None:
    with watched() as watch:
        assert not (root / "nothing").exists() and (root / "nothing").size() is None
        with pytest.raises(FileNotFoundError):
            (root / "nothing").read()
    assert watch.calls.total() == 3
