"""What is foretold is what a run then makes: files, passes, memory, disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets import communities
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from gamlp.propagation.blocks import Sizing
from gamlp.propagation.local.hops import PassRun
from gamlp.propagation.store.writer import StoreWriter
from gamlp.recipe import Recipe
from gamlp.sizing import (
    Cluster,
    GraphShape,
    HopSizes,
    Outlook,
    ThisMachine,
    about,
    ingest_shuffled,
    measured_rates,
    recorded_rates,
)
from gamlp.sizing.cluster import ClusterSizes
from gamlp.sizing.outlook import Step
from tests.conformance.engines import BlocksHere
from tests.propagation.local.test_budget import propagate

GB = 10**9


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """10,000 nodes with 40 features, 7 classes; a tenth trains, a tenth validates."""
    return communities(tmp_path_factory.mktemp("graph") / "g", nodes=10_000, edges=60_000, features=40, classes=7)


PLANS = {
    "all rows": (Plan(features=FeatureSignal(hops=4), labels=LabelSignal(hops=3)), 4 * GB),
    "some rows, half precision": (
        Plan(
            features=FeatureSignal(hops=3, dtype="float16"), labels=LabelSignal(hops=5, dtype="float16"), rows="train"
        ),
        4 * GB,
    ),
    "blocks of columns": (Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2)), 69 * 10**6),
    "blocks of columns, some rows, folds": (
        Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2, folds=3), rows="train+valid"),
        69 * 10**6,
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_passes_slabs_and_store_are_those_of_a_run(
    name: str, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, budget = PLANS[name]
    sizes = HopSizes.of(GraphShape.of_graph(graph, plan), plan, budget)
    runs, slabs = [], []
    run, finish = PassRun.run, StoreWriter.finish

    def counted(self: PassRun) -> Any:
        runs.append((self.spec.width, self.spec.depth, self.spec.buffers))
        return run(self)

    def looked_at(self: StoreWriter) -> None:
        slabs.append(sum(path.stat().st_size for path in Path(str(self.work)).rglob("*") if path.is_file()))
        finish(self)

    monkeypatch.setattr(PassRun, "run", counted)
    monkeypatch.setattr(StoreWriter, "finish", looked_at)
    LocalPropagator(budget).propagate(graph, plan, tmp_path / "store")
    assert [(spec.width, spec.depth, spec.buffers) for spec in sizes.passes] == runs
    assert ("blocks" in name) == (len(runs) > len(sizes.groups))
    written = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert sizes.store == pytest.approx(written, rel=0.02)
    assert slabs[0] <= sizes.slabs() * 1.02  # a run may free some of them before its end


def test_the_bytes_of_a_graph_are_those_of_its_folder(graph: Graph) -> None:
    assert graph.folder is not None
    written = sum(path.stat().st_size for path in Path(str(graph.folder)).rglob("*.npy"))
    assert GraphShape.of_graph(graph, Plan()).folder_bytes == pytest.approx(written, rel=0.01)


def test_a_shape_of_counts_is_that_of_the_same_graph(graph: Graph) -> None:
    plan = PLANS["all rows"][0]
    there = GraphShape.of_graph(graph, plan)
    told = GraphShape.of_counts(10_000, there.entries // 2, 40, 7, labelled=10_000, directed=False)
    assert HopSizes.of(told, plan, GB).store == HopSizes.of(there, plan, GB).store
    assert told.folder_bytes == there.folder_bytes
    directed = GraphShape.of_counts(10_000, 5_000, 40, 7, labelled=2_000, directed=True)
    assert directed.entries == 5_000
    assert directed.kept(Plan(rows="labelled")) == directed.kept(Plan(rows="split")) == 2_000
    assert directed.kept(Plan(rows="train+valid")) == 1_600
    assert directed.kept(Plan(rows="all")) is None


def test_edges_against_their_direction_are_stored_again_and_passed_by_themselves() -> None:
    shape = GraphShape.of_counts(1_000, 5_000, 16, 4, labelled=1_000, directed=True)
    one, both = (HopSizes.of(shape, Plan(directions=way), GB) for way in ("in", "both"))  # type: ignore[arg-type]
    assert (one.views, both.views) == (0, shape.relation_bytes)
    assert (len(one.passes), len(both.passes)) == (1, 2)


@pytest.mark.slow
def test_memory_of_a_run_stays_below_what_was_foretold(tmp_path: Path) -> None:
    made = communities(tmp_path / "graph", nodes=200_000, edges=400_000, features=96, classes=8)
    plan = Plan(features=FeatureSignal(hops=3), labels=None)
    sizes = HopSizes.of(GraphShape.of_graph(made, plan), plan, 250 * 10**6)
    words = ["--hops", "3", "--label-hops", "0", "--memory", "250MB"]
    code, said, peak = propagate(tmp_path / "graph", tmp_path / "store", *words)
    assert code == 0, said
    assert sizes.state <= peak <= sizes.memory


def test_neighbours_that_do_not_stay_in_memory_are_read_at_every_hop() -> None:
    """Then a hop takes as long as the longer of summing and reading: entries · 4 bytes ÷ the disk's rate."""
    shape = GraphShape.of_counts(10**6, 10**9, 8, 2, labelled=10**6, directed=True)
    plan = Plan(features=FeatureSignal(hops=6), labels=None)
    sizes, rates = HopSizes.of(shape, plan, GB), recorded_rates(2)
    (spec,) = sizes.passes
    assert sizes.readings == 6
    slow = type(rates)(**{**vars(rates), "read": 1e6})
    first = shape.feature_bytes / 1e6 + shape.nodes * spec.width * 4 / rates.memory
    assert sizes.pass_seconds(spec, slow, cached=False) == pytest.approx(first + 6 * 4e9 / 1e6)
    assert sizes.pass_seconds(spec, rates, cached=True) > 6 * 1e9 * rates.entry_seconds(32)


def outlook(memory: int, disk: int, **settings: Any) -> Outlook:
    budget = settings.pop("budget", None)
    recipe = Recipe.of(None).changed({f"propagation.{key}": value for key, value in settings.items()})
    shape = GraphShape.of_counts(10**6, 10**7, 100, 10, labelled=10_000, directed=False)
    machine = ThisMachine(memory, disk, 2, Path())
    plan = Plan.of(recipe)
    return Outlook.of(shape, recipe, plan, machine, recorded_rates(2), Cluster(), budget=budget, measure=False)


def test_what_fits_is_said_to_fit() -> None:
    found = outlook(20 * GB, 100 * GB)
    assert found.fits
    assert [step.name for step in found.steps] == ["ingest", "generate", "propagate", "train", "predict"]
    assert next(found.verdict()).startswith("fits: ")
    assert found.seconds[0] < found.seconds[1]


def test_a_short_disk_is_told_with_what_would_help() -> None:
    found = outlook(20 * GB, 2 * GB)
    assert not found.fits
    first, *others = found.verdict()
    assert first.startswith("disk is short by ")
    assert any(sentence.startswith("with --rows labelled --dtype float16 it needs ") for sentence in others)
    assert any(sentence.endswith("which is free") for sentence in others)


def test_a_budget_that_needs_no_blocks_is_named_and_is_the_least() -> None:
    found = outlook(20 * GB, 100 * GB, budget=200 * 10**6)
    assert len(found.hops.passes) > 1
    (sentence,) = [one for one in found.verdict() if one.startswith("with --memory ")]
    named = int(sentence.split()[2].removesuffix("MiB")) << 20
    plan, shape = found.hops.plan, found.shape
    assert len(HopSizes.of(shape, plan, named).passes) == 1
    assert len(HopSizes.of(shape, plan, named - (65 << 20)).passes) > 1


def test_a_budget_too_small_for_any_column_names_one_that_is_not() -> None:
    with pytest.raises(GamlpError, match=r"give --memory [0-9]+MiB or more"):
        outlook(20 * GB, 100 * GB, budget=1 << 20)


def test_where_half_of_free_memory_is_too_little_the_least_budget_is_told() -> None:
    """A million nodes take 64 MiB + 20 bytes each + two states of eight float32 columns: 143 MiB or more."""
    found = outlook(240 << 20, 100 * GB)
    assert found.hops.budget == 192 << 20  # in steps of 64 MiB
    assert not found.fits and any(sentence.startswith("memory is short by ") for sentence in found.verdict())
    enough = outlook(1200 << 20, 100 * GB, budget=700 << 20)
    assert any(sentence.startswith("it takes --memory 700MiB") for sentence in enough.verdict())


def test_disk_at_its_most_counts_what_earlier_steps_left() -> None:
    found = outlook(20 * GB, 100 * GB)
    made = max((step for step in found.steps[:2]), key=lambda step: step.meanwhile + step.left)
    _, _, propagate, train, predict = found.steps
    at_most = [
        made.meanwhile + made.left,
        made.left + propagate.meanwhile + propagate.left,
        made.left + propagate.left + train.left + predict.left,
    ]
    assert found.disk == max(at_most)
    assert all(isinstance(step, Step) for step in found.steps)


def test_spark_is_told_by_the_formulas_of_its_engine() -> None:
    plan = Plan(features=FeatureSignal(hops=6), labels=None, rows="labelled")
    shape = GraphShape.of_counts(111_059_956, 1_615_685_872, 128, 172, labelled=1_546_782, directed=False)
    found = ClusterSizes(shape, plan, Cluster(8, 4, 4 << 30), recorded_rates(2))
    sizing = Sizing(111_059_956, 3_231_371_744, 128, 6, "float32", 1_546_782, 4 << 30, 32)
    assert (found.blocks, found.storage) == (sizing.blocks, sizing.storage)
    assert found.executor_memory == 4 * ((4 << 30) + (500 << 20))


def test_what_ingest_moves_on_spark_is_columns_and_entries_once_and_ids_of_many_nodes() -> None:
    few = GraphShape(20_000, 180_000, 16, 3)
    assert ingest_shuffled(few) == {"columns": 20_000 * (16 * 4 + 16), "entries": 180_000 * 8, "ids": 0}
    many = GraphShape(10_000_000, 180_000, 16, 3, weighted=True)
    assert ingest_shuffled(many) == {"columns": 10_000_000 * 80, "entries": 180_000 * 12, "ids": 180_000 * 20}


def test_blocks_that_are_told_for_spark_are_enough_for_its_engine(graph: Graph, tmp_path: Path) -> None:
    """Columns are padded, and narrow labels ride with the features: what is told counts both, as the engine does."""
    plan = Plan(features=FeatureSignal(hops=2), labels=LabelSignal(hops=1, folds=3), rows="all")
    for memory in (800_000, 1_500_000, 3_000_000):
        told = ClusterSizes(GraphShape.of_graph(graph, plan), plan, Cluster(1, 1, memory), recorded_rates(2)).blocks
        BlocksHere(blocks=told, memory=memory).propagate(graph, plan, tmp_path / f"enough-{memory}")
        with pytest.raises(GamlpError, match=rf"use --blocks {told} or more"):
            BlocksHere(blocks=told - 1, memory=memory).propagate(graph, plan, tmp_path / f"fewer-{memory}")


def test_rates_are_measured_in_a_moment_and_leave_nothing(tmp_path: Path) -> None:
    rates = measured_rates(2, "float16", tmp_path)
    assert rates.measured and rates.sources["disk"].startswith("measured now")
    assert 0 < rates.entry_seconds(64) < rates.entry_seconds(512) < 1e-5
    assert rates.write > 1e6 and rates.read > 1e6
    assert list(tmp_path.iterdir()) == []
    assert not recorded_rates(2).measured
    assert recorded_rates(4).entry == recorded_rates(2).entry / 2


def test_time_is_told_in_words() -> None:
    assert about((3600, 9000)) == "1 to 2.5 h"
    assert about((50, 50)) == "50 s"
