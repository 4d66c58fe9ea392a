"""Ids as a person writes them → rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, ids_in_file, rows_by_id, split_ids
from gamlp.graph.graph import Array

ODD = ["a,b", 'say "hi"', " spaced ", "$x^2$", "ünï→中", "<script>", "[red]x[/red]", "p\t1", "007", "7"]


def with_ids(values: Array | pa.Array | None, count: int = 10) -> Graph:
    made = Graph.from_arrays(np.zeros((2, 0), int), np.zeros((count, 1)), name="small")
    return replace(made, node_types={made.target: replace(made.nodes, ids=Ids(count, values))})


def test_rows_in_the_order_asked_for_each_once() -> None:
    graph = with_ids(pa.array(ODD, pa.large_string()))
    asked = [ODD[9], ODD[0], ODD[8], ODD[0], *ODD]
    assert rows_by_id(graph, asked).tolist() == [9, 0, 8, 1, 2, 3, 4, 5, 6, 7]
    assert rows_by_id(graph, []).tolist() == []


def test_integers_and_row_numbers() -> None:
    assert rows_by_id(with_ids(np.array([50, -3, 2**60]), 3), [str(2**60), "50", "-3"]).tolist() == [2, 0, 1]
    assert rows_by_id(with_ids(None), ["9", "0", " 9"]).tolist() == [9, 0]


@pytest.mark.parametrize(
    ("values", "asked", "sentence"),
    [
        (pa.array(["p0012", "p0400", "q"], pa.large_string()), ["p012"], "no node 'p012'; the nearest is 'p0012'."),
        (pa.array(["p0012", "p0400", "q"], pa.large_string()), ["zzz"], "its ids look like 'p0012', 'p0400', 'q'."),
        (
            np.array([5, 70, 6]),
            ["seven", "5", "8"],
            "no node 'seven' and 1 more of those asked for; its ids are integers ",
        ),
        (np.array([5, 70, 6]), ["7"], "integers from 5 to 70."),
        (None, ["3"], "integers from 0 to 2."),
        (None, ["-1"], "integers from 0 to 2."),
        (None, ["99999999999999999999"], "integers from 0 to 2."),
        (None, ["1.0"], "integers from 0 to 2."),
    ],
)
def test_an_id_that_no_node_has(values: Array | pa.Array | None, asked: list[str], sentence: str) -> None:
    with pytest.raises(GamlpError) as told:
        rows_by_id(with_ids(values, 3), asked)
    assert (
        sentence in str(told.value) and "graph 'small' has no node" in str(told.value) and "\n" not in str(told.value)
    )


def test_ids_between_commas_and_in_a_file(tmp_path: Path) -> None:
    assert split_ids(["p1, p2,,p3", '"a,b","say ""hi"""']) == ["p1", "p2", "p3", "a,b", 'say "hi"']
    assert split_ids([]) == []
    path = tmp_path / "ids.txt"
    path.write_text("\ufeff" + "\n".join(ODD) + "\n\n", encoding="utf-8")
    assert ids_in_file(path) == ODD
    path.write_bytes(b"p1\r\np2\r\n")
    assert ids_in_file(path) == ["p1", "p2"]


def test_files_that_have_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    with pytest.raises(GamlpError, match=r"ids.txt: there is no such file of ids\."):
        ids_in_file(path)
    path.write_bytes(b"\n\n")
    with pytest.raises(GamlpError, match="has no ids; give one id a line"):
        ids_in_file(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GamlpError, match="is no UTF-8 text"):
        ids_in_file(path)


def test_ids_in_several_chunks() -> None:
    graph = with_ids(pa.chunked_array([["a", "b"], ["c"]], pa.large_string()), 3)
    assert rows_by_id(graph, ["c", "a"]).tolist() == [2, 0]
    with pytest.raises(GamlpError, match="has no node 'd'"):
        rows_by_id(graph, ["d"])
