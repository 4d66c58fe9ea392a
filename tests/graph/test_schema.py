"""Names and types of feature columns: kept by graph folders, matched by name, read in another order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, fingerprint, induce
from gamlp.graph.ingest import IngestOptions, NodeNames, ingest
from gamlp.graph.schema import FeatureColumn, PickedColumns, match_columns
from gamlp.io import digest, unsealed

AGE, INCOME = FeatureColumn(name="age"), FeatureColumn(name="income")
TEXT = FeatureColumn(name="text", type="list", width=3)


def read(folder: Path, header: str, name: str = "graph", **columns: object) -> Graph:
    folder.mkdir(exist_ok=True)
    order = header.split(",")
    pq.write_table(pa.table({key: columns[key] for key in order}), folder / f"{name}.parquet")
    (folder / "edges.csv").write_text("src,dst\n0,1\n1,2\n")
    how = IngestOptions(columns={"*": "as-is"})
    ingest(folder / "edges.csv", folder / f"{name}.parquet", folder / name, how)
    return Graph.open(folder / name)


def people(folder: Path, header: str = "id,age,income,text", name: str = "graph") -> Graph:
    text = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(9, dtype=np.float32)), 3)
    return read(folder, header, name, id=[0, 1, 2], age=[30, 40, 50], income=[1.5, 2.5, 3.5], text=text)


def named(graph: Graph) -> Features:
    assert graph.nodes.features is not None
    return graph.nodes.features


def test_a_graph_of_tables_keeps_names_and_types_of_columns(tmp_path: Path) -> None:
    graph = people(tmp_path)
    assert named(graph).columns == (AGE, INCOME, TEXT)
    entry = json.loads((tmp_path / "graph/graph.json").read_text())["nodes"]["node"]["features"]
    assert entry["columns"][2] == {"name": "text", "type": "list", "width": 3}
    assert named(graph.save(tmp_path / "copy")).columns == (AGE, INCOME, TEXT)
    assert named(induce(graph, np.array([0, 2]), tmp_path / "some")).columns == (AGE, INCOME, TEXT)


def test_an_array_has_no_names(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id\n0\n1\n2\n")
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n")
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    options = IngestOptions(node_names=NodeNames(features=str(tmp_path / "x.npy")))
    ingest(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph", options)
    assert named(Graph.open(tmp_path / "graph")).columns is None
    assert named(Graph.from_arrays([[0], [1]], np.eye(2))).columns is None


def test_a_folder_of_before_there_were_names_is_opened(tmp_path: Path) -> None:
    graph = people(tmp_path)
    manifest = unsealed((tmp_path / "graph/graph.json").read_bytes())
    del manifest["nodes"]["node"]["features"]["columns"]
    (tmp_path / "graph/graph.json").write_text(json.dumps(manifest))
    old = Graph.open(tmp_path / "graph")
    assert named(old).columns is None and named(old).width == named(graph).width
    files = [[name, *entry] for name, entry in sorted(old.checksums.items()) if "/features" in name]
    assert fingerprint.features(old) == digest(["float32", 5, files])  # stores of it are still found


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([{"name": "age"}], "hold 1 features, not 5"),
        ([{"name": "age"}] * 5, "two columns are called 'age'"),
        ([{"name": "age", "type": "colour"}], "Input should be 'number', 'list', "),
        ([{"name": "age", "type": "date"}], "'age' of type date has no state"),
        ("age", "Input should be a valid"),
    ],
)
def test_columns_that_do_not_fit_their_features_are_refused(tmp_path: Path, columns: object, told: str) -> None:
    people(tmp_path)
    manifest = unsealed((tmp_path / "graph/graph.json").read_bytes())
    manifest["nodes"]["node"]["features"]["columns"] = columns
    (tmp_path / "graph/graph.json").write_text(json.dumps(manifest))
    with pytest.raises(GamlpError, match=told):
        Graph.open(tmp_path / "graph")


def test_the_fingerprint_changes_with_the_order_and_the_names_of_columns(tmp_path: Path) -> None:
    graph, other = people(tmp_path), people(tmp_path, "id,income,age,text", "other")
    renamed = replace(named(graph), columns=(INCOME, AGE, TEXT))
    found = {
        fingerprint.features(each)
        for each in (graph, other, graph.with_features(node=renamed), graph.with_features(node=named(graph)))
    }
    assert len(found) == 4  # the last: what is in memory is known by its bytes, not by its file


columns = st.lists(
    st.builds(
        lambda name, width: FeatureColumn(name=name, type="list" if width else "number", width=width or 1),
        st.sampled_from("abcdefgh"),
        st.integers(0, 3),
    ),
    unique_by=lambda column: column.name,
)


@given(columns, st.randoms(), columns)
def test_columns_are_found_wherever_they_lie(wanted: list[FeatureColumn], random: object, more: list[FeatureColumn]):
    extra = [column for column in more if column.name not in {one.name for one in wanted}]
    found = [*wanted, *extra]
    random.shuffle(found)  # type: ignore[attr-defined]
    match = match_columns(tuple(found), tuple(wanted))
    assert not match.missing and not match.changed and set(match.ignored) == {column.name for column in extra}
    cells = [(column.name, at) for column in found for at in range(column.width)]
    order = range(len(cells)) if match.order is None else match.order
    assert [cells[at] for at in order] == [(column.name, at) for column in wanted for at in range(column.width)]


def test_what_is_missing_or_holds_something_else_is_found() -> None:
    match = match_columns((FeatureColumn(name="text"), AGE), (INCOME, TEXT, AGE))
    assert (match.order, match.missing, match.changed) == (None, ("income",), ((TEXT, FeatureColumn(name="text")),))
    assert match_columns((AGE, TEXT), (AGE, TEXT)).order is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_picked_columns_read_like_an_array_of_them(dtype: str) -> None:
    values = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    stored = {"float32": values, "float16": values.astype(np.float16), "bfloat16": (values.view(np.uint32) >> 16)}
    whole = Features(stored[dtype].astype(np.uint16) if dtype == "bfloat16" else stored[dtype], dtype)  # type: ignore[arg-type]
    order = np.array([4, 0, 2])
    picked = whole.arranged(order, (AGE, INCOME, FeatureColumn(name="c")))
    plain = Features(np.ascontiguousarray(whole.values[:, order]), whole.dtype)
    assert picked.width == 3 and isinstance(picked.values, PickedColumns)
    for rows in (slice(None), slice(2, 5), np.array([6, 0, 0]), np.zeros(0, np.int64)):
        for part in (slice(None), slice(1, 3), slice(0, 0)):
            found = picked.read(rows, part)
            assert np.array_equal(found, plain.read(rows, part)) and found.flags.c_contiguous
    assert np.array_equal(np.asarray(picked.values), plain.values) and picked.values.nbytes == plain.values.nbytes
