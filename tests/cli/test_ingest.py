"""`gamlp ingest` as people call it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph
from tests import forked

NODES = "id,f1,f2,label,split\na,1,2,x,train\nb,3,4,y,train\nc,5,6,,\nd,7,8,x,test\n"


@pytest.fixture
def gamlp(tmp_path: Path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text("src,dst\na,b\nb,c\nb,a\nc,c\n")

    def run(*arguments: str) -> forked.Done:
        return forked.gamlp("ingest", *arguments, folder=tmp_path)

    return run


def test_builds_a_graph_and_shows_counts(gamlp, tmp_path):
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--memory", "64MiB")
    assert done.returncode == 0, done.stderr
    shown = dict(re.findall(r"^(\w[\w -]*\w)  +(\S.*?) *$", done.stdout, re.MULTILINE))
    assert shown["edges read"] == "4" and shown["entries stored"] == "4"
    assert shown["self-loops dropped"] == "1" and shown["duplicates merged"] == "1"
    assert done.stderr == ""  # no bars where there is no terminal
    assert [column.name for column in Graph.open(tmp_path / "graph").nodes.features.columns] == ["f1", "f2"]


def test_columns_of_any_type_and_what_was_done_with_them(gamlp, tmp_path):
    rows = "".join(f"{name},{'' if n == 2 else n / 3},{'ab'[n % 2]},same,k{n}\n" for n, name in enumerate("abcd"))
    (tmp_path / "nodes.csv").write_text(f"id,x,city,one,key\n{rows}")
    asked = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--json")
    done = gamlp(*asked, "--column", "x=robust", "--drop", "key")
    assert done.returncode == 0, done.stderr
    uses = {use["column"]: (use["use"], use["about"]) for use in json.loads(done.stdout)["columns"][:5]}
    assert uses["x"] == ("feature", "robust: as you asked; 1 gap filled, a feature says where")
    assert uses["city"] == ("feature", "category: 2 different texts")
    assert uses["one"] == ("ignored", "constant: one value in all rows") and uses["key"] == ("ignored", "--drop")
    for wrong, sentence in (
        (("--column", "x"), "--column x names no type; write --column NAME=TYPE, such as --column age=number."),
        (("--column", "y=number"), "--column y: no such column of features; there are: 'x', 'city', 'one', 'key'."),
        (("--column", "x=robust", "--column", "x=number"), "--column x is given twice."),
    ):
        done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "new", *wrong)
        assert (done.returncode, done.stderr) == (2, f"gamlp: {sentence}\n")


def test_labels_are_not_separated_by_nothing(gamlp, tmp_path):
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--many-labels", "")
    assert done.returncode == 2 and not (tmp_path / "graph").exists()
    assert done.stderr == "gamlp: --many-labels '' separates nothing; give what stands between labels, such as '|'.\n"


def test_control_characters_of_ids_and_columns_are_shown_escaped(gamlp, tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\na,\x1b[2Jb\n")
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph")
    assert done.stderr == "gamlp: edges.csv, row 1, column dst: node '\\x1b[2Jb' is not in the node table.\n"
    (tmp_path / "edges.csv").write_text('src,"d\x07\nst"\na,b\n')
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph")
    assert done.stderr == "gamlp: edges.csv: no column 'dst'; there are: src, d\\x07\\nst.\n"


@pytest.mark.parametrize("verb", ["ingest", "run"])
def test_more_rows_than_are_allowed(gamlp, tmp_path, verb):
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "made")
    done = forked.gamlp(verb, *tables, "--max-rows", "3", folder=tmp_path)
    assert done.returncode == 2 and not (tmp_path / "made" / "graph").exists()
    assert done.stderr == "gamlp: nodes.csv: more than 3 rows; if they are meant, allow them with --max-rows.\n"


def test_json(gamlp, tmp_path):
    (tmp_path / "edges.csv").write_text("from,to,times\na,b,1\nb,q,1\n")
    done = gamlp(
        "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--json", "--on-bad", "skip", "--directed",
        "--src", "from", "--dst", "to", "--weight", "times", "--features", "f2", "--dtype", "bfloat16",
        "--column", "f2=as-is",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bad_rows"] == {"unknown node": 1}
    assert (report["entries"], report["features"], report["dtype"]) == ({"edge": 1}, 1, "bfloat16")
    stages = {json.loads(line)["stage"] for line in done.stderr.splitlines()}
    assert {"nodes", "sort"} <= stages


def test_every_column_is_shown_with_its_use(gamlp, tmp_path):
    (tmp_path / "nodes.csv").write_text(",id,f1,f2,label\n0,a,1,2,x\n1,b,3,4,NA\n2,c,5,6,x\n3,d,7,8,y\n")
    (tmp_path / "edges.csv").write_text("src,dst,since\na,b,2001\n")
    asked = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--split-fractions", "1,0,0", "--column", "*=as-is")
    done = gamlp(*asked, "--out", "graph")
    assert done.returncode == 0, done.stderr
    shown = re.sub(" +", " ", done.stdout)
    assert "nodes feature (number) f1, f2" in shown and "nodes label label" in shown
    assert "nodes ignored (row numbers of another program) (without a name)" in shown
    assert "edges ignored (edges have ends, weight, relation, time) since" in shown
    assert "unknown labels 1 NA" in shown
    assert "column without a name looks like row numbers" in done.stderr and "labels 1 'NA' are taken" in done.stderr
    report = json.loads(gamlp(*asked, "--out", "other", "--json", "--unknown-label", "").stdout)
    assert report["classes"] == 3 and report["unknown_labels"] == {}
    assert {"table": "edges", "column": "since", "use": "ignored"}.items() <= report["columns"][-1].items()
    report = json.loads(
        gamlp(*asked, "--out", "third", "--json", "--unknown-label", "y", "--unknown-label", "x").stdout
    )
    assert report["classes"] == 1 and report["unknown_labels"] == {"x": 2, "y": 1}


def test_many_columns_are_shown_by_their_types(gamlp, tmp_path):
    values = np.random.default_rng(0).standard_normal((90, 60))
    cells = [["" if n < column else f"{value:.6f}" for column, value in enumerate(row)] for n, row in enumerate(values)]
    rows = [f"{n},{','.join(row)}" for n, row in enumerate(cells)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id," + ",".join(f"f{n}" for n in range(60)), *rows]) + "\n")
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n")
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph")
    assert done.returncode == 0, done.stderr
    shown = re.sub(r"\s+", " ", done.stdout)
    assert "nodes feature (standard) f0, f1, f2" in shown and "and 48 more (--json names all)" in shown


def test_an_error_is_one_sentence_and_code_2(gamlp, tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\na,b\nb,q\n")
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph")
    assert done.returncode == 2
    assert done.stderr == "gamlp: edges.csv, row 2, column dst: node 'q' is not in the node table.\n"
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "nodes.csv"}
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--split-fractions", "most")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "not fractions" in done.stderr


def test_help_teaches_with_an_example(gamlp):
    done = gamlp("--help")
    assert done.returncode == 0
    assert "gamlp ingest --edges edges.parquet --nodes nodes.csv --out graph" in done.stdout


@pytest.fixture
def library(gamlp, tmp_path: Path):
    (tmp_path / "papers.csv").write_text("id,f1,f2,label\np1,1,2,x\np2,3,4,y\np3,5,6,\n")
    (tmp_path / "authors.csv").write_text("name,h\nada,1\nbob,2\n")
    (tmp_path / "writes.csv").write_text("who,what\nada,p1\nada,p2\nbob,p2\n")
    (tmp_path / "cites.csv").write_text("src,dst\np1,p2\np3,p1\n")
    (tmp_path / "all.csv").write_text("kind,src,dst\nwrites,ada,p1\nwrites,ada,p2\nwrites,bob,p2\ncites,p1,p2\n")

    def run(*arguments: str, edges: tuple[str, ...] = ("writes=writes.csv", "cites=cites.csv")):
        given = [word for table in ("paper=papers.csv", "author=authors.csv") for word in ("--nodes", table)]
        given += [word for table in edges for word in ("--edges", table)]
        return gamlp(*given, "--id", "author=name", "--column", "*=as-is", "--out", "graph", *arguments)

    return run


JOINED = ("--join", "writes=author:paper", "--join", "cites=paper:paper")
COLUMNS = ("--src", "writes=who", "--dst", "writes=what")


def test_several_types_and_relations(library, tmp_path):
    done = library(*JOINED, *COLUMNS, "--features", "paper=f2")
    assert done.returncode == 0, done.stderr
    graph = Graph.open(tmp_path / "graph")
    assert graph.target == "paper" and list(graph.relations) == ["writes", "rev-writes", "cites"]
    assert {node_type: nodes.features.width for node_type, nodes in graph.node_types.items()} == {
        "paper": 1,
        "author": 1,
    }
    assert graph.node_types["author"].ids.take([0, 1]).to_pylist() == ["ada", "bob"]
    shown = dict(re.findall(r"^(\w[\w ,-]*\w)  +(\S.*?) *$", done.stdout, re.MULTILINE))
    assert shown["nodes, type paper"] == "3, 1 features, target" and shown["nodes, type author"] == "2, 1 features"
    assert (shown["stored, relation writes"], shown["stored, relation rev-writes"]) == ("3", "3")
    assert (shown["edges read"], shown["stored, relation cites"]) == ("5", "4")


def test_a_relation_column(library, tmp_path):
    done = library(*JOINED, "--relation", "kind", "--features", "author=", "--json", edges=("all.csv",))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entries"] == {"writes": 3, "rev-writes": 3, "cites": 2}
    assert Graph.open(tmp_path / "graph").node_types["author"].features is None


def test_info_shows_types_relations_and_reverses(library, gamlp, tmp_path):
    assert library(*JOINED, *COLUMNS).returncode == 0
    told, table = (forked.gamlp("info", "graph", *more, folder=tmp_path).stdout for more in (["--json"], []))
    shown = json.loads(told)
    assert shown["target"] == "paper"
    assert [(row["type"], row["nodes"], row["features"]) for row in shown["nodes"]] == [
        ("paper", 3, 2), ("author", 2, 1)
    ]  # fmt: skip
    assert [
        (row["relation"], row["from"], row["to"], row["entries"], row["reverse"]) for row in shown["relations"]
    ] == [
        ("writes", "author", "paper", 3, "rev-writes"),
        ("rev-writes", "paper", "author", 3, "writes"),
        ("cites", "paper", "paper", 4, None),
    ]
    assert re.search(r"^paper \(target\) +3 +2 ", table, re.MULTILINE)
    assert re.search(r"^rev-writes +3 +paper +author +directed +1 +writes *$", table, re.MULTILINE)


def test_words_that_do_not_fit_are_told(library, tmp_path):
    for arguments, told in (
        ((*JOINED, *COLUMNS, "--relation", "kind"), "--relation kind with a table for each relation"),
        ((*JOINED, *COLUMNS, "--nodes", "a/b=papers.csv"), "'a/b' cannot name a node type or relation"),
        ((*JOINED, "--dst", "writes=what", "--src", "who"), "cites.csv: no column 'who'"),
    ):
        done = library(*arguments)
        assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "graph").exists()
