"""What ingest refuses of several types and relations, told with file, row and column; nothing is left behind."""

from __future__ import annotations

import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames

RELATION_ENDS = {"writes": ("author", "paper"), "cites": ("paper", "paper"), "appears": ("paper", "venue")}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"cites": "src,dst\n1,2\nbob,1\n"},
            r"cites\.csv, row 2, column src: 'bob' is an author, where relation 'cites' expects a paper\.$",
        ),
        (
            {"appears": "src,dst\n1,v1\n2,4\n"},
            r"appears\.csv, row 2, column dst: '4' is a paper, where relation 'appears' expects a venue\.$",
        ),
        (  # the ends of a relation the other way round
            {"writes": "src,dst\n1,ada\n"},
            r"writes\.csv, row 1, column src: '1' is a paper, where relation 'writes' expects an author\.$",
        ),
        (
            {"writes": "src,dst\nada,1\nada,zoe\n"},
            r"writes\.csv, row 2, column dst: node 'zoe' is not in the table of type 'paper', which relation 'writes'",
        ),
        ({"writes": "src,dst\n,1\n"}, r"writes\.csv, row 1, column src: missing node"),
        ({"authors": "id,h\nada,1\nada,2\n"}, r"authors\.csv, row 2, column id: node 'ada' is already in row 1"),
        ({"authors": "id,h\nada,tall\n"}, r"authors\.csv, row 1, column h: 'tall' is not a number"),
        ({"venues": "name\nv1\n"}, r"venues\.csv: no column 'id'"),
        ({"venues": "id\n"}, r"venues\.csv: no nodes: the table has no rows"),
        ({"target": "editor"}, "--target editor: there are no such nodes; there are: paper, author, venue"),
        (
            {"authors": "id,label\nada,x\nbob,x\n3,y\n"},
            "types paper and author have a column of labels; say whose labels are asked for with --target",
        ),
        ({"node_names": NodeNames(label="class")}, "no type of nodes has a column of labels; .* --target"),
        ({"relation_ends": {"writes": ("author", "paper")}}, "no --join says which types relation 'cites' joins"),
        (
            {"relation_ends": RELATION_ENDS | {"writes": ("editor", "paper")}},
            "--join writes=editor:paper: there are no nodes of type 'ed",
        ),
        (
            {"relation_ends": RELATION_ENDS | {"rev-writes": ("paper", "author")}},
            "'rev-writes' is called as the reverse of 'writes'",
        ),
        ({"relation_ends": RELATION_ENDS | {"a/b": ("paper", "author")}}, "'a/b' cannot name a node type or relation"),
        ({"node_names": NodeNames(features="x.npy")}, "'x.npy' cannot be the features of several types"),
        ({"names_of": {"editor": NodeNames()}}, "column names for 'editor', of which there is no table"),
        ({"edge_names_of": {"edits": EdgeNames()}}, "column names for 'edits', of which there is no table"),
    ],
)
def test_is_refused(changed, told, library, tmp_path):
    with pytest.raises(GamlpError, match=told):
        library(**changed)
    assert all(path.suffix == ".csv" for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a/b", "..", ".x", "", "a b", "a+b", "a@b"])
def test_names_that_cannot_be_folders_are_refused(name, library, tmp_path):
    nodes = {node_type: tmp_path / f"{node_type}s.csv" for node_type in ("paper", "author", "venue")}
    edges = {relation: tmp_path / f"{relation}.csv" for relation in RELATION_ENDS}
    for changed in (
        {"nodes": nodes | {name: tmp_path / "venues.csv"}},
        {"edges": edges | {name: tmp_path / "cites.csv"}, "relation_ends": RELATION_ENDS | {name: ("paper", "paper")}},
    ):
        with pytest.raises(GamlpError, match="cannot name a node type or relation"):
            library(**changed)


def one_table(tmp_path, rows):
    (tmp_path / "all.csv").write_text("kind,src,dst\n" + "".join(f"{row}\n" for row in rows))
    return {"edges": tmp_path / "all.csv", "edge_names": EdgeNames(relation="kind")}


GOOD = ["writes,ada,1", "cites,1,2", "appears,2,v1"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            "edits,ada,1",
            r"all\.csv, row 4, column kind: no --join says which types relation 'edits' joins; add --join NAME=SOURCE:",
        ),
        (",ada,1", r"all\.csv, row 4, column kind: missing relation"),
        ("cites,ada,1", r"all\.csv, row 4, column src: 'ada' is an author, where relation 'cites' expects a paper"),
        ("appears,1,zoe", r"all\.csv, row 4, column dst: node 'zoe' is not in the table of type 'venue'"),
    ],
)
def test_a_row_of_a_relation_column_is_refused_or_skipped(row, told, library, tmp_path):
    with pytest.raises(GamlpError, match=told):
        library(**one_table(tmp_path, [*GOOD, row]))
    graph, report = library(**one_table(tmp_path, [*GOOD, row, "cites,2,3"]), on_bad="skip")
    assert sum(report.bad_rows.values()) == 1 and report.edges_read == 5
    assert {name: relation.entries for name, relation in graph.relations.items()} == {
        "writes": 1, "rev-writes": 1, "cites": 4, "appears": 1, "rev-appears": 1
    }  # fmt: skip


def test_the_first_bad_row_of_any_relation_is_told(library, tmp_path):
    rows = [*GOOD, "cites,1,zoe", "appears,1,yan"]
    with pytest.raises(GamlpError, match=r"row 4, column dst: node 'zoe'"):
        library(**one_table(tmp_path, rows))
    with pytest.raises(GamlpError, match=r"row 4, column dst: node 'yan'"):
        library(**one_table(tmp_path, [*GOOD, "appears,1,yan", "cites,1,zoe"]))


def test_edges_without_names_between_types_are_refused(library, tmp_path):
    (tmp_path / "all.csv").write_text("src,dst\nada,1\n")
    with pytest.raises(GamlpError, match=r"all\.csv: edges between several types of nodes need names; .*--relation"):
        library(edges=tmp_path / "all.csv")


def test_bad_edges_of_a_table_are_counted(library):
    graph, report = library(writes="src,dst\nada,1\nzoe,1\n1,ada\nada,2\n,3\n", on_bad="skip")
    assert report.bad_rows == {"unknown node": 2, "missing node": 1}
    assert graph.relations["writes"].entries == graph.relations["rev-writes"].entries == 2


def test_a_dropped_node_takes_its_edges_along(library):
    graph, report = library(papers="id,f,label\n1,1,x\n2,,y\n3,5,\n4,7,x\n", on_bad="skip")
    assert report.bad_rows == {"missing feature": 1, "unknown node": 3}
    assert graph.nodes.count == 3 and graph.relations["writes"].entries == 3


def test_a_relation_without_edges_is_empty_with_a_warning(library, tmp_path):
    relation_ends = RELATION_ENDS | {"edits": ("author", "paper")}
    with pytest.warns(UserWarning, match="relation 'edits' has no edges"):
        graph, report = library(relation_ends=relation_ends)
    assert report.warnings == ["relation 'edits' has no edges"]
    empty, turned = graph.relations["edits"], graph.relations["rev-edits"]
    assert (empty.entries, empty.count, turned.entries, turned.count) == (0, 4, 0, 3)
    with pytest.warns(UserWarning, match="relation 'edits' has no edges"):
        library(relation_ends=relation_ends, **one_table(tmp_path, GOOD))
    with pytest.warns(UserWarning, match="the graph has no edges"):
        library(**one_table(tmp_path, []))


def test_equal_numbers_of_two_types_are_no_self_loop(library):
    """Row 2 of authors is called 3, as row 2 of papers is; what is listed again is merged."""
    graph, report = library(writes="src,dst\n3,3\n3,3\n", cites="src,dst\n1,1\n2,1\n1,2\n2,1\n")
    assert graph.relations["writes"].entries == graph.relations["rev-writes"].entries == 1
    assert graph.relations["cites"].entries == 2
    assert (report.self_loops_dropped, report.duplicates_merged) == (1, 3)
