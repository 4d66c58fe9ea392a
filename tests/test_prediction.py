"""Predictions as tables: what is in them, and how much memory they take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph, Ids, Split
from gamlp.graph.synthetic import communities
from gamlp.memory import anonymous_memory
from gamlp.models.shape import Shape
from gamlp.prediction import chances, choose_rows, class_columns, write_predictions
from gamlp.propagation import FeatureSignal, HopStore, LocalEngine, Plan
from gamlp.recipe import Recipe
from gamlp.training.bundle import Bundle, make_model


def bundle_for(width: int, classes: tuple[str, ...], *, hops: int = 2, many: bool = False, hidden: int = 16) -> Bundle:
    """An untrained model."""
    recipe = Recipe.of({"model": {"beta": 0.0, "hidden": hidden}, "propagation": {"hops": hops}})
    shape = Shape(width, len(classes), hops)
    return Bundle(recipe, shape, classes, many, make_model(recipe, shape).state_dict())


@pytest.fixture
def store(tmp_path: Path) -> HopStore:
    random = np.random.default_rng(0)
    split = Split.of(90, train=np.arange(30), valid=np.arange(30, 40), test=np.arange(40, 60))
    labels = np.where(np.arange(90) < 70, np.arange(90) % 3, -1)
    graph = Graph.from_arrays(random.integers(0, 90, (2, 300)), random.normal(size=(90, 5)), labels, split=split)
    return LocalEngine().run(graph, Plan(features=FeatureSignal(hops=2)), tmp_path / "hops")


def test_batches_change_nothing(store: HopStore) -> None:
    bundle = bundle_for(5, ("x", "y", "z"))
    whole = [np.concatenate(parts) for parts in zip(*chances(bundle, store, range(90)))]
    some = [np.concatenate(parts) for parts in zip(*chances(bundle, store, np.arange(90)[::-1], batch_size=7))]
    assert np.array_equal(whole[0], np.arange(90)) and np.array_equal(some[0], whole[0][::-1])
    assert np.allclose(whole[1], some[1][::-1], atol=1e-6)


@pytest.mark.parametrize(
    ("names", "count"),
    [("all", 90), ("labelled", 70), ("unlabelled", 20), ("split", 60), ("valid + test", 30), ("train+unlabelled", 50)],
)
def test_rows_by_name(names: str, count: int, store: HopStore) -> None:
    assert len(choose_rows(store, names)) == count


def test_ids_and_formats(store: HopStore, tmp_path: Path) -> None:
    bundle = bundle_for(5, ("x", 'a "b", c', "ü"))
    ids = Ids(90, pa.array([f"né {row}" for row in range(90)]))
    written = write_predictions(bundle, store, ids, tmp_path / "deep/er/p.parquet", batch_size=40)
    assert (written.rows, written.path.exists()) == (90, True)
    table = pyarrow.parquet.read_table(written.path)
    assert table.column_names == ["id", "label", "probability", "p_x", 'p_a "b", c', "p_ü"]
    assert table["id"].to_pylist() == ids.values.to_pylist()
    for name in ("p.csv", "p.csv.gz"):
        write_predictions(bundle, store, ids, tmp_path / name, batch_size=40)
        text = pyarrow.csv.read_csv(tmp_path / name)
        assert text.column_names == table.column_names
        assert text["label"].to_pylist() == table["label"].to_pylist()
        assert np.allclose(text["p_ü"].to_numpy(), table["p_ü"].to_numpy(), atol=1e-6)
    integers = Ids(90, np.arange(90) * 10)
    write_predictions(bundle, store, integers, tmp_path / "p.parquet", rows=np.array([3, 5]), each_class=False)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert table["id"].to_pylist() == [30, 50] and table.num_columns == 3


def test_many_labels_a_node(store: HopStore, tmp_path: Path) -> None:
    bundle = bundle_for(5, ("x", "y", "z"), many=True)
    chance = np.concatenate([part for _, part in chances(bundle, store, range(90))])
    expected = [[name for name, value in zip("xyz", row) if value > 0.5] for row in chance]
    assert 0 < sum(map(len, expected)) < 270
    write_predictions(bundle, store, Ids(90), tmp_path / "p.parquet", batch_size=32)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["id", "label", "p_x", "p_y", "p_z"] and table["label"].to_pylist() == expected
    write_predictions(bundle, store, Ids(90), tmp_path / "p.csv", batch_size=32)
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=False)
    text = pyarrow.csv.read_csv(tmp_path / "p.csv", convert_options=options)
    assert text["label"].to_pylist() == ["|".join(names) for names in expected]


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.csv.gz"])
def test_nothing_is_left_where_it_fails(name: str, store: HopStore, tmp_path: Path) -> None:
    (tmp_path / name).write_text("of yesterday")

    def stop(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        write_predictions(bundle_for(5, ("x", "y")), store, Ids(90), tmp_path / name, batch_size=10, progress=stop)
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / name).read_text() == "of yesterday"


def test_a_place_that_cannot_be_written(store: HopStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GamlpError, match="cannot write here"):
        write_predictions(bundle_for(5, ("x", "y")), store, Ids(90), tmp_path / "file/p.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GamlpError, match="is a folder where a file is to be written"):
        write_predictions(bundle_for(5, ("x", "y")), store, Ids(90), tmp_path / "folder.csv")


def test_columns_of_classes_are_each_once() -> None:
    assert class_columns(("a\nb", "a_b", "a\tb", "c")) == ["p_a_b", "p_a_b_2", "p_a_b_3", "p_c"]


def peak(call: Callable[..., object]) -> int:
    """Most anonymous memory while predictions are written, above what there was before."""
    before = most = anonymous_memory()

    def watch(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        nonlocal most
        most = max(most, anonymous_memory())

    call(progress=watch)
    return most - before


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_memory_does_not_grow_with_the_nodes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamlp.prediction._GROUP_CELLS", 1 << 18)  # so that the smaller file has several groups too
    bundle = bundle_for(16, tuple("abcdefgh"))
    stores = []
    for count in (40_000, 160_000):
        graph = communities(tmp_path / f"graph-{count}", nodes=count, edges=2 * count, features=16, classes=8)
        plan = Plan(features=FeatureSignal(hops=2))
        stores.append((LocalEngine().run(graph, plan, tmp_path / f"hops-{count}"), graph.nodes.ids))
    grown = []
    for store, ids in (stores[0], *stores):  # once to warm up
        write = partial(write_predictions, bundle, store, ids, tmp_path / name)
        grown.append(peak(write))
    values = 160_000 * (2 + 1) * 16 * 4  # what all hops would take, 31 MB
    assert grown[2] - grown[1] < values / 4, grown
