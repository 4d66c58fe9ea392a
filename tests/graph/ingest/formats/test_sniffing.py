"""Delimiters are found in the first lines; decimal commas are not taken for text in silence."""

from __future__ import annotations

import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.sniffing import parse_delimiter, sniffed

EDGES = "src;dst\n1;2\n"


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("id,x\n1,2\n", ","),
        ("id\tx\n1\t2\n", "\t"),
        ("id;x,y\n1;2\n3;4\n", ";"),
        ("id,x;y\n1,2\n3,4\n", ","),
        ('"id","a;b;c","d;e;f"\n1,2,3\n', ","),
        ('id|"x, y, z"\n1|"a\n,b,c"\n', "|"),
        ("id\n1;2\n", ","),
        ("id;x\n1,5;2\n2,5;3\n", ";"),
        ("id\x01x\n1\x012\n", "\x01"),
        ("", ","),
        ('id;"x', ";"),
    ],
)
def test_sniffed(text, delimiter):
    assert sniffed(text.encode(), ",") == delimiter


def test_what_is_said_overrides(build):
    graph, report = build("id^x;y\n1^5\n2^6\n", "src^dst\n1^2\n", delimiter="^", features="x;y")
    assert graph.nodes.features is not None and graph.nodes.features.values.tolist() == [[5.0], [6.0]]
    assert report.delimiters == {"nodes.csv": "^", "edges.csv": "^"}


def test_words_for_delimiters():
    assert [parse_delimiter(text) for text in ("tab", r"\t", ";", "space")] == ["\t", "\t", ";", " "]
    for text in ("", "ab", '"', "\n", "é"):
        with pytest.raises(GamlpError, match="is not one character"):
            parse_delimiter(text)


def test_rows_are_named_with_any_delimiter(build):
    with pytest.raises(GamlpError, match=r"nodes.csv, row 2: .*Expected 2 columns, got 3"):
        build('id;x\n"a;b\n";1\n2;3;4\n', EDGES)
    with pytest.raises(GamlpError, match=r"no column 'id'; there are: id x alone: .* --delimiter"):
        build("id x\n1 2\n", EDGES)


def test_a_decimal_comma_is_refused_or_read(build, tmp_path):
    nodes = "id;x;y\n1;0,5;a,b\n2;-3,25e2;c\n3;7;\n"
    with pytest.raises(GamlpError, match=r"nodes.csv, column x: numbers with a comma in them, such as '0,5'; .*--dec"):
        build(nodes, EDGES, features="x")
    graph, _ = build(nodes, EDGES, features="x", decimal=",")
    assert (
        graph.nodes.features.values.tolist()
        == build("id,x\n1,0.5\n2,-325\n3,7\n", "src,dst\n1,2\n", features="x", out=tmp_path / "points")[
            0
        ].nodes.features.values.tolist()
    )


@pytest.mark.filterwarnings("ignore")
def test_labels_with_commas_are_no_numbers(build):
    graph, _ = build('id;label\n1;"1,2"\n2;1\n3;2\n', EDGES, separator=",")
    assert graph.nodes.labels.classes == ("1", "2")
