"""Every column of a table has a use that is told, also those that are not used."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError

EDGES = "src,dst\n0,1\n"


def uses(report, table="nodes"):
    return {use.column: (use.use, use.about) for use in report.columns if use.table == table}


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__", "_c0"])
@pytest.mark.parametrize("first", [0, 5])
def test_an_index_is_no_feature(build, name, first):
    rows = "".join(f"{first + row},{row},{row / 7},{row % 2},train\n" for row in range(6))
    with pytest.warns(UserWarning, match="looks like row numbers that another program wrote, and is no feature"):
        graph, report = build(f"{name},id,age,label,split\n{rows}", EDGES)
    assert graph.nodes.features.width == 1
    assert np.allclose(graph.nodes.features.read(slice(None))[:, 0], np.arange(6) / 7)
    assert uses(report)[name] == ("ignored", "row numbers of another program")


def test_an_index_can_be_asked_for(build, tmp_path):
    text = "Unnamed: 0,id,age\n7,0,1\n8,1,2\n"
    graph, _ = build(text, EDGES, features="Unnamed: 0,age")
    assert graph.nodes.features.read(slice(None)).tolist() == [[7, 1], [8, 2]]
    graph, _ = build(text.replace("id,", "row,"), "src,dst\n7,8\n", id="Unnamed: 0", out=tmp_path / "by")
    assert graph.nodes.features.width == 2


def test_a_table_without_a_header_of_its_own_keeps_its_columns(build):
    """Spark calls columns _c0, _c1 … where there is no header."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph, _ = build("_c0,_c1,id\n3,4,0\n5,6,1\n", EDGES)
    assert graph.nodes.features.width == 2


def test_every_column_is_told(build, tmp_path):
    nodes = pa.table(
        {"key": [0, 1], "age": [1.0, 2.0], "vector": [[1, 2], [3, 4]], "label": ["a", "b"], "split": ["train", "test"]}
    )
    pq.write_table(nodes, tmp_path / "n.parquet")
    edges = "src,dst,weight,relation,comment\n0,1,2.0,likes,hello\n"
    _, report = build(tmp_path / "n.parquet", edges, id="key", weight="")
    assert uses(report) == {
        "key": ("id", ""),
        "label": ("label", ""),
        "split": ("split", ""),
        "age": ("feature", "number"),
        "vector": ("feature", "list of 2 numbers"),
    }
    assert uses(report, "edges") == {
        "src": ("source", ""),
        "dst": ("target", ""),
        "relation": ("relation", ""),
        "weight": ("ignored", "--weight is empty"),
        "comment": ("ignored", "edges have ends, weight, relation, time"),
    }
    _, report = build(tmp_path / "n.parquet", EDGES, id="key", label="", features="age", out=tmp_path / "two")
    assert uses(report)["label"] == uses(report)["vector"] == ("ignored", "not in --features")
    _, report = build(tmp_path / "n.parquet", EDGES, id="key", label="", out=tmp_path / "three")
    assert uses(report)["label"] == ("ignored", "--label is empty")
    np.save(tmp_path / "x.npy", np.eye(2, dtype=np.float32))
    array = str(tmp_path / "x.npy")
    _, report = build(tmp_path / "n.parquet", EDGES, id="key", features=array, out=tmp_path / "four")
    assert uses(report)["x.npy"] == ("feature", "an array, a row for each node")
    assert uses(report)["age"] == ("ignored", f"features are those of {array}")


def test_the_label_cannot_be_a_feature_too(build):
    text = "id,age,label,split\n0,1,0,train\n1,2,1,test\n"
    for name in ("label", "split"):
        with pytest.raises(GamlpError, match=f"--features names column '{name}', which is that of {name}s"):
            build(text, EDGES, features=f"age,{name}")
    graph, _ = build(text, EDGES, features="age,label", label="")
    assert graph.nodes.labels is None and graph.nodes.features.width == 2


def test_a_column_of_some_files_alone_is_told(build, tmp_path):
    for folder, files in {"nodes": ["id,x", "id,x,y"], "edges": ["src,dst", "src,dst,since"]}.items():
        (tmp_path / folder).mkdir()
        for number, header in enumerate(files):
            row = ",".join(str(number + place) for place in range(header.count(",") + 1))
            (tmp_path / folder / f"{number}.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(GamlpError, match="has a column 'y' that"):
        build(tmp_path / "nodes", EDGES)
    _, report = build(tmp_path / "nodes", tmp_path / "edges", features="x", on_bad="skip")
    assert uses(report)["y"] == ("ignored", "not in --features")
    assert uses(report, "edges")["since"][0] == "ignored"


def test_columns_of_several_types_are_told(library):
    _, report = library(target="paper", authors="id,h,label\nada,1,x\nbob,2,y\n3,3,x\n")
    assert {use.table for use in report.columns} == {
        *("nodes paper", "nodes author", "nodes venue", "edges writes", "edges cites", "edges appears")
    }
    assert uses(report, "nodes author")["label"] == ("ignored", "labels and split are those of the target type")
