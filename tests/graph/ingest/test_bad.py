"""Bad input is named with file, row and column; nothing is left behind."""

from __future__ import annotations

import errno
import gzip
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest.build import ingest

EDGE = "src,dst\n1,2\n"
INTS = "id,x,label,split\n1,1,a,train\n2,2,b,train\n3,3,a,test\n"


def told(build, tmp_path, *args, **options) -> str:
    """The sentence of the error, after checking that nothing was written."""
    with pytest.raises(GamlpError) as error:
        build(*args, **options)
    inputs = {"nodes", "edges", "nodes.csv", "edges.csv"}
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".") or path.name == "graph"}
    assert not left - inputs, left
    sentence = str(error.value)
    assert "\n" not in sentence and sentence.count(str(tmp_path)) <= 2
    return sentence.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (INTS, "src,dst\n1,2\n2,9\n", "edges.csv, row 2, column dst: node '9' is not in the node table."),
        (INTS, "src,dst\n1,2\nx,1\n", "edges.csv, row 2, column src: node 'x' is not in the node table."),
        (INTS, "src,dst\n1,\n", "edges.csv, row 1, column dst: missing node."),
        (INTS, "src,dst,weight\n1,2,1\n2,3,-0.5\n", "edges.csv, row 2, column weight: a weight of -0.5"),
        (INTS, "src,dst,weight\n1,2,nan\n", "edges.csv, row 1, column weight: a weight of nan"),
        (INTS, "src,dst,weight\n1,2,1e39\n", "edges.csv, row 1, column weight: a weight of 1e+39"),
        (INTS, "src,dst,weight\n1,2,inf\n", "edges.csv, row 1, column weight: a weight of inf"),
        (INTS, "src,dst,weight\n1,2,heavy\n", "edges.csv, row 1, column weight: 'heavy' is not a number."),
        (INTS, "src,dst,weight\n1,2,\n", "edges.csv, row 1, column weight: missing weight."),
        (INTS, "src,dst,relation\n1,2,r\n2,3,\n", "edges.csv, row 2, column relation: missing relation."),
        (INTS, "src,dst,relation\n1,2,r\n2,3,a/b\n", "edges.csv, row 2, column relation: 'a/b' cannot name"),
        (INTS, "src,dst\n1,2\n3\n", "row 2: truncated, damaged or not CSV (Expected 2 columns, got 1: 3)."),
        (INTS, "from,to\n1,2\n", "edges.csv: no column 'src'; there are: from, to."),
        (INTS, "", "edges.csv: empty file."),
        (INTS, "src,src,dst\n1,2,3\n", "edges.csv: two columns are called 'src'; rename one."),
        ("", EDGE, "nodes.csv: empty file."),
        ("id,x\n", EDGE, "nodes.csv: no nodes: the table has no rows."),
        ("key,x\n1,1\n", EDGE, "nodes.csv: no column 'id'; there are: key, x."),
        ("id,x\n1,1\n2,2\n1,3\n", EDGE, "nodes.csv, row 3, column id: node '1' is already in row 1."),
        ("id,x\na,1\nb,2\nb,3\n", EDGE, "row 3, column id: node 'b' is already in row 2."),
        ("id,x\n1,1\n,2\n", EDGE, "nodes.csv, row 2, column id: missing id."),
        ("id,x\n1,1\n2,\n", EDGE, "nodes.csv, row 2, column x: missing feature"),
        ("id,x,y\n1,1,1\n2,1,red\n", EDGE, "nodes.csv, row 2, column y: 'red' is not a number"),
        ("id,x\n1,1\n2,nan\n", EDGE, "nodes.csv, row 2, column x: the feature is nan"),
        ("id,x\n1,1\n2,-inf\n", EDGE, "nodes.csv, row 2, column x: the feature is -inf"),
        ("id,x\n1,1e300\n", "src,dst\n1,1\n", "column x: the feature is 1e+300, too large for float32"),
        ("id,split\n1,train\n2,dev\n", EDGE, "nodes.csv, row 2, column split: 'dev' is not a part"),
    ],
)  # fmt: skip
def test_bad_csv(build, tmp_path, nodes, edges, sentence):
    assert sentence in told(build, tmp_path, nodes, edges)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            {"id": [1, 2], "x": [[1.0, 2.0], [3.0]]},
            "row 2, column x: 1 features where the rows before have 2.",
        ),
        ({"id": [1, 2], "x": [[1.0], None]}, "row 2, column x: missing feature; every node"),
        (
            {"id": [1, 2], "x": [[1.0, 2.0], [1.0, None]]},
            "row 2, column x: feature 2 of the list is missing or",
        ),
        ({"id": [1, 2], "x": [[1.0, 2.0], [1.0, np.nan]]}, "row 2, column x: feature 2 is nan; every node"),
        ({"id": [1, 2], "x": ["a", "b"]}, "row 1, column x: 'a' is not a number; every node"),
        ({"id": [1, None], "x": [1.0, 2.0]}, "row 2, column id: missing id."),
        ({"id": [1.5, 2.0]}, "column id: ids are double; use integers or strings."),
        ({"id": [1, 2], "label": [0.5, 1.0]}, "row 1, column label: 0.5 cannot name a class; labels are"),
        ({"id": [1, 2], "split": [0, 1]}, "column split: holds int64; a split is"),
        ({"id": [1, 2], "label": [[["a"]], [["b"]]]}, "column label: labels are lists of list<"),
        ({"id": [1, 2], "label": [[{"a": 1}], []]}, "column label: labels are lists of struct<"),
        ({"id": [1, 2], "label": [[b"\xff"], []]}, "column label: labels are lists of binary; labels are"),
    ],
)
def test_bad_parquet(build, tmp_path, table, sentence):
    pq.write_table(pa.table(table), tmp_path / "n.parquet")
    assert f"n.parquet, {sentence}" in told(build, tmp_path, tmp_path / "n.parquet", "src,dst\n1,2\n")


def test_rows_are_counted_within_their_file_across_batches(build, tmp_path):
    (tmp_path / "edges").mkdir()
    good = "src,dst\n" + "1,2\n" * 1_200_000
    (tmp_path / "edges" / "a.csv").write_text(good)
    (tmp_path / "edges" / "b.csv").write_text(f"{good}2,4\n")
    sentence = told(build, tmp_path, INTS, tmp_path / "edges", memory=1)
    assert sentence == "edges/b.csv, row 1200001, column dst: node '4' is not in the node table."


def test_duplicate_id_names_both_files(build, tmp_path):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "a.csv").write_text("id,x\n1,1\n2,2\n")
    (tmp_path / "nodes" / "b.csv").write_text("id,x\n3,1\n2,2\n")
    sentence = told(build, tmp_path, tmp_path / "nodes", "src,dst\n1,2\n")
    assert sentence == "nodes/b.csv, row 2, column id: node '2' is already in row 2 of nodes/a.csv."


def test_wrong_names_say_which_columns_there_are(build, tmp_path):
    assert told(build, tmp_path, label="klass") == "nodes.csv: no column 'klass'; there are: id, f1, f2, label, split."
    assert "no column 'f9'" in told(build, tmp_path, features="f1,f9")
    assert "names column 'f1' twice" in told(build, tmp_path, features="f1,f1")
    assert "no column 'w'; there are: src, dst" in told(build, tmp_path, weight="w")


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_damaged_parquet(build, tmp_path, damage):
    path = tmp_path / "e.parquet"
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"src": rng.integers(1, 4, 50_000), "dst": rng.integers(1, 4, 50_000)}), path)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    else:
        content = b"src,dst\n1,2\n"
    path.write_bytes(content)
    assert "e.parquet: truncated, damaged or not Parquet (" in told(build, tmp_path, INTS, path)


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_damaged_gzip(build, tmp_path, damage):
    content = bytearray(gzip.compress(b"src,dst\n" + b"1,2\n3,1\n" * 100_000))
    path = tmp_path / "e.csv.gz"
    if damage == "cut":
        content = content[:-20]
    elif damage == "flip":
        content[len(content) // 2] ^= 0xFF
    else:
        content = b"src,dst\n1,2\n"
    path.write_bytes(content)
    assert "e.csv.gz: truncated, damaged or not gzipped CSV (" in told(build, tmp_path, INTS, path)


def test_damaged_arrow_and_invalid_text(build, tmp_path):
    (tmp_path / "e.arrow").write_bytes(b"ARROW1\0\0nonsense")
    assert "e.arrow: truncated, damaged or not Arrow (" in told(build, tmp_path, INTS, tmp_path / "e.arrow")
    latin = pa.array([b"a", b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"src": latin, "dst": latin}), tmp_path / "e.parquet")
    sentence = told(build, tmp_path, edges=tmp_path / "e.parquet")
    assert sentence.startswith("e.parquet: truncated, damaged or not Parquet (") and "UTF8" in sentence
    (tmp_path / "e.csv").write_bytes(b"src,dst\n1,2\n1,\xff\xfe\n")
    sentence = told(build, tmp_path, INTS, tmp_path / "e.csv")
    assert sentence == "e.csv, row 2, column dst: is not UTF-8 text; save the table as UTF-8."


def test_files_that_are_not_tables(build, tmp_path):
    (tmp_path / "edges.dat").write_text("1 2\n")
    assert "edges.dat: unknown kind of file; names end in .csv" in told(build, tmp_path, INTS, tmp_path / "edges.dat")
    assert told(build, tmp_path, INTS, tmp_path / "none.csv") == "none.csv: no such file or folder."
    (tmp_path / "edges").mkdir()
    assert told(build, tmp_path, INTS, tmp_path / "edges") == "edges: folder holds no tables."


def test_bad_npy(build, tmp_path):
    def sentence(array):
        np.save(tmp_path / "x.npy", array, allow_pickle=True)
        return told(build, tmp_path, features=str(tmp_path / "x.npy"))

    assert sentence(np.zeros((3, 2))) == "x.npy: 3 rows of features for 4 or more rows of nodes."
    assert sentence(np.zeros((5, 2))) == "x.npy: 5 rows of features for 4 rows of nodes."
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes().replace(b"}  ", b"}{ "))
    assert "x.npy: not a readable .npy array" in told(build, tmp_path, features=str(tmp_path / "x.npy"))
    assert "x.npy: not a readable .npy array" in sentence(np.array([[{}], [{}], [{}], [{}]]))
    assert "x.npy: holds float64 of shape (4,)" in sentence(np.zeros(4))
    assert "x.npy: holds <U1 of shape (4, 1)" in sentence(np.full((4, 1), "a"))
    values = np.zeros((4, 3))
    values[2, 1] = np.nan
    assert "x.npy, row 3, column features: feature 2 is nan" in sentence(values)
    assert told(build, tmp_path, features="y.npy") == "y.npy: no such file; --features names columns, or a .npy file."


@pytest.mark.parametrize(
    ("dtype", "value", "others"), [("float16", 7e4, "float32 or bfloat16"), ("bfloat16", 3.4e38, "float32")]
)
def test_too_large_for_storage(build, tmp_path, dtype, value, others):
    sentence = told(build, tmp_path, f"id,x,y\n1,1,2\n2,3,{value}\n", "src,dst\n1,2\n", dtype=dtype)
    assert sentence == (
        f"nodes.csv, row 2, column y: {value:g} is more than {dtype} can hold; store features as {others}."
    )


@pytest.mark.parametrize(
    ("dtype", "value", "others"), [("float16", -1e-8, "float32 or bfloat16"), ("bfloat16", 2.0**-140, "float32")]
)
def test_too_small_for_storage(build, tmp_path, dtype, value, others):
    sentence = told(build, tmp_path, f"id,x,y\n1,1,2\n2,3,{value}\n", "src,dst\n1,2\n", dtype=dtype)
    assert sentence == (
        f"nodes.csv, row 2, column y: {value:g} is nearer to zero than {dtype} can hold; store features as {others}."
    )


def test_output_that_exists_is_left_alone(build, tmp_path):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "mine").write_text("precious")
    with pytest.raises(GamlpError, match="graph: already exists"):
        build()
    assert (tmp_path / "graph" / "mine").read_text() == "precious"


def test_folders_made_on_the_way_go_too(build, tmp_path):
    with pytest.raises(GamlpError, match="not in the node table"):
        build(edges="src,dst\na,q\n", out=tmp_path / "new" / "deep" / "graph")
    assert not (tmp_path / "new").exists()
    build(out=tmp_path / "new" / "deep" / "graph")
    assert (tmp_path / "new" / "deep" / "graph" / "graph.json").exists()


def test_bad_fractions(build, tmp_path):
    assert "three fractions" in told(build, tmp_path, fractions=(0.9, 0.3, 0.1))


def test_more_labels_than_could_be_classes(build, tmp_path):
    nodes = "id,label\n" + "".join(f"{i},name{i}\n" for i in range(70_000))
    assert "column label: more than 65536 different labels" in told(build, tmp_path, nodes, "src,dst\n1,2\n")


def test_labels_of_two_kinds(build, tmp_path):
    (tmp_path / "nodes").mkdir()
    pq.write_table(pa.table({"id": [1], "label": ["a"]}), tmp_path / "nodes" / "a.parquet")
    pq.write_table(pa.table({"id": [2], "label": [["a"]]}), tmp_path / "nodes" / "b.parquet")
    sentence = told(build, tmp_path, tmp_path / "nodes", "src,dst\n1,2\n")
    assert sentence == "nodes/b.parquet, column label: labels are lists here and single values before."


def test_more_relations_than_could_be_meant(build, tmp_path):
    edges = "src,dst,relation\n" + "".join(f"a,b,r{i}\n" for i in range(1001))
    assert "row 1001, column relation: more than 1000 different" in told(build, tmp_path, edges=edges)


def test_skip_drops_and_counts(build):
    nodes = (
        "id,x,y,label,split\n1,1,1,a,train\n2,nan,2,a,train\n3,3,3,b,dev\n,4,4,b,test\n1,5,5,c,test\n"
        "6,6,,a,test\n7,7,seven,a,test\n8,8,8\n9,9,9,b,train\n"
    )
    edges = "src,dst,weight\n1,9,2\n1,2,1\n9,1,-1\n1,9\n9,9,3\n,9,1\n9,1,x\n9,1,\n1,77,1\n1,9,3\n"
    graph, report = build(nodes, edges, on_bad="skip")
    assert graph.nodes.ids.take(np.arange(2)).to_pylist() == [1, 9]
    assert graph.nodes.features.values.tolist() == [[1, 1], [9, 9]]
    assert graph.nodes.labels.classes == ("a", "b")
    assert graph.nodes.split.roles.tolist() == [1, 1]
    assert graph.relation.blocks[0].weights.tolist() == [5, 5]
    assert report.bad_rows == {
        "NaN or infinite feature": 1,
        "unknown split": 1,
        "missing id": 1,
        "duplicate id": 1,
        "missing feature": 1,
        "non-numeric feature": 1,
        "wrong number of columns": 2,
        "unknown node": 2,
        "bad weight": 2,
        "missing node": 1,
        "missing weight": 1,
    }
    assert report.edges_read == 9  # the ragged row is no row


def test_skip_with_lists_and_arrays(build, tmp_path):
    lists = pa.table({"id": [1, 2, 3, 4], "x": [[1.0, 2.0], [1.0], None, [3.0, 4.0]], "label": ["a", "z", "b", "b"]})
    pq.write_table(lists, tmp_path / "n.parquet")
    graph, report = build(tmp_path / "n.parquet", "src,dst\n1,4\n", on_bad="skip")
    assert graph.nodes.features.values.tolist() == [[1, 2], [3, 4]]
    assert graph.nodes.labels.classes == ("a", "b")
    assert report.bad_rows == {"ragged features": 1, "missing feature": 1}
    np.save(tmp_path / "x.npy", np.array([[1.0], [np.inf], [3.0], [4.0]]))
    graph, report = build(
        tmp_path / "n.parquet",
        "src,dst\n1,4\n",
        on_bad="skip",
        features=str(tmp_path / "x.npy"),
        out=tmp_path / "g2",
    )
    assert graph.nodes.features.values.tolist() == [[1], [3], [4]]
    assert report.bad_rows == {"NaN or infinite feature": 1}


def test_skip_a_whole_batch_without_lists(build, tmp_path):
    (tmp_path / "nodes").mkdir()
    lists = pa.list_(pa.float64())
    for name, ids, values in (("a", [1, 2], [None, None]), ("b", [3, 4], [[1.0, 2.0], [3.0, 4.0]])):
        pq.write_table(pa.table({"id": ids, "x": pa.array(values, lists)}), tmp_path / "nodes" / f"{name}.parquet")
    graph, report = build(tmp_path / "nodes", "src,dst\n3,4\n", on_bad="skip")
    assert graph.nodes.features.values.tolist() == [[1, 2], [3, 4]]
    assert report.bad_rows == {"missing feature": 2}


def test_nothing_but_bad_nodes(build, tmp_path):
    assert "every row of the table is bad" in told(build, tmp_path, "id,x\n1,a\n", "src,dst\n", on_bad="skip")


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("large", ["features", "edges", "blocks", "strings"])
def test_no_space_left(small_disk: Path, tmp_path: Path, large: str):
    nodes, edges = tmp_path / "n.parquet", tmp_path / "e.parquet"
    count = {"features": 300_000, "edges": 100, "blocks": 200_000, "strings": 100_000}[large]
    ids = np.arange(count)
    names = [f"a rather long name of node {i}" for i in ids] if large == "strings" else ids
    features = {"features": ids * 1.0, "more": ids * 1.0} if large == "features" else {}
    pq.write_table(pa.table({"id": names, **features}), nodes)
    some = {"features": 1, "edges": 1_000_000, "blocks": 200_000, "strings": 1}[large]
    ends = np.random.default_rng(0).integers(0, count, (2, some))
    pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), edges)
    with pytest.raises(GamlpError, match="no space left on the device; free some space"):
        ingest(edges, nodes, small_disk / "graph")
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_at_any_moment_leaves_nothing(build, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gamlp.graph.folder.GraphWriter.finish", full)
    assert "graph: no space left on the device" in told(build, tmp_path)
    monkeypatch.undo()
    assert isinstance(build()[0], Graph)
