"""Files that no cache holds are streamed past it: the same bytes of hops and first values, and nothing stays open."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.graph.datasets import communities
from gamlp.io import ReadBuffers, RowShards, StreamedRows, StreamedShards, streamable
from gamlp.kernel import HopTask, hop
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from gamlp.propagation.local import engine, hops
from gamlp.propagation.local.entries import Mapped, Streamed, entries_of
from gamlp.propagation.local.reading import TRIES, Reading, Way


def contents(store: Path) -> dict[str, str]:
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return communities(tmp_path_factory.mktemp("graph") / "g", nodes=4000, edges=30_000, features=40, classes=20)


def plan(dtype: str = "float16", rows: str = "train+valid") -> Plan:
    return Plan(
        features=FeatureSignal(hops=3, dtype=dtype),  # type: ignore[arg-type]
        labels=LabelSignal(hops=2, dtype=dtype),  # type: ignore[arg-type]
        rows=rows,  # type: ignore[arg-type]
    )


def open_under(*folders: Path) -> Counter[Path]:
    """The files below these folders that this process has open, maps too: others come and go with what is collected."""
    names: Counter[Path] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists the folder is gone by now
            names[entry.readlink()] += 1
    return Counter({name: n for name, n in names.items() if any(name.is_relative_to(folder) for folder in folders)})


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("memory", [None, 67_450_000])  # in one go, and in several blocks of columns
def test_streamed_files_give_the_same_bytes(
    graph: Graph, tmp_path: Path, dtype: str, memory: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalPropagator(threads=2).propagate(graph, plan(dtype), tmp_path / "mapped")
    gc.collect()
    before = open_under(Path(str(graph.folder)), tmp_path)
    monkeypatch.setattr("gamlp.propagation.local.entries._STREAMED", 1000)  # entries at a time: sixty reads a hop
    told: dict[str, tuple[float, float | None]] = {}

    def tell(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        told[stage] = done, total

    LocalPropagator(memory=memory, threads=2, room=0).propagate(graph, plan(dtype), tmp_path / "streamed", tell)
    assert contents(tmp_path / "streamed") == contents(tmp_path / "mapped")
    before_hops = [stage for stage in told if "first values" in stage or stage == "check neighbours"]
    assert len(before_hops) > 1 and all(done == total for done, total in told.values()), "what takes long is told"
    assert not open_under(Path(str(graph.folder)), tmp_path) - before, "readers are closed"


def test_weights_are_streamed_beside_neighbours(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    edges = drawn.integers(0, 300, (2, 2000))
    made = Graph.from_arrays(
        edges, drawn.standard_normal((300, 9)), weights=drawn.random(2000) + 0.5, directed=True, count=300
    )
    made.save(tmp_path / "graph")
    weighted = Graph.open(tmp_path / "graph")
    features = Plan(features=FeatureSignal(hops=3))
    LocalPropagator().propagate(weighted, features, tmp_path / "mapped")
    LocalPropagator(room=0).propagate(weighted, features, tmp_path / "streamed")
    assert contents(tmp_path / "streamed") == contents(tmp_path / "mapped")


def test_entries_are_streamed_where_they_exceed_the_room_and_lie_in_files(graph: Graph) -> None:
    size = 4 * graph.relation.entries
    assert isinstance(entries_of(graph.relation, None)[0], Mapped)
    assert isinstance(entries_of(graph.relation, size)[0], Mapped)
    assert isinstance(entries_of(graph.relation, size - 1)[0], Streamed)
    in_memory = Graph.from_arrays([[0, 1], [1, 2]], np.eye(3))
    assert isinstance(entries_of(in_memory.relation, 0)[0], Mapped)


def test_streamed_rows_show_what_the_map_shows(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(7000, dtype=np.float32).reshape(1000, 7))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert streamable(mapped) and not streamable(mapped[3:]) and not streamable(np.zeros(3))
    rows = StreamedRows(mapped)
    for key in (slice(0, 1000), slice(990, 2000), slice(5, 5), (slice(3, 9), slice(2, 5)), np.array([5, 1, 5]), 4):
        np.testing.assert_array_equal(rows[key], mapped[key])
    with rows.range(10, 20) as one, rows.range(500, 501) as another:  # two at once do not share a buffer
        np.testing.assert_array_equal(one, mapped[10:20])
        np.testing.assert_array_equal(another, mapped[500:501])
    rows.close()


def test_files_that_are_read_in_turns_share_their_memory(tmp_path: Path) -> None:
    """A graph lies in many files: a buffer for each would be many times what is read at once."""
    buffers, many = ReadBuffers(), []
    for number in range(6):
        np.save(tmp_path / f"{number}.npy", np.arange(number, 100_000 + number, dtype=np.int32))
        many.append(StreamedRows(np.load(tmp_path / f"{number}.npy", mmap_mode="r"), buffers))
    for number, rows in enumerate(many):
        with rows.range(0, 100_000) as values, rows.range(5, 6) as one:
            assert values[-1] == 99_999 + number and one[0] == 5 + number
            assert buffers.held == 0
    assert 400_000 <= buffers.held < 2 * 410_000, "two at once, not two a file"
    many[0].close()
    assert buffers.held == 0


def test_blocks_of_a_graph_share_them(graph: Graph) -> None:
    small = graph.relation.blocks[0]
    relation = replace(graph.relation, blocks=(small, small, small))
    first, *others = entries_of(relation, 0)
    assert isinstance(first, Streamed) and others
    assert all(isinstance(other, Streamed) and other.buffers is first.buffers for other in others)


def test_shards_of_features_are_streamed_as_one_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamlp.graph.folder.SHARD_BYTES", 20_000)
    sharded = communities(tmp_path / "graph", nodes=1000, edges=4000, features=16, classes=4)
    values = sharded.nodes.features.values  # type: ignore[union-attr]
    assert isinstance(values, RowShards) and len(values.places) > 2 and streamable(values)
    rows = StreamedShards(values)
    for key in (slice(0, 1000), slice(300, 700), slice(5, 5), (slice(310, 320), slice(2, 5)), np.array([900, 1])):
        np.testing.assert_array_equal(rows[key], values[key])
    rows.close()
    features = Plan(features=FeatureSignal(hops=2, dtype="float16"))
    LocalPropagator().propagate(sharded, features, tmp_path / "mapped")
    LocalPropagator(room=0).propagate(sharded, features, tmp_path / "streamed")
    assert contents(tmp_path / "streamed") == contents(tmp_path / "mapped")


def test_slabs_go_when_their_shards_are_there_and_a_run_that_is_killed_later_does_not_miss_them(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = LocalPropagator(memory=67_450_000, threads=1)
    small.propagate(graph, plan(), tmp_path / "whole")
    found: list[list[str]] = []

    class Killed(BaseException):
        pass

    def assemble(self: LocalPropagator, graph: Graph, signal: object, *rest: object) -> None:
        found.append(sorted(path.name for path in (tmp_path / "store").rglob("*.slab")))
        if len(found) == 2:
            raise Killed
        original(self, graph, signal, *rest)

    original = engine.LocalPropagator._assemble
    monkeypatch.setattr(engine.LocalPropagator, "_assemble", assemble)
    with pytest.raises(Killed):
        small.propagate(graph, plan(), tmp_path / "store")
    first, second = ({name.split("-")[0] for name in names} for names in found)
    assert len(first) == 1 and len(second) == 1 and first != second, "slabs of one signal at a time"
    hopped: list[int] = []
    monkeypatch.setattr(engine.LocalPropagator, "_assemble", original)
    counted = hops.PassRun._hop
    monkeypatch.setattr(
        hops.PassRun, "_hop", lambda self, k, src, dst: (hopped.append(k), counted(self, k, src, dst))[1]
    )
    small.propagate(graph, plan(), tmp_path / "store")
    assert hopped == [], "both signals were through all their hops"
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")


def test_a_state_takes_the_place_of_the_one_before(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    spill = hops.spill

    def watched(path: Path, state: np.ndarray, rows: np.ndarray | None) -> None:  # type: ignore[type-arg]
        spill(path, state, rows)
        seen.append(len(list(path.parent.glob("*-state*.slab"))))

    monkeypatch.setattr(hops, "spill", watched)
    monkeypatch.setattr(hops, "_CHECKPOINT_RATE", float("inf"))
    deep = Plan(features=FeatureSignal(hops=6), rows="train")
    LocalPropagator(memory=67_450_000, checkpoint_seconds=0.0).propagate(graph, deep, tmp_path / "store")
    assert max(seen) == 1
    LocalPropagator().propagate(graph, deep, tmp_path / "at once")
    assert contents(tmp_path / "store") == contents(tmp_path / "at once")


@pytest.mark.parametrize("threads", [2, 64])
def test_ranges_of_all_threads_stay_within_one_bound(threads: int) -> None:
    rows, degree = 200_000, 1000
    block = SimpleNamespace(offsets=np.arange(rows + 1) * degree, entries=rows * degree, weights=None)
    streamed = object.__new__(Streamed)
    object.__setattr__(streamed, "block", block)
    longest = max(end - begin for begin, end in streamed.ranges(threads)) * degree
    assert longest * 4 * streamed.workers(threads) <= 260 << 20


@pytest.mark.parametrize("window_bits", [0, 24])
def test_the_way_of_the_least_time_an_entry_is_taken_when_all_were_tried(window_bits: int) -> None:
    reading = Reading(window_bits)
    assert reading.large == (window_bits > 0)
    ways = {Way(), Way(near=True), *({Way(window_bits)} if window_bits else ())}
    given = []
    while reading.decided is None:
        given.append(reading.take())
        first = len(given) < 4  # slow whichever it is: memory is touched for the first time
        reading.took(given[-1], 0, 1.0)  # no entries: tells nothing
        reading.took(given[-1], 1000, 9.0 if first else 2.0 if given[-1].near else 3.0)
    assert Counter(given) == dict.fromkeys(ways, TRIES)
    assert reading.decided == reading.take() == Way(near=True)


@pytest.mark.parametrize("slower", ["plain", "windows"])
def test_a_large_state_is_read_in_the_way_that_is_faster(
    slower: str, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all ways at first, then in one. Never in the first hop of a pass, which finds memory for what is written."""
    LocalPropagator(threads=2).propagate(graph, plan(), tmp_path / "plain")
    ways: Counter[str] = Counter()

    def slowly(task: HopTask, begin: int, end: int) -> int:
        way = "windows" if task.window_bits else "bits" if task.nonzero is not None else "plain"
        ways[way] += task.rows is None
        until = time.thread_time() + (0.003 if way.startswith(slower) else 0)
        lost = hop(task, begin, end)
        while time.thread_time() < until:
            pass
        return lost

    monkeypatch.setattr("gamlp.kernel.hop_task.WINDOWED", 0)
    monkeypatch.setattr("gamlp.kernel.hop_task.WINDOW", 1 << 14)
    monkeypatch.setattr("gamlp.propagation.local.entries._WORTH_A_CALL", 100)  # entries: 64 ranges a hop
    monkeypatch.setattr(hops, "hop", slowly)
    small = LocalPropagator(memory=67_450_000, threads=1)  # columns in blocks: narrow rows
    small.propagate(graph, plan(), tmp_path / "ways")
    assert contents(tmp_path / "ways") == contents(tmp_path / "plain")
    compared = 3 * 64  # 40 columns by 16, the second of three hops; the last is of kept rows alone
    assert ways["windows"] == (3 * TRIES if slower == "windows" else compared - 3 * 2 * TRIES)
    assert ways["bits"], "rows of zeros are left out of first hops of labels"
