"""Views on the block engine: edges of several relations by tasks, the local engine's bytes, going on after a stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, union_by_tasks, union_graphs, view_of
from gamlp.io import Place, Workers
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Operator, Plan
from tests.conformance.engines import BlocksHere
from tests.conformance.test_bytes import fingerprints
from tests.propagation.typed import SUBSETS, typed_graph

APART = Plan(
    features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=2), subsets=SUBSETS[1:4], separate_types=True
)
Stages = list[tuple[str, tuple[int, ...]]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return typed_graph().save(tmp_path_factory.mktemp("graph") / "graph")


def run_here(stages: Stages, work: Any, numbers: Sequence[int], stage: str) -> list[dict[str, Any]]:
    stages.append((stage, tuple(numbers)))
    return [work(number) for number in numbers]


@dataclass(frozen=True)
class Watched(BlocksHere):
    """Notes its stages; the `nth` time that a stage is called `stop` it does one task of it, and is interrupted."""

    stages: Stages = field(default_factory=list)
    stop: str | None = None
    nth: int = 1

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(work: Any, numbers: Sequence[int], stage: str, *rest: Any) -> list[dict[str, Any]]:
                self.stages.append((stage, tuple(numbers)))
                if stage == self.stop and [name for name, _ in self.stages].count(stage) == self.nth:
                    workers.tasks(work, list(numbers)[:1], stage, *rest)
                    raise KeyboardInterrupt
                return workers.tasks(work, numbers, stage, *rest)

            yield Workers(tasks, workers.slots)


@pytest.mark.parametrize("one_way", [False, True], ids=["with reverses", "directed"])
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_tasks_make_the_edges_that_one_machine_makes(tmp_path: Path, one_way: bool, parts: int) -> None:
    graph = typed_graph(one_way=one_way).save(tmp_path / "graph")
    views = [view_of(graph, subset) for subset in SUBSETS]
    stages: Stages = []
    places = union_by_tasks(
        graph,
        Place.of(tmp_path / "graph"),
        views,
        Place.of(tmp_path / "tasks"),
        parts,
        1 << 30,
        lambda *asked: run_here(stages, *asked),
    )
    local = union_graphs(graph, views, tmp_path / "local")
    assert stages == [("edges of views", tuple(range(parts)))]  # one pass over the relations, for all views
    for view in views:
        ours, theirs = Graph.open(places[view.name]), local[view.name]
        assert ours.nodes.count == theirs.nodes.count == view.count
        assert ours.relation.directed == theirs.relation.directed == one_way
        assert ours.relation.weighted == theirs.relation.weighted
        for mine, own in zip(_whole(ours), _whole(theirs), strict=True):
            assert np.array_equal(mine, own)
    assert sorted(Place.of(tmp_path / "tasks").names()) == sorted(place.name for place in places.values())


def _whole(graph: Graph) -> list[np.ndarray]:
    edges = list(graph.relation.edges())
    parts = [np.concatenate([edge[at] for edge in edges]) for at in (0, 1)]
    return [*parts, np.concatenate([edge[2] for edge in edges])] if graph.relation.weighted else parts


def test_tasks_are_as_many_as_memory_makes_necessary_and_hold_even_shares(graph: Graph, tmp_path: Path) -> None:
    views, stages = [view_of(graph, SUBSETS[-1])], []
    entries = sum(relation.entries for relation in graph.relations.values())
    place = Place.of(graph.folder or "")
    union_by_tasks(
        graph, place, views, Place.of(tmp_path), 1, entries * 128 // 4, lambda *asked: run_here(stages, *asked)
    )
    assert stages == [("edges of views", (0, 1, 2, 3))]
    sizes = [len(block.neighbours) for block in Graph.open(tmp_path / Place.of(tmp_path).names()[0]).relation.blocks]
    assert len(sizes) == 4 and max(sizes) < 1.5 * sum(sizes) / 4


@pytest.mark.parametrize("direction", [None, "out"])
def test_behind_a_url_ranges_hold_even_shares_too(tmp_path: Path, direction: Any) -> None:
    """Edges are counted by tasks; the first rows have most of them, and equal rows would be far from equal work."""
    rng = np.random.default_rng(1)
    edges = np.minimum(rng.exponential(150, (2, 30_000)).astype(np.int64), 1999)
    graph = Graph.from_arrays(edges, count=2000, directed=True).save(tmp_path / "graph")
    root = Place.of(f"memory://{tmp_path.name}") / "graph"
    fsspec.filesystem("memory").put(str(tmp_path / "graph"), f"/{tmp_path.name}/graph", recursive=True)
    view = replace(view_of(graph, graph.relation_pairs), direction=direction)
    stages: Stages = []
    places = union_by_tasks(
        Graph.open(root), root, [view], root / "views", 8, 1 << 30, lambda *asked: run_here(stages, *asked)
    )
    assert [name for name, _ in stages] == ["entries of relations", "edges of views"]
    made = Graph.open(places[view.name]).relation
    work = [block.entries + block.stop - block.start for block in made.blocks]
    assert len(work) == 8 and max(work) < 1.15 * sum(work) / 8
    assert max(np.diff([block.start for block in made.blocks])) > 4 * min(
        np.diff([block.start for block in made.blocks])
    )
    root.remove()


PLANS = {
    "apart, folds": APART,
    "together, halves": Plan(
        features=FeatureSignal(hops=3, dtype="float16", scaling="standard"),
        labels=LabelSignal(hops=3),
        subsets=(SUBSETS[0], SUBSETS[4]),
    ),
    "split rows, directed": Plan(
        features=FeatureSignal(hops=2, dtype="bfloat16", scaling="l2", operator=Operator(r=0.0)),
        subsets=SUBSETS[1:3],
        rows="split",
    ),
    "one view, directed": Plan(features=FeatureSignal(hops=2), labels=LabelSignal(hops=3), separate_types=True),
    "one view, no hops": Plan(features=FeatureSignal(hops=0, scaling="row"), labels=LabelSignal(hops=1)),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_store_is_the_local_engines(tmp_path: Path, name: str) -> None:
    plan, one_way = PLANS[name], name.endswith("directed")
    graph = typed_graph(one_way=one_way, width=None if plan.separate_types else 6).save(tmp_path / "graph")
    LocalPropagator().propagate(graph, plan, tmp_path / "local")
    expected = fingerprints(tmp_path / "local")
    assert len(expected) > 3
    for engine in (BlocksHere(blocks=2), BlocksHere(memory=12_000)):
        engine.propagate(graph, plan, tmp_path / "blocks")
        assert fingerprints(tmp_path / "blocks") == expected
        Place.of(tmp_path / "blocks").remove()


def test_features_may_lie_elsewhere_or_in_memory(graph: Graph, tmp_path: Path) -> None:
    """Made features are files beside the graph, or behind a URL; or they are nowhere but in memory."""
    rng = np.random.default_rng(8)
    np.save(tmp_path / "made.npy", rng.normal(size=(41, 5)).astype(np.float32))
    mapped = np.load(tmp_path / "made.npy", mmap_mode="r")
    some = np.load(tmp_path / "made.npy", mmap_mode="r")[:9]  # not a file by itself
    changed = graph.with_features(author=Features(mapped), field=Features(some), venue=Features(np.ones((3, 2), "f4")))
    LocalPropagator().propagate(changed, APART, tmp_path / "local")
    BlocksHere(blocks=3).propagate(changed, APART, tmp_path / "blocks")
    assert fingerprints(tmp_path / "blocks") == fingerprints(tmp_path / "local")


def test_an_object_store_holds_graph_and_hops(graph: Graph, tmp_path: Path) -> None:
    root = Place.of(f"memory://typed-{tmp_path.name}")
    assert isinstance(graph.folder, Path)
    fsspec.filesystem("memory").put(str(graph.folder), f"/typed-{tmp_path.name}/graph", recursive=True)
    remote = Graph.open(root / "graph")
    BlocksHere(blocks=4).propagate(remote, APART, root / "store")
    LocalPropagator().propagate(graph, APART, tmp_path / "local")
    expected = fingerprints(tmp_path / "local")
    files = HopStore.open(root / "store").files()
    assert len(files) == len(expected) - 1  # all but the manifest, which names the graph's folder
    for place, _ in files:
        name = place.url.removeprefix(f"{root.url}/store/")
        assert place.read() == (tmp_path / "local" / name).read_bytes()
    assert "work" not in (root / "store").names()


def test_a_view_that_is_written_is_not_done_again(graph: Graph, tmp_path: Path) -> None:
    """Interrupted in the third view's last hop: the first two are found written, the third goes on at that hop."""
    LocalPropagator().propagate(graph, APART, tmp_path / "local")
    store, first, second = tmp_path / "blocks", Watched(blocks=4, stop="hop 3 of 3", nth=3), Watched(blocks=4)
    written = [f"write {name}" for name in HopStore.open(tmp_path / "local").signals]
    with pytest.raises(KeyboardInterrupt):
        first.propagate(graph, APART, store)
    done = [name for name, _ in first.stages if name.startswith("write")]
    assert done and len(list((store / "work").glob("blocks-*"))) == 1  # of the view that was interrupted alone
    assert len(list((store / "work" / "views").iterdir())) == len(SUBSETS[1:4]) - len(
        {name.split("@")[1] for name in done}
    )
    second.propagate(graph, APART, store)
    assert fingerprints(store) == fingerprints(tmp_path / "local")
    again = [name for name, _ in second.stages]
    assert "edges of views" not in again and not set(done) & set(again)
    assert {*done, *(name for name in again if name.startswith("write"))} == set(written)
    hops = [stage for stage in second.stages if stage[0].startswith("hop")]
    assert hops[0] == ("hop 3 of 3", (1, 2, 3))  # one block of it was there
    assert not (store / "work").exists()


def test_ranges_of_edges_that_are_done_are_kept(graph: Graph, tmp_path: Path) -> None:
    LocalPropagator().propagate(graph, APART, tmp_path / "local")
    with pytest.raises(KeyboardInterrupt):
        Watched(blocks=4, stop="edges of views").propagate(graph, APART, tmp_path / "blocks")
    assert list((tmp_path / "blocks" / "work" / "views").glob("[!.p]*")) == []  # no view that is not whole
    second = Watched(blocks=4)
    second.propagate(graph, APART, tmp_path / "blocks")
    assert next(numbers for name, numbers in second.stages if name == "edges of views") == (1, 2, 3)
    assert fingerprints(tmp_path / "blocks") == fingerprints(tmp_path / "local")


@pytest.mark.parametrize("stop", ["edges of views", "hop 2 of 3"])
def test_edges_that_were_cut_are_made_anew(graph: Graph, tmp_path: Path, stop: str) -> None:
    LocalPropagator().propagate(graph, APART, tmp_path / "local")
    with pytest.raises(KeyboardInterrupt):
        Watched(blocks=4, stop=stop).propagate(graph, APART, tmp_path / "blocks")
    cut = sorted((tmp_path / "blocks" / "work" / "views").rglob("neighbours.npy"))[0]
    cut.write_bytes(cut.read_bytes()[:-4])
    BlocksHere(blocks=4).propagate(graph, APART, tmp_path / "blocks")
    assert fingerprints(tmp_path / "blocks") == fingerprints(tmp_path / "local")


@pytest.mark.parametrize(("stop", "nth"), [("edges of views", 1), ("hop 2 of 3", 2)])
def test_another_engine_or_number_of_blocks_goes_on(graph: Graph, tmp_path: Path, stop: str, nth: int) -> None:
    LocalPropagator().propagate(graph, APART, tmp_path / "local")
    for store, engine in ((tmp_path / "one", LocalPropagator()), (tmp_path / "other", BlocksHere(blocks=6))):
        with pytest.raises(KeyboardInterrupt):
            Watched(blocks=4, stop=stop, nth=nth).propagate(graph, APART, store)
        engine.propagate(graph, APART, store)
        assert fingerprints(store) == fingerprints(tmp_path / "local")


def test_too_few_blocks_are_refused_before_anything_is_written(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=r"1 blocks need .* in a task"):
        BlocksHere(blocks=1, memory=2000).propagate(graph, APART, tmp_path / "store")
    assert not (tmp_path / "store" / "plan.json").exists()
