"""Predictions as tables: what is in them, and how much memory they take."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, Split
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.models import Shape
from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Plan
from gamlp.recipe import Recipe
from gamlp.run.prediction_table import batch_probabilities, choose_rows, class_columns, write_predictions
from gamlp.training.bundle import Bundle, make_model


def bundle_for(
    width: int, classes: tuple[str, ...], *, hops: int = 2, multi_label: bool = False, hidden: int = 16
) -> Bundle:
    """An untrained model, the same each time."""
    torch.manual_seed(0)
    recipe = Recipe.of({"model": {"beta": 0.0, "hidden": hidden}, "propagation": {"hops": hops}})
    shape = Shape(width, len(classes), hops)
    return Bundle(recipe, shape, classes, multi_label, make_model(recipe, shape).state_dict())


@pytest.fixture
def store(tmp_path: Path) -> HopStore:
    random = np.random.default_rng(0)
    split = Split.of(90, train=np.arange(30), valid=np.arange(30, 40), test=np.arange(40, 60))
    labels = np.where(np.arange(90) < 70, np.arange(90) % 3, -1)
    graph = Graph.from_arrays(random.integers(0, 90, (2, 300)), random.normal(size=(90, 5)), labels, split=split)
    return LocalPropagator().propagate(graph, Plan(features=FeatureSignal(hops=2)), tmp_path / "hops")


def test_batches_change_nothing(store: HopStore) -> None:
    bundle = bundle_for(5, ("x", "y", "z"))
    whole = [np.concatenate(parts) for parts in zip(*batch_probabilities(bundle, store, range(90)))]
    some = [
        np.concatenate(parts) for parts in zip(*batch_probabilities(bundle, store, np.arange(90)[::-1], batch_size=7))
    ]
    assert np.array_equal(whole[0], np.arange(90)) and np.array_equal(some[0], whole[0][::-1])
    assert np.allclose(whole[1], some[1][::-1], atol=1e-6)


@pytest.mark.parametrize(
    ("names", "count"),
    [("all", 90), ("labelled", 70), ("unlabelled", 20), ("split", 60), ("valid + test", 30), ("train+unlabelled", 50)],
)
def test_rows_by_name(names: str, count: int, store: HopStore) -> None:
    assert len(choose_rows(store, names)) == count


@pytest.mark.parametrize(
    ("classes", "class_type", "kind", "in_csv"),
    [
        (("2", "5", "10"), "integer", pa.int64(), pa.int64()),
        (("2", "5", "10"), "string", pa.string(), None),
        (("False", "True"), "boolean", pa.bool_(), None),
    ],
)
def test_labels_have_the_type_that_they_came_with(
    classes: tuple[str, ...],
    class_type: str,
    kind: pa.DataType,
    in_csv: pa.DataType | None,
    store: HopStore,
    tmp_path: Path,
) -> None:
    bundle = bundle_for(5, classes)
    bundle = replace(bundle, class_type=class_type).save(tmp_path / "b.safetensors")
    loaded = Bundle.load(bundle)
    write_predictions(loaded, store, Ids(90), tmp_path / "p.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert table.schema.field("label").type == kind
    most = np.stack([table[f"p_{name}"].to_numpy() for name in classes]).argmax(0)
    assert [str(label) for label in table["label"].to_pylist()] == [classes[at] for at in most]
    write_predictions(loaded, store, Ids(90), tmp_path / "p.csv")
    text = pyarrow.csv.read_csv(
        tmp_path / "p.csv", convert_options=pyarrow.csv.ConvertOptions(column_types={"label": in_csv or pa.string()})
    )
    assert [str(label) for label in text["label"].to_pylist()] == [classes[at] for at in most], "spelled as it was"


def test_many_integer_labels_are_lists_of_integers(store: HopStore, tmp_path: Path) -> None:
    bundle = replace(bundle_for(5, ("2", "5", "10"), multi_label=True), class_type="integer")
    write_predictions(bundle, store, Ids(90), tmp_path / "p.parquet")
    assert pyarrow.parquet.read_schema(tmp_path / "p.parquet").field("label").type.value_type == pa.int64()
    write_predictions(bundle, store, Ids(90), tmp_path / "p.csv")


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
    bundle = bundle_for(5, ("x", "y", "z"), multi_label=True)
    probabilities = np.concatenate([part for _, part in batch_probabilities(bundle, store, range(90))])
    expected = [[name for name, value in zip("xyz", row) if value > 0.5] for row in probabilities]
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


# In a process of its own, since memory that an earlier call has left to the allocators would hide what a later takes.
_PEAK = """
import sys
from pathlib import Path
import gamlp.run.prediction_table as prediction
from gamlp.graph.graph import Graph
from gamlp.io.memory import anonymous_memory
from gamlp.propagation import HopStore
from gamlp.training.bundle import Bundle

place, rows, cells = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
prediction._GROUP_CELLS = cells
bundle, store, ids = Bundle.load(place / "bundle"), HopStore.open(place / "hops"), Graph.open(place / "graph").nodes.ids
most = 0
def watch(*_):
    global most
    most = max(most, anonymous_memory())
def write(count):
    prediction.write_predictions(bundle, store, ids, place / "p.parquet", rows=range(count), progress=watch)
write(20_000)
before, most = anonymous_memory(), 0
write(rows)
print(most - before)
"""
CLASSES = 64


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of 400,000 nodes, its hops and a model of many classes."""
    place = tmp_path_factory.mktemp("planted")
    graph = communities(place / "graph", nodes=400_000, edges=400_000, features=8, classes=CLASSES)
    LocalPropagator().propagate(graph, Plan(features=FeatureSignal(hops=1)), place / "hops")
    bundle_for(8, tuple(f"class {number}" for number in range(CLASSES)), hops=1).save(place / "bundle")
    return place


def peak(planted: Path, rows: int, cells: int = 1 << 20) -> int:
    """Most anonymous memory that predictions of so many rows add, in row groups of so many cells."""
    words = [sys.executable, "-c", _PEAK, str(planted), str(rows), str(cells)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return int(ran.stdout)


def test_memory_does_not_grow_with_the_nodes(planted: Path) -> None:
    small, large = peak(planted, 100_000), peak(planted, 400_000)
    held = 300_000 * CLASSES * 4  # the probabilities of the additional rows alone, 77 MB
    assert large - small < held / 2, f"{small:,} and {large:,} bytes"
    # And the measurement would notice a file that is held as a whole.
    assert peak(planted, 400_000, cells=1 << 40) - small > held / 2
