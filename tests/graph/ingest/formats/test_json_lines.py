"""JSON Lines: types of whole columns, rows and columns in refusals, lines that would end the process."""

from __future__ import annotations

import gzip
import json

import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats import contract, json_lines

EDGES = "src,dst\na,b\n"


def table(tmp_path, *lines: str | bytes):
    path = tmp_path / "n.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_a_type_holds_all_rows_of_a_column(build, tmp_path, monkeypatch):
    """The first block has integers alone; later ones fractions, gaps, and a column more."""
    monkeypatch.setattr(json_lines, "_LARGEST_BLOCK", 64)
    rows = [{"id": "a", "x": 1, "v": [1, 2]}, {"id": "b", "x": 2, "v": [3, 4]}, {"id": "c", "x": None, "v": [0.5, 1]}]
    rows += [{"v": [1, 2], "x": 2.5, "id": "d", "more": {"deep": 1}}, {"id": "2020-01-01", "x": 1, "v": [0, 0]}]
    lines = ["", *map(json.dumps, rows), "  "]
    rules = contract.ReadingRules()
    found = json_lines.JsonLines(table(tmp_path, *lines), rules).schema()
    assert str(found.field("x").type) == "double" and str(found.field("v").type) == "list<item: double>"
    assert str(found.field("id").type) == "string"
    graph, report = build(tmp_path / "n.jsonl", EDGES, features="v")
    assert graph.nodes.features.values[:, 0].tolist() == [1.0, 3.0, 0.5, 1.0, 0.0]
    assert not report.bad_rows


BAD = [
    ('{"id": "b", "x": "two"}', "row 3, column x: no integer as in other rows of this column."),
    ('{"id": "b", "x": 2', "row 3: no row of JSON (Missing a comma or '}' after an object member)."),
    ('["b", 2]', "row 3: no row of JSON (Column() changed from object to array)."),
    ('{"id": "b", "x": 2} {"id": "d", "x": 2}', "row 3: no row of JSON (two objects in one line)."),
    ('{"id": "b", "x": 2, "x": 3}', "row 3, column x: no row of JSON (Column(/x) was specified twice)."),
    (b'{"id": "b\xff", "x": 2}', "row 3, column id: is not UTF-8 text."),
    ('{"id": "b", "x": ' + "[" * 200_000 + "]" * 200_000 + "}", "row 3: no row of JSON (more than 64 lists in each"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_bad_lines(build, tmp_path, line, sentence):
    path = table(tmp_path, '{"id": "a", "x": 1}', '{"id": "e", "x": 1}', "", line, '{"id": "c", "x": 3}')
    with pytest.raises(GamlpError) as told:
        build(path, "src,dst\na,c\n", features="x")
    assert str(told.value).startswith(f"{path}, {sentence}")
    graph, report = build(path, "src,dst\na,c\n", features="x", on_bad="skip")
    assert report.bad_rows == {json_lines.NOT_A_ROW: 1} and graph.nodes.count == 3


def test_brackets_in_texts_are_not_deep(build, tmp_path):
    path = table(tmp_path, json.dumps({"id": "a", "x": 1, "note": "[" * 1000}), json.dumps({"id": "b", "x": 2}))
    assert build(path, EDGES, features="x")[0].nodes.count == 2


def test_a_json_list_and_long_lines_are_refused(build, tmp_path, monkeypatch):
    with pytest.raises(GamlpError, match=r"is one JSON list; write JSON Lines: an object in each line"):
        build(table(tmp_path, "[", '{"id": "a"}', "]"), EDGES)
    monkeypatch.setattr(json_lines, "_LONGEST_LINE", 1 << 20)
    with pytest.raises(GamlpError, match=r"row 1: a line longer than 1 MiB"):
        build(table(tmp_path, '{"id": "a", "x": "' + "y" * (1 << 24) + '"}'), EDGES)


def test_a_small_file_does_not_unfold_to_any_number_of_rows(build, tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "_ROWS_ALWAYS", 1000)
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"src": "a", "dst": "b"}\n' * 100_000))
    with pytest.raises(GamlpError, match=r"e.jsonl.gz: more than .* rows in .* allow them with --max-rows"):
        build(edges=path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GamlpError, match=r"e.jsonl.gz: truncated, damaged or not gzipped JSON Lines"):
        build(edges=path)
