"""One reading of ids for nodes and edges: an integer is one only where it is written as one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.ids import IdMap, as_integers, id_integers

NODES = "id,x\n0,1\n7,2\n16,3\n-5,4\n9223372036854775807,5\n"
LOOSE = ["0x10", "0X10", "007", "-0", "+7", "7.0", "7e0", " 7", "7 ", "00", "-05", "9223372036854775808", "٧"]


@pytest.mark.parametrize("text", LOOSE)
@pytest.mark.parametrize("others", [[], ["7", "16"]])
def test_what_is_not_written_plainly_is_no_integer(text, others):
    column = pa.array([*others, text], pa.large_string())
    assert as_integers(column) is None
    values, readable = id_integers(column)
    assert readable.tolist() == [True] * len(others) + [False] and values[-1] == 0


@pytest.mark.parametrize("text", LOOSE)
def test_it_joins_no_node(build, text):
    with pytest.raises(GamlpError, match=r"edges.csv, row 2, column dst: node '.*' is not in the node table"):
        build(NODES, f"src,dst\n0,7\n0,{text}\n")


@pytest.mark.parametrize("typed", [False, True])
def test_it_joins_no_node_from_parquet(build, tmp_path, typed):
    kind = pa.dictionary(pa.int32(), pa.string()) if typed else pa.string()
    table = pa.table({"src": pa.array(["0", "7"]).cast(kind), "dst": pa.array(["7", "0x10"]).cast(kind)})
    pq.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(GamlpError, match=r"row 2, column dst: node '0x10' is not in the node table"):
        build(NODES, tmp_path / "e.parquet")


def test_plain_integers_are_found(build):
    graph, _ = build(NODES, "src,dst\n0,7\n16,-5\n9223372036854775807,0\n")
    assert graph.relation.degrees().tolist() == [2, 1, 1, 1, 1]


@pytest.mark.parametrize("ids", [[7, 0, 16], [7, 0, 10**12]])
def test_a_map_of_integers_is_asked_with_text(ids):
    found = IdMap(np.asarray(ids)).rows(pa.array(["0", "007", str(ids[2]), "7", None, "x"], pa.large_string()))
    assert found.tolist() == [1, -1, 2, 0, -1, -1]
