"""Hops of a grown graph, from those of before, are those of propagating all of it, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.graph.growth import GrownGraph, grow_beside
from gamlp.graph.ingest import IngestOptions, ingest, read_additions
from gamlp.propagation import (
    FeatureSignal,
    HopStore,
    LabelSignal,
    LocalPropagator,
    Operator,
    Plan,
    Regrown,
    propagate_growth,
)
from tests.conformance import dense
from tests.graph.growing_tables import GrowingTables, typed_tables

COUNT, MORE = 400, 6


@dataclass(frozen=True)
class Ring:
    """A long way round, so that a few hops reach a few nodes; newcomers join it at one place."""

    tables: GrowingTables
    base: Graph
    growth: GrownGraph
    grown: Graph

    @property
    def folder(self) -> Path:
        return self.tables.folder

    def before(self, plan: Plan) -> HopStore:
        return LocalPropagator(threads=1).propagate(self.base, plan, self.folder / "before")

    def whole(self, plan: Plan) -> HopStore:
        return LocalPropagator(threads=1).propagate(self.grown, plan, self.folder / "whole")

    def regrown(self, plan: Plan, before: HopStore | None = None) -> Regrown:
        before = before or self.before(plan)
        return propagate_growth(self.growth, before, self.grown, plan, self.folder / "regrown", threads=1)


def ring(folder: Path, *, weighted: bool = False, largest: float = 1.0, **options: Any) -> Ring:
    """`largest`: of newcomers' features beside ones of at most 1, which node 0 has, and no edges."""
    random = np.random.default_rng(7)
    tables = GrowingTables(folder)
    values = random.uniform(-1, 1, (COUNT + MORE, 3))
    values[0], values[COUNT] = 1.0, values[COUNT] * largest
    rows = [
        f"n{i},{a:.4f},{b:.4f},{c:.4f},{'xyz'[i % 3] if i % 4 else ''}" for i, (a, b, c) in enumerate(values.tolist())
    ]
    tables.write("nodes", "id,a,b,c,label", rows[:COUNT], rows[COUNT:])
    ends = [(i, max(1, (i + step) % COUNT)) for i in range(1, COUNT) for step in (1, 2)]
    new = [(40, COUNT), (COUNT, 41), (COUNT + 1, COUNT), (COUNT + 2, 43), (44, COUNT + 3), (COUNT + 4, 45), (60, 63)]
    weight = (lambda: f",{random.uniform(0.1, 3):.3f}") if weighted else (lambda: "")
    lines = [[f"n{a},n{b}{weight()}" for a, b in some] for some in (ends, new)]
    tables.write("edges", "src,dst,weight" if weighted else "src,dst", *lines)
    base = tables.graph(**options)
    growth = tables.additions(base).growth
    files = {"nodes": [tables.place("more_nodes")], "edges": [tables.place("more_edges")]}
    return Ring(tables, base, growth, grow_beside(growth, folder / "beside", files))


def same_files(one: Path, other: Path) -> None:
    names = [sorted(path.relative_to(top).as_posix() for path in top.rglob("*")) for top in (one, other)]
    assert names[0] == names[1]
    for name in names[0]:
        if (one / name).is_file():
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture(autouse=True)
def any_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of graphs this small all is propagated in no time."""
    monkeypatch.setattr("gamlp.propagation.local.growth._READ", 0)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamlp.propagation.store.shards.SHARD_BYTES", 2000)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    "signal",
    [
        {"operator": Operator(r=0.5)},
        {"operator": Operator(r=0.0), "scaling": "l2"},
        {"operator": Operator(r=1.0), "dtype": "float16"},
        {"operator": Operator(r=0.3, loops=False), "dtype": "bfloat16", "also": (Operator(r=0.0, loops=False),)},
    ],
)
@pytest.mark.usefixtures("small_shards")
def test_the_files_are_those_of_propagating_all_of_it(
    signal: dict[str, Any], directed: bool, weighted: bool, tmp_path: Path
) -> None:
    graphs = ring(tmp_path, weighted=weighted, directed=directed)
    plan = Plan(features=FeatureSignal(hops=3, **signal), labels=LabelSignal(hops=2, operator=signal["operator"]))
    before, whole = graphs.before(plan), graphs.whole(plan)
    found = graphs.regrown(plan, before)
    same_files(tmp_path / "regrown", tmp_path / "whole")
    assert found.made + found.copied == COUNT + MORE and found.made < 50
    differ = np.zeros(COUNT, bool)
    for name, stored in whole.signals.items():
        values = [one.gather(np.arange(COUNT)).reshape(COUNT, -1) for one in (stored, before.signals[name])]
        differ |= (values[0] != values[1]).any(1)
    assert found.changed is not None and set(np.flatnonzero(differ)) <= set(found.changed.tolist())
    assert differ[41] and differ[63]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
def test_against_dense_algebra(r: float, directed: bool, weighted: bool, tmp_path: Path) -> None:
    graphs = ring(tmp_path, weighted=weighted, directed=directed)
    plan = Plan(features=FeatureSignal(hops=3, operator=Operator(r=r)))
    found = graphs.regrown(plan)
    assert found.copied > 300
    lines = [line.split(",") for line in graphs.tables.place("all_edges").read_text().splitlines()[1:]]
    edges = [(int(line[0][1:]), int(line[1][1:])) for line in lines]
    weights = [float(line[2]) for line in lines] if weighted else None
    matrix = dense.operator(dense.adjacency(COUNT + MORE, edges, weights, directed=directed), r, loops=True)
    nodes = np.loadtxt(graphs.tables.place("all_nodes"), delimiter=",", skiprows=1, usecols=(1, 2, 3))
    values = found.store.signals["features"].gather(np.arange(COUNT + MORE))
    np.testing.assert_allclose(values, dense.hops(matrix, nodes, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small_shards")
def test_shards_in_which_nothing_changed_are_shared(tmp_path: Path) -> None:
    graphs, plan = ring(tmp_path), Plan(features=FeatureSignal(hops=2))
    before = graphs.before(plan)
    after = graphs.regrown(plan, before).store
    numbers = []
    for store in (before, after):
        entry = store.manifest.signals["features"]
        numbers.append({(store.folder / entry.folder / shard.name).stat().st_ino for shard in entry.shards})
    assert len(numbers[1]) == 8 and 5 <= len(numbers[0] & numbers[1]) < 8


def test_a_deeper_store_of_before_serves(tmp_path: Path) -> None:
    graphs, plan = ring(tmp_path), Plan(features=FeatureSignal(hops=2))
    before = graphs.before(Plan(features=FeatureSignal(hops=4)))
    graphs.whole(plan)
    assert graphs.regrown(plan, before).copied > 300
    same_files(tmp_path / "regrown", tmp_path / "whole")


def test_statistics_that_are_given_let_rows_stay(tmp_path: Path) -> None:
    graphs = ring(tmp_path)
    own = FeatureSignal(hops=2, scaling="standard")
    before = graphs.before(Plan(features=own))
    plan = Plan(features=own.model_copy(update={"statistics": before.manifest.statistics}))
    graphs.whole(plan)
    assert graphs.regrown(plan, before).copied > 300
    same_files(tmp_path / "regrown", tmp_path / "whole")


@pytest.mark.parametrize("reason", ["scales", "statistics", "operator", "edges", "reach", "copies", "directions"])
def test_all_is_propagated_where_it_does_not_pay_or_rows_cannot_be_told_apart(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = ring(tmp_path, largest=100.0 if reason == "scales" else 1.0, directed=reason == "directions")
    signal = FeatureSignal(hops=60 if reason == "reach" else 2)
    if reason == "scales":
        signal = signal.model_copy(update={"dtype": "float16"})
    if reason == "statistics":
        signal = signal.model_copy(update={"scaling": "standard"})
    plan = Plan(features=signal, directions="both" if reason == "directions" else "in")
    other = signal.model_copy(update={"operator": Operator(r=0.2)}) if reason == "operator" else signal
    before = graphs.before(plan.model_copy(update={"features": other}))
    graphs.whole(plan)
    if reason == "edges":
        monkeypatch.setattr("gamlp.propagation.local.growth.memory_of", lambda entries: 10)
    if reason == "copies":
        monkeypatch.setattr("gamlp.propagation.local.growth._READ", 10)
    found = graphs.regrown(plan, before)
    same_files(tmp_path / "regrown", tmp_path / "whole")
    assert (found.made, found.copied) == (COUNT + MORE, 0)


def test_of_several_types_too(tmp_path: Path) -> None:
    old, more, _, options = typed_tables(tmp_path)
    ingest(*old, tmp_path / "base", IngestOptions(**options))
    base = Graph.open(tmp_path / "base")
    (tmp_path / "scratch").mkdir()
    growth = read_additions(base, more[1], more[0], tmp_path / "scratch").growth
    grown = grow_beside(growth, tmp_path / "beside", {"nodes": [*more[1].values()], "edges": [*more[0].values()]})
    plan = Plan(features=FeatureSignal(hops=2), labels=LabelSignal(hops=2), subsets=(("cites",), ("cites", "writes")))
    before = LocalPropagator(threads=1).propagate(base, plan, tmp_path / "before")
    LocalPropagator(threads=1).propagate(grown, plan, tmp_path / "whole")
    found = propagate_growth(growth, before, grown, plan, tmp_path / "regrown", threads=1)
    same_files(tmp_path / "regrown", tmp_path / "whole")
    assert found.changed is None and found.copied == 0
