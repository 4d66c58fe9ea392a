"""Bad tables on Spark: the sentence of ingest with the node or edge in it, the same counts, and nothing left behind."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames
from gamlp.graph.ingest.time_split import TimeSplit
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from tests.spark.graph_tables import assert_same

AS_IS = IngestOptions(columns={"*": "as-is"})
NODES = "id,x,label,split\n1,1,a,train\n2,2,b,train\n3,3,a,test\n"
EDGES = "src,dst\n1,2\n"


def build(spark, folder, nodes=NODES, edges=EDGES, blocks=None, **options):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    tables = read_table(spark, folder / "edges.csv"), read_table(spark, folder / "nodes.csv")
    return spark_graph(spark, *tables, folder / "new" / "graph", replace(AS_IS, **options), blocks=blocks)


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (f"{NODES}10,nan,a,\n9,inf,b,\n", EDGES, "nodes.csv, column x: node '9': the feature is inf; every node"),
        (f"{NODES}2,7,a,\n3,8,b,\n", EDGES, "nodes.csv, column id: node '2' is there more than once."),
        (f"{NODES}4,4\n", EDGES, "nodes.csv: a row with a wrong number of columns: 4,4."),
        (NODES, "src,dst\n1,2\n3,7\n", "edges.csv, column dst: edge 3 → 7: node '7' is not in the node table."),
        (NODES, "src,dst,weight\n1,2,3e38\n2,1,3e38\n", "column weight: the weights of an edge add up to more than"),
        ("id,x\n", EDGES, "nodes.csv: no nodes: the table has no rows."),
        (NODES, 'src,dst,c\n1,2,"a\n7,9,b"\n', "edges.csv: a quote is not closed in its line, and Spark reads"),
        (NODES, "src,dst\n1,0x2\n", "edges.csv, column dst: edge 1 → 0x2: node '0x2' is not in the node table."),
        (NODES, "src,dst\n-0,2\n", "edges.csv, column src: edge -0 → 2: node '-0' is not in the node table."),
    ],
)
def test_bad_tables(spark, tmp_path, nodes, edges, sentence):
    with pytest.raises(GamlpError) as error:
        build(spark, tmp_path, nodes, edges)
    assert sentence in str(error.value).replace(f"{tmp_path}/", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_times_are_told(spark, tmp_path):
    report = build(spark, tmp_path, edges="src,dst,date\n1,2,2020-01-01\n")
    told = [(one.use, one.about) for one in report.columns if one.column == "date"]
    assert told == [("time", "of no use without --before")]


@pytest.mark.parametrize(
    ("split_by", "sentence"),
    [
        (TimeSplit("year", "1", "2"), "nodes.csv: no column 'year'; there are: id, x, label, split."),
        (TimeSplit("x", "0", "2"), "nodes.csv, column x: no labelled node is until 0; choose a later --train-until."),
        (TimeSplit("x", "2", "1"), "--valid-until 1 is not later than --train-until 2"),
        (TimeSplit("x", "2020-01", "2020-02"), "--train-until 2020-01 cannot be compared with column 'x'"),
        (TimeSplit("label", "1", "2"), "nodes.csv, column label: node '1': 'a' is not a time;"),
    ],
)
def test_splits_by_time_that_cannot_be_made(spark, tmp_path, split_by, sentence):
    with pytest.raises(GamlpError) as error:
        build(spark, tmp_path, split_by=split_by)
    assert sentence in str(error.value).replace(f"{tmp_path}/", "")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("edges", "before", "sentence"),
    [
        (
            "src,dst\n1,2\n",
            "2020",
            "edges.csv: no column of times, which --before asks for; name it with",
        ),
        ("src,dst,time\n1,2,7\n", "2020-05", "--before 2020-05 cannot be compared with column 'time': give a number"),
        ("src,dst,t\n1,2,2020-01-01\n2,3,\n", "2021", "edges.csv, column t: edge 2 → 3: missing time;"),
        ("src,dst,t\n1,2,2020-01-01\n2,3,soon\n", "2021", "edges.csv, column t: edge 2 → 3: 'soon' is not a time;"),
        ("src,dst,time\n1,2,2020-01-01\n", "then", "--before then: is no time;"),
    ],
)
def test_times_that_cannot_be_compared(spark, tmp_path, edges, before, sentence):
    names = EdgeNames(time="t" if ",t\n" in edges else None)
    with pytest.raises(GamlpError) as error:
        build(spark, tmp_path, edges=edges, before=before, edge_names=names)
    assert sentence in str(error.value).replace(f"{tmp_path}/", "")
    assert not (tmp_path / "new").exists()


def test_columns_that_are_not_there(spark, tmp_path):
    def told(**options):
        with pytest.raises(GamlpError) as error:
            build(spark, tmp_path, **options)
        assert not (tmp_path / "new").exists()
        return str(error.value).replace(f"{tmp_path}/", "")

    assert told(node_names=NodeNames(id="key")) == "nodes.csv: no column 'key'; there are: id, x, label, split."
    assert told(edge_names=EdgeNames(weight="w")) == "edges.csv: no column 'w'; there are: src, dst."
    assert "no column 'f9'" in told(node_names=NodeNames(features="x,f9"))
    assert "names column 'x' twice" in told(node_names=NodeNames(features="x,x"))
    assert "x.npy: rows of a .npy cannot be told apart on Spark" in told(node_names=NodeNames(features="x.npy"))
    assert "three fractions" in told(fractions=(0.9, 0.3, 0.1))
    assert "0 blocks are none" in told(blocks=0)


def test_more_labels_than_could_be_classes(spark, tmp_path):
    nodes = spark.range(70_000).selectExpr("id", "concat('name', id) as label")
    with pytest.raises(GamlpError, match="column label: more than 65536 different labels"):
        spark_graph(spark, spark.createDataFrame([(1, 2)], ["src", "dst"]), nodes, tmp_path / "g", AS_IS)
    assert list(tmp_path.iterdir()) == []


def test_skip_drops_and_counts_as_ingest_does(spark, tmp_path):
    nodes = (
        "id,x,y,label,split\n1,1,1,a,train\n2,nan,2,a,train\n3,3,3,b,dev\n,4,4,b,test\n1,5,5,c,test\n"
        "6,6,,a,test\n7,7,seven,a,test\n8,8,8\n9,9,9,b,train\n"
    )
    edges = "src,dst,weight\n1,9,2\n1,2,1\n9,1,-1\n1,9\n9,9,3\n,9,1\n9,1,x\n9,1,\n1,77,1\n1,9,3\n"
    report = build(spark, tmp_path, nodes, edges, on_bad="skip", name="graph")
    how = IngestOptions(on_bad="skip", name="graph", columns={"*": "as-is"})
    expected = ingest(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph", how)
    assert report.bad_rows == expected.bad_rows and report.edges_read == expected.edges_read == 9
    found = Graph.open(tmp_path / "new" / "graph")
    assert_same(found, Graph.open(tmp_path / "graph"))
    assert found.nodes.labels.classes == ("a", "b")  # that of a node that was dropped is none
    assert found.source["bad_rows"] == report.bad_rows


def test_lists_of_another_length_than_the_first_nodes(spark, tmp_path):
    lists = [(4, [1.0]), (3, [3.0, 4.0]), (1, [1.0, 2.0]), (2, []), (5, None)]
    nodes = spark.createDataFrame(lists, "id long, x array<double>").repartition(5)
    edges = spark.createDataFrame([(1, 3)], ["src", "dst"])
    with pytest.raises(GamlpError, match="column x: node '2': 0 features where other nodes have 2"):
        spark_graph(spark, edges, nodes, tmp_path / "g", AS_IS)
    report = spark_graph(spark, edges, nodes, tmp_path / "g", replace(AS_IS, on_bad="skip"))
    assert report.bad_rows == {"ragged features": 2, "missing feature": 1}
    assert Graph.open(tmp_path / "g").nodes.features.values[:].tolist() == [[1, 2], [3, 4]]


def test_what_is_there_is_left_alone(spark, tmp_path):
    (tmp_path / "new" / "graph").mkdir(parents=True)
    (tmp_path / "new" / "graph" / "mine").write_text("precious")
    with pytest.raises(GamlpError, match="graph: already exists"):
        build(spark, tmp_path)
    assert (tmp_path / "new" / "graph" / "mine").read_text() == "precious"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["graph"]


def test_more_rows_than_are_allowed(spark, tmp_path):
    with pytest.raises(GamlpError, match=r"nodes.csv: more than 2 rows; if they are meant, allow them with --max-rows"):
        build(spark, tmp_path, max_rows=2)
    assert not (tmp_path / "new").exists()


def test_text_that_is_not_utf8(spark, tmp_path):
    (tmp_path / "n.csv").write_bytes(b'id,label\n1,"caf""e"\n2,caf\xe9\n')
    with pytest.raises(GamlpError, match=r"n.csv: text that is not UTF-8: 2,caf.; save the table as UTF-8"):
        read_table(spark, tmp_path / "n.csv")


def test_formats_that_spark_reads(spark, tmp_path):
    (tmp_path / "n.csv.gz").write_bytes(gzip.compress(b'id,x,label\n1,2,"a, ""b"""\n2, 3 ,\n3,4\n'))
    table = read_table(spark, tmp_path / "n.csv.gz")
    assert table.column_names == ["id", "x", "label"] and not table.typed
    rows = [tuple(row) for row in table.frame.collect()]
    assert rows == [("1", "2", 'a, "b"', None), ("2", " 3 ", None, None), ("3", "4", None, "3,4")]
    (tmp_path / "n.tsv").write_text('id\tlabel\n1\t"u,""\t""v"\n2\tw\t3\n')
    assert [tuple(row) for row in read_table(spark, tmp_path / "n.tsv").frame.collect()] == [
        ("1", 'u,"\t"v', None), ("2", "w", "2\tw\t3")
    ]  # fmt: skip
    (tmp_path / "comma.csv").write_text("id;x\n1;0,5\n")
    with pytest.raises(GamlpError, match=r"comma.csv, column x: numbers with a comma in them, such as '0,5'"):
        read_table(spark, tmp_path / "comma.csv")
    (tmp_path / "n.jsonl").write_text('{"id": 1, "label": "u"}\n')
    assert read_table(spark, tmp_path / "n.jsonl").frame.count() == 1
    plain = spark.createDataFrame([(1, "u"), (2, "v")], ["id", "label"])
    for kind in ("json", "orc", "parquet"):
        plain.write.format(kind).save(str(tmp_path / kind))
        for place in (f"{kind}:{tmp_path / kind}", str(tmp_path / kind)):
            found = read_table(spark, place)
            rows = found.frame.select("id", "label").collect()
            assert found.typed and sorted(map(tuple, rows)) == [(1, "u"), (2, "v")]
    plain.createOrReplaceTempView("people")
    assert read_table(spark, "people").frame.count() == 2
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "x.arrow").write_bytes(b"")
    for place, sentence in {
        "none.csv": "none.csv: no such file or folder.",
        "empty.csv": "empty.csv: empty file.",
        "cut.parquet": "cut.parquet: truncated, damaged or not parquet (",
        "x.arrow": "x.arrow: Spark does not read Arrow files; write Parquet",
        "some.txt": "some.txt: no such file or folder; names end in .parquet",
    }.items():
        with pytest.raises(GamlpError) as error:
            read_table(spark, tmp_path / place)
        assert str(error.value).replace(f"{tmp_path}/", "").startswith(sentence)
    with pytest.raises(GamlpError, match="nobody: no such file, folder or table of Spark's catalogue"):
        read_table(spark, "nobody")
    with pytest.raises(GamlpError, match="this Spark does not know the format 'nosuch'"):
        read_table(spark, f"nosuch:{tmp_path}")
