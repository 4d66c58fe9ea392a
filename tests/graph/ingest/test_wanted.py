"""What is said of columns must be about columns that there are."""

from __future__ import annotations

import pytest

from gamlp.errors import GamlpError

EDGES = "src,dst\n0,1\n1,2\n"
NODES = "id,x,y,label\n0,1.5,a,u\n1,2.5,b,v\n2,7,a,u\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": {"z": "number"}}, "--column z: no such column of features; there are: 'x', 'y'"),
        ({"columns": {"label": "category"}}, "--column label: no such column of features; there are: 'x', 'y'"),
        ({"columns": {"x": "colour"}}, "column x: 'colour' is no type of a column; types are number, "),
        ({"drop": ["z"]}, "--drop z: no such column of features; there are: 'x', 'y'"),
        ({"drop": ["x"], "columns": {"x": "number"}}, "--drop x and --column x=number; leave one of the two out"),
        ({"columns": {"paper:x": "number"}}, "--column paper:x: no such column of features"),
    ],
)
def test_names_and_types_that_do_not_exist(build, options, sentence):
    with pytest.raises(GamlpError) as error:
        build(NODES, EDGES, **{"columns": {}, **options})
    assert sentence in str(error.value)


def test_a_name_goes_before_the_name_for_all(build):
    graph, report = build(NODES, EDGES, columns={"*": "as-is", "y": "category"})
    assert [column.type for column in graph.nodes.features.columns] == ["as-is", "category"]
    assert graph.nodes.features.read(slice(None)).tolist() == [[1.5, 1, 0], [2.5, 0, 1], [7, 1, 0]]
    assert [use.about for use in report.columns if use.column == "y"] == ["category: as you asked"]


def test_dropped_columns_are_not_read(build):
    graph, report = build("id,x,y\n0,1,\n1,2,\n2,3,q\n", EDGES, drop=["y"])
    assert graph.nodes.features.read(slice(None)).tolist() == [[1], [2], [3]]
    assert [(use.use, use.about) for use in report.columns if use.column == "y"] == [("ignored", "--drop")]
