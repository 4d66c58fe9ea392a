"""Rows of a CSV are records: quoted newlines, text that is not UTF-8, quotes that are not closed."""

from __future__ import annotations

import gzip
import io

import pandas as pd
import pytest

from gamlp.errors import GamlpError

NODES = "id,x\n" + "".join(f"{i},{i}\n" for i in range(10))
# The comment alone reads as the edge 7 – 9, wherever a block of 2 MiB happens to end.
EDGES = "src,dst,comment\n" + '1,2,"hello\n7,9,bye"\n' * 120_000


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_quoted_newline_makes_no_edge(build, tmp_path, on_bad, zipped):
    assert len(EDGES) > 2 << 20
    path = tmp_path / ("e.csv.gz" if zipped else "e.csv")
    path.write_bytes(gzip.compress(EDGES.encode(), 1) if zipped else EDGES.encode())
    graph, report = build(NODES, path, on_bad=on_bad)
    frame = pd.read_csv(io.StringIO(EDGES))
    assert report.edges_read == len(frame) == 120_000 and not report.bad_rows
    assert graph.relation.degrees().tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
def test_quoted_newlines_invent_no_nodes(build, on_bad):
    nodes = "id,x,comment\n" + "".join(f'{i},1,"a\n{900_000 + i},2,b"\n' for i in range(130_000))
    assert len(nodes) > 2 << 20
    graph, report = build(nodes, "src,dst\n1,2\n", on_bad=on_bad, features="x")
    assert graph.nodes.count == 130_000 and not report.bad_rows


def test_rows_are_records_not_lines(build, tmp_path):
    with pytest.raises(GamlpError, match=r"row 120001, column dst: node '11' is not in the node table"):
        build(NODES, EDGES + "1,11,\n")
    with pytest.raises(GamlpError, match=r"row 120001: .*Expected 3 columns, got 2: 1,3"):
        build(NODES, EDGES + "\n\n1,3\n")


def test_rows_that_are_passed_over_are_counted(build):
    nodes = "id,x\n1,1\n2\n3,3\n\n4,4,4\n5,1e6\n"
    with pytest.raises(GamlpError, match=r"nodes.csv, row 5, column x: .*float16"):
        build(nodes, "src,dst\n1,3\n", on_bad="skip", dtype="float16")


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
@pytest.mark.parametrize("rest", ["3,4,5\n", "3,4,5", "3,4,5\n" * 500_000])
def test_a_quote_that_is_not_closed_loses_no_rows_in_silence(build, on_bad, rest):
    with pytest.raises(GamlpError, match=r"edges.csv, row 2: .*a quote that is not closed"):
        build(NODES, 'src,dst,c\n1,2,a\n1,2,"abc\n' + rest, on_bad=on_bad)


def test_a_header_may_hold_a_newline(build):
    graph, _ = build('"id","size\nin cm"\n1,2\n3,4\n', "src,dst\n1,3\n")
    assert graph.nodes.features.values.tolist() == [[2.0], [4.0]]
    with pytest.raises(GamlpError, match=r"the header opens a quote that is not closed"):
        build('"id,x\n1,2\n3,4\n', "src,dst\n1,3\n")


def test_a_stray_quote_is_text(build):
    graph, _ = build('id,label\n1,5" pipe\n2,"5"" pipe"\n3,a"\n', "src,dst\n1,3\n")
    assert graph.nodes.labels.classes == ('5" pipe', 'a"')


def test_rows_that_are_not_utf8(build, tmp_path, capfd):
    path = tmp_path / "e.csv"
    path.write_bytes(b"src,dst,c\n1,2,ok\n\xff\xfe,2\n3,\xe9,x\n4,5,caf\xe9\n5,6,x\n")
    _, report = build(NODES, path, on_bad="skip")
    # Row 4's comment is not read: what is in it does not matter.
    assert report.bad_rows == {"wrong number of columns": 1, "text that is not UTF-8": 1}
    assert report.edges_read == 3
    assert "Traceback" not in "".join(capfd.readouterr())
    path.write_bytes(b"src,dst,c\n1,2,ok\n3,\xe9,x\n")
    with pytest.raises(GamlpError, match=r"e.csv, row 2, column dst: is not UTF-8 text; save the table as UTF-8"):
        build(NODES, path, out=tmp_path / "other")


def test_utf8_across_blocks_is_left_as_it_is(build, tmp_path):
    # Two-byte characters at odd places: every block of the file ends within one.
    path = tmp_path / "n.csv"
    path.write_text("id,label\nx,a\n" + "".join(f"{i},{'é' * 40}\n" for i in range(60_000)), encoding="utf-8")
    graph, _ = build(path, "src,dst\nx,1\n")
    assert graph.nodes.labels.classes == ("a", "é" * 40) and graph.nodes.count == 60_001


def test_other_encodings(build, tmp_path):
    path = tmp_path / "n.csv"
    path.write_bytes("id,x\n1,2\n".encode("utf-16"))
    with pytest.raises(GamlpError, match=r"n.csv: is UTF-16 text; save it as UTF-8"):
        build(path, "src,dst\n1,1\n")
    path.write_bytes(b"\xef\xbb\xbf\r\n" + b"id,x\r\n1,2\r\n")
    graph, _ = build(path, "src,dst\n1,1\n")
    assert graph.nodes.features.values.tolist() == [[2.0]]
