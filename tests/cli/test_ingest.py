"""`gamlp ingest` as people call it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gamlp.graph import Graph

NODES = "id,f1,f2,label,split\na,1,2,x,train\nb,3,4,y,train\nc,5,6,,\nd,7,8,x,test\n"


@pytest.fixture
def gamlp(tmp_path: Path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text("src,dst\na,b\nb,c\nb,a\nc,c\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gamlp.cli.main", "ingest", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_builds_a_graph_and_shows_counts(gamlp, tmp_path):
    done = gamlp("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--memory", "64MiB")
    assert done.returncode == 0, done.stderr
    shown = dict(re.findall(r"^(\w[\w -]*\w)  +(\S.*?) *$", done.stdout, re.MULTILINE))
    assert shown["edges read"] == "4" and shown["entries stored"] == "4"
    assert shown["self-loops dropped"] == "1" and shown["duplicates merged"] == "1"
    assert done.stderr == ""  # no bars where there is no terminal
    assert Graph.open(tmp_path / "graph").nodes.features.width == 2


def test_json(gamlp, tmp_path):
    (tmp_path / "edges.csv").write_text("from,to,times\na,b,1\nb,q,1\n")
    done = gamlp(
        "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--json", "--on-bad", "skip", "--directed",
        "--src", "from", "--dst", "to", "--weight", "times", "--features", "f2", "--dtype", "bfloat16",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bad_rows"] == {"unknown node": 1}
    assert (report["entries"], report["features"], report["dtype"]) == ({"edge": 1}, 1, "bfloat16")
    stages = {json.loads(line)["stage"] for line in done.stderr.splitlines()}
    assert {"nodes", "sort"} <= stages


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
