"""Tables of every format come back as the graph they describe."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

IDS = [10, 7, 30, 8]
FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3) / 4


def edge_set(graph, relation="edge"):
    """{(source row, target row): weight} of a relation."""
    found = {}
    for rows, neighbours, weights in graph.relations[relation].edges():
        weights = np.ones(len(rows)) if weights is None else weights
        found |= {(int(s), int(t)): float(w) for t, s, w in zip(rows, neighbours, weights)}
    return found


def write(table: pa.Table, path: Path) -> Path:
    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=2)
    elif name.endswith(".csv"):
        pa.csv.write_csv(table, path)
    elif name.endswith(".csv.gz"):
        plain = path.with_suffix("")
        pa.csv.write_csv(table, plain)
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    elif name.endswith(".feather"):
        pa.feather.write_feather(table, path, compression="zstd")
    elif name.endswith(".ipc"):
        with pa.ipc.new_stream(str(path), table.schema) as sink:
            sink.write_table(table)
    else:
        with pa.ipc.new_file(str(path), table.schema) as sink:
            sink.write_table(table, max_chunksize=2)
    return path


def node_table(ids, *, lists: bool) -> pa.Table:
    columns = {"id": pa.array(ids), "label": pa.array(["b", "a", None, "b"])}
    columns["split"] = pa.array(["train", "train", None, "test"])
    if lists:
        columns["x"] = pa.array(FEATURES.tolist(), pa.list_(pa.float32()))
    else:
        columns |= {f"x{i}": pa.array(FEATURES[:, i]) for i in range(3)}
    return pa.table(columns)


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "arrow", "feather", "ipc"])
def test_round_trip(build, tmp_path, ending, strings):
    ids = [f"n{i}" for i in IDS] if strings else IDS
    nodes = write(node_table(ids, lists=not ending.startswith("csv")), tmp_path / f"n.{ending}")
    edges = pa.table({"src": [ids[0], ids[1], ids[1]], "dst": [ids[1], ids[2], ids[0]]})
    graph, report = build(nodes, write(edges, tmp_path / f"e.{ending}"))
    assert graph.nodes.ids.take(np.arange(4)).to_pylist() == ids
    np.testing.assert_array_equal(graph.nodes.features.values, FEATURES)
    assert graph.nodes.labels.classes == ("a", "b")
    assert graph.nodes.labels.values.tolist() == [1, 0, -1, 1]
    assert graph.nodes.split.roles.tolist() == [1, 1, 0, 3]
    assert set(edge_set(graph)) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert (report.edges_read, report.entries, report.duplicates_merged) == (3, {"edge": 4}, 1)
    assert report.split == {"train": 2, "valid": 0, "test": 1}


def test_folder_of_many_files(build, tmp_path):
    for part in ("nodes", "edges"):
        (tmp_path / part).mkdir()
    nodes = node_table([f"n{i}" for i in IDS], lists=False)
    write(nodes.slice(0, 1), tmp_path / "nodes" / "0.csv")
    write(nodes.slice(1, 2), tmp_path / "nodes" / "1.csv.gz")
    write(nodes.slice(3), tmp_path / "nodes" / "2.csv")
    (tmp_path / "nodes" / "_SUCCESS").touch()
    for index, (source, target) in enumerate([(10, 7), (7, 30), (30, 8)]):
        table = pa.table({"src": [f"n{source}"], "dst": [f"n{target}"]})
        write(table, tmp_path / "edges" / f"{index}.parquet")
    write(table.slice(0, 0), tmp_path / "edges" / "3-no-rows.parquet")
    graph, _ = build(tmp_path / "nodes", tmp_path / "edges", directed=True)
    assert graph.nodes.ids.take(np.arange(4)).to_pylist() == ["n10", "n7", "n30", "n8"]
    np.testing.assert_array_equal(graph.nodes.features.values, FEATURES)
    assert set(edge_set(graph)) == {(0, 1), (1, 2), (2, 3)}


def test_direction_is_kept_and_row_is_the_target(build):
    graph, _ = build(directed=True)
    assert graph.relation.directed
    assert graph.relation.blocks[0].offsets.tolist() == [0, 0, 1, 2, 3]
    assert graph.relation.blocks[0].neighbours.tolist() == [0, 1, 2]


def test_weights_add_up_loops_are_dropped(build):
    edges = "src,dst,weight\na,b,1.5\nb,a,2\na,b,0.25\nc,c,9\n"
    graph, report = build(edges=edges)
    assert edge_set(graph) == {(0, 1): 3.75, (1, 0): 3.75}
    assert (report.self_loops_dropped, report.duplicates_merged) == (1, 2)
    graph, _ = build(edges=edges, weight="", out=graph.folder.with_name("plain"))
    assert not graph.relation.weighted


def test_relations(build):
    graph, report = build(edges="src,dst,relation\na,b,likes\nb,c,knows\na,b,knows\n")
    assert set(edge_set(graph, "likes")) == {(0, 1), (1, 0)}
    assert set(edge_set(graph, "knows")) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert report.entries == {"likes": 2, "knows": 4}


def test_column_names(build):
    graph, _ = build(
        "key,class,part,u,v,w\n1,x,train,1,2,3\n2,y,train,4,5,6\n",
        "from,to,times,kind\n1,2,7,r\n",
        id="key", label="class", split="part", features="w, u",
        src="from", dst="to", weight="times", relation="kind",
    )  # fmt: skip
    assert graph.nodes.features.values.tolist() == [[3, 1], [6, 4]]
    assert edge_set(graph, "r") == {(0, 1): 7, (1, 0): 7}


def test_features_from_npy(build, tmp_path):
    np.save(tmp_path / "x.npy", FEATURES.astype(np.float64))
    graph, _ = build(features=str(tmp_path / "x.npy"))
    np.testing.assert_array_equal(graph.nodes.features.values, FEATURES)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.int16(), 3)])
def test_list_types(build, tmp_path, kind):
    table = pa.table({"id": IDS, "x": pa.array((FEATURES * 4).astype(int).tolist(), kind), "more": [1, 2, 3, 4]})
    graph, _ = build(write(table, tmp_path / "n.parquet"), "src,dst\n10,7\n")
    np.testing.assert_array_equal(graph.nodes.features.values[:, :3], FEATURES * 4)
    assert graph.nodes.features.values[:, 3].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_storage_rounds_to_nearest(build, dtype):
    value = 1 + 2**-8 + 2**-12  # bfloat16 keeps 7 bits of fraction, float16 ten
    graph, _ = build(f"id,x\na,{value}\nb,-3\nc,0\nd,1e-3\n", dtype=dtype)
    stored = graph.nodes.features.read(slice(None))[:, 0]
    if dtype == "float16":
        assert stored.tolist() == np.asarray([value, -3, 0, 1e-3], np.float16).astype(float).tolist()
    else:
        torch = pytest.importorskip("torch")
        assert stored.tolist() == torch.tensor([value, -3, 0, 1e-3]).bfloat16().tolist()


def test_ids_that_look_like_integers_stay_what_they_are(build):
    graph, _ = build("id,x\n007,1\n7,2\n", "src,dst\n007,7\n")
    assert graph.nodes.ids.take(np.arange(2)).to_pylist() == ["007", "7"]
    graph, _ = build("id,x\n1000000000000,1\n-5,2\n", "src,dst\n-5,1000000000000\n", out=graph.folder.with_name("g2"))
    assert graph.nodes.ids.take(np.arange(2)).to_pylist() == [10**12, -5]
    assert set(edge_set(graph)) == {(0, 1), (1, 0)}


def test_integer_edges_of_string_nodes_and_the_reverse(build, tmp_path):
    numbers = write(pa.table({"src": [1], "dst": [2]}), tmp_path / "e.parquet")
    texts = write(pa.table({"id": ["1", "2"], "x": [0.0, 1.0]}), tmp_path / "n.parquet")
    assert set(edge_set(build(texts, numbers)[0])) == {(0, 1), (1, 0)}
    strings = write(pa.table({"src": ["1"], "dst": ["2"]}), tmp_path / "s.parquet")
    graph, _ = build("id,x\n1,0\n2,0\n", strings, out=tmp_path / "g2")
    assert set(edge_set(graph)) == {(0, 1), (1, 0)}


@pytest.mark.filterwarnings("ignore:1 of 2 classes")
def test_categories_and_labels_of_all_kinds(build, tmp_path):
    nodes = pa.table({
        "id": pa.array(["p", "q", "r"]).dictionary_encode(),
        "label": pa.array([10.0, None, 9.0]),  # what a table library makes of integers with gaps
        "split": pa.array(["train", "", "val"]).dictionary_encode(),
    })  # fmt: skip
    graph, _ = build(write(nodes, tmp_path / "n.parquet"), "src,dst\np,q\n")
    assert graph.nodes.labels.classes == ("9", "10")
    assert graph.nodes.labels.values.tolist() == [1, -1, 0]
    assert graph.nodes.split.roles.tolist() == [1, 0, 2]
    assert graph.nodes.features is None
    graph, _ = build("id,label\n1,3.0\n2,\n3,12\n4,3\n", "src,dst\n1,2\n", out=tmp_path / "g2")
    assert graph.nodes.labels.classes == ("3", "12")
    assert graph.nodes.labels.values.tolist() == [0, -1, 1, 0]


def test_many_labels(build, tmp_path):
    lists = pa.table({"id": [1, 2, 3, 4], "label": [["b", "a"], None, [], ["a"]]})
    graph, _ = build(write(lists, tmp_path / "n.parquet"), "src,dst\n1,2\n")
    assert graph.nodes.labels.classes == ("a", "b")
    assert graph.nodes.labels.values.tolist() == [[1, 1], [-1, -1], [0, 0], [1, 0]]
    assert graph.nodes.split.roles[1] == 0
    graph, _ = build("id,label\n1,b;a\n2,\n3,a\n", "src,dst\n1,2\n", separator=";", out=tmp_path / "g2")
    assert graph.nodes.labels.values.tolist() == [[1, 1], [-1, -1], [1, 0]]


def test_split_is_made_over_labelled_nodes_by_the_seed(build, tmp_path):
    nodes = "id,label\n" + "".join(f"{i},{'' if i % 4 == 0 else i % 2}\n" for i in range(400))
    graph, report = build(nodes, "src,dst\n1,2\n", fractions=(0.5, 0.3, 0.2), seed=3)
    assert report.split_made and sum(report.split.values()) == 300
    for role, share in (("train", 0.5), ("valid", 0.3), ("test", 0.2)):
        assert abs(report.split[role] - 300 * share) < 5 * np.sqrt(300 * share * (1 - share))
    assert not graph.nodes.split.roles[::4].any()
    again, _ = build(nodes, "src,dst\n1,2\n", fractions=(0.5, 0.3, 0.2), seed=3, out=tmp_path / "again")
    other, _ = build(nodes, "src,dst\n1,2\n", fractions=(0.5, 0.3, 0.2), seed=4, out=tmp_path / "other")
    assert np.array_equal(graph.nodes.split.roles, again.nodes.split.roles)
    assert not np.array_equal(graph.nodes.split.roles, other.nodes.split.roles)


def test_added_and_reordered_rows_leave_the_split_alone(build, tmp_path):
    """Rows that had trained or validated were in the test part of the longer table."""
    rows = [f"{i},{i % 3}" for i in range(200)]
    first, _ = build("\n".join(["id,label", *rows]) + "\n", "src,dst\n1,2\n")
    longer = ["n1,0", *reversed(rows), *(f"{i},1" for i in range(1000, 1050))]  # and ids are text now
    second, _ = build("\n".join(["id,label", *longer]) + "\n", "src,dst\n1,2\n", out=tmp_path / "longer")
    assert np.array_equal(second.nodes.split.roles[1:201][::-1], first.nodes.split.roles)


def test_a_part_that_chance_leaves_empty_is_told(build, tmp_path):
    with pytest.warns(UserWarning, match="no node is in the part 'valid' of the split"):
        _, report = build("id,label\n0,a\n1,b\n2,a\n", "src,dst\n1,2\n")
    assert report.split["valid"] == 0
    _, report = build("id,label\n1,a\n2,a\n", "src,dst\n1,2\n", fractions=(1, 0, 0), out=tmp_path / "all")
    assert report.warnings == []


def test_no_labels_no_split(build):
    graph, report = build("id,x\na,1\nb,2\nc,3\nd,4\n")
    assert graph.nodes.labels is None and graph.nodes.split is None and report.split == {}


def test_a_label_that_is_left_out_is_no_feature(build):
    graph, _ = build("id,x,label\na,1,0\nb,2,1\nc,3,0\nd,4,1\n", label="")
    assert graph.nodes.features.width == 1 and graph.nodes.labels is None


def test_warnings(build, tmp_path):
    nodes = "id,label,split\na,x,train\nb,y,valid\nc,,train\n"
    with pytest.warns(UserWarning) as told:
        graph, report = build(nodes, "src,dst\n")
    sentences = [str(warning.message) for warning in told]
    assert (
        sentences
        == report.warnings
        == [
            "1 nodes of the split have no label and are left out of it",
            "1 of 2 classes have no training nodes: y",
            "the graph has no edges",
        ]
    )
    assert graph.nodes.split.roles.tolist() == [1, 2, 0]
    assert graph.relation.entries == 0 and graph.relation.count == 3


def test_integers_beyond_float64_are_numbers(build, tmp_path):
    nodes = write(pa.table({"id": [1, 2], "x": [2**53 + 1, -(2**62)]}), tmp_path / "n.parquet")
    graph, _ = build(nodes, "src,dst\n1,2\n")
    assert graph.nodes.features.values.tolist() == [[float(2**53)], [-float(2**62)]]
