"""Checks that tasks run on batches of a table: the same rules and sentences as ingest, without row numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.spark.ingest.edge_checks import EdgeChecks, EdgeEnd, edge_entries, edge_keys, edge_rows
from gamlp.spark.ingest.node_checks import NodeChecks, checked_nodes
from gamlp.spark.ingest.notes import Notes, id_key

NUMBER = "every node needs a finite number for every feature; name the feature columns with --features."


def check_nodes(table, on_bad="stop", parts=2, **how):
    """(good rows, notes) of a table in several batches, as one task sees them."""
    table = pa.table(table)
    integers = pa.types.is_integer(table.schema.field("id").type)
    taken = [name for name in ("label", "split") if name in table.column_names]
    given = {name: name if name in taken else None for name in ("label", "split")}
    features = how.pop("features", [name for name in table.column_names if name not in ("id", "ragged", *taken)])
    checks = NodeChecks(
        "nodes", "id", **given, features=features, dtype=how.pop("dtype", "float32"), on_bad=on_bad,
        integers=integers, **how,
    )  # fmt: skip
    batches = table.to_batches(max_chunksize=max(1, -(-table.num_rows // parts)))
    found = pa.Table.from_batches(list(checked_nodes(iter(batches), checks)))
    notes = Notes.read(found.column("note")[-1].as_py())
    return found.slice(0, found.num_rows - 1), notes


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"id": [1, None], "x": [1.0, 2.0]}, "nodes, column id: missing id."),
        ({"id": ["p", ""], "x": [1.0, 2.0]}, "nodes, column id: missing id."),
        ({"id": [1.5, 2.0]}, "nodes, column id: ids are double; use integers or strings."),
        ({"id": [9, 3, 5], "x": [np.nan, np.inf, 1]}, f"nodes, column x: node '3': the feature is inf; {NUMBER}"),
        ({"id": ["10", "9"], "x": ["red", "blue"]}, f"nodes, column x: node '9': 'blue' is not a number; {NUMBER}"),
        ({"id": ["p7"], "x": [None]}, f"nodes, column x: node 'p7': missing feature; {NUMBER}"),
        ({"id": ["p7"], "x": [1e300]}, f"node 'p7': the feature is 1e+300, too large for float32; {NUMBER}"),
        ({"id": [1, 2], "x": [[1.0, 2.0], [3.0]]}, "nodes, column x: node '2': 1 features where other nodes have 2."),
        ({"id": [1], "x": [[1.0, None]]}, f"node '1': feature 2 of the list is missing or not a number; {NUMBER}"),
        ({"id": [1], "x": [[1.0, np.nan]]}, f"nodes, column x: node '1': feature 2 is nan; {NUMBER}"),
        ({"id": [1], "x": pa.array([[]], pa.list_(pa.float64()))}, "nodes, column x: an empty list of features."),
        ({"id": [1], "label": [0.5]}, "nodes, column label: node '1': 0.5 cannot name a class; labels are"),
        ({"id": [1], "label": [{"a": 1}]}, "nodes, column label: labels are struct<a: int64>; labels are integers"),
        ({"id": ["z", "a"], "split": ["dev", "eval"]}, "nodes, column split: node 'a': 'eval' is not a part of a"),
        ({"id": [1], "split": [0]}, "nodes, column split: holds int64; a split is train, valid, test or empty."),
    ],
)  # fmt: skip
def test_bad_nodes(table, sentence):
    with pytest.raises(GamlpError) as error:
        check_nodes(table)[1].report("nodes", "stop")
    assert sentence in str(error.value)


def test_smallest_is_told_whatever_task_finds_it():
    table = pa.table({"id": [8, 4, 6, 2, 7], "x": [1.0, np.nan, np.nan, 1.0, np.nan]})
    for order in ([0, 1, 2, 3, 4], [4, 2, 1, 0, 3]):
        mixed = table.take(order)
        notes = Notes.merged(check_nodes(part)[1] for part in (mixed[:2], mixed[2:]))
        assert notes.counts == {"NaN or infinite feature": 3}
        with pytest.raises(GamlpError, match="node '4': the feature is nan"):
            notes.report("nodes", "stop")
        notes.report("nodes", "skip")


def test_order_of_ids_that_are_told():
    assert sorted(["10", "9", "-3", "a", "", "007x", 5], key=id_key) == ["", "-3", 5, "9", "10", "007x", "a"]


def test_skipped_nodes_are_dropped_and_counted_by_kind():
    table = {
        "id": ["1", "2", "3", None, "6", "7", "9"],
        "x": ["1", "nan", "3", "4", None, "seven", "9"],
        "label": ["a", "a", "b", "b", "a", "a", " b "],
        "split": ["train", "train", "dev", "test", "test", "test", "valid"],
    }
    found, notes = check_nodes(table, "skip")
    assert found.column("id").to_pylist() == ["1", "9"] and found.column("label").to_pylist() == ["a", "b"]
    assert found.column("role").to_pylist() == [1, 2]
    assert [np.frombuffer(x, np.float32).tolist() for x in found.column("features").to_pylist()] == [[1], [9]]
    kinds = ["NaN or infinite feature", "unknown split", "missing id", "missing feature", "non-numeric feature"]
    assert notes.counts == Counter(kinds)
    assert notes.facts["read"] == 7 and notes.facts["good"] == 2 and notes.facts["plain"] is True


def test_value_too_large_for_storage_is_never_skipped():
    _, notes = check_nodes({"id": ["a", "b"], "x": [1.0, 7e4], "y": [1.0, 1.0]}, "skip", dtype="float16")
    sentence = "nodes, column x: node 'b': 70000 is more than float16 can hold; store features as float32 or bfloat16."
    with pytest.raises(GamlpError) as error:
        notes.report("nodes", "skip")
    assert str(error.value) == sentence


def test_ids_are_plain_integers_or_not():
    assert check_nodes({"id": ["7", "-2"]})[1].facts["plain"] is True
    for ids in (["7", "07"], ["+7"], ["7", "x"], ["9" * 20]):
        assert check_nodes({"id": ids}, parts=1)[1].facts["plain"] is False


def test_ragged_rows_are_bad_rows():
    table = {"id": ["1", "2", "3"], "x": ["1", None, "3"], "ragged": [None, "2", None]}
    found, notes = check_nodes(table, "skip", ragged="ragged")
    assert found.column("id").to_pylist() == ["1", "3"]
    assert notes.counts == {"wrong number of columns": 1} and notes.facts["read"] == 2
    with pytest.raises(GamlpError) as error:
        check_nodes(table, ragged="ragged")[1].report("nodes.csv", "stop")
    assert str(error.value) == "nodes.csv: a row with a wrong number of columns: 2."


def check_edges(table, on_bad="stop", nodes=4, integers=True, directed=False, size=2):
    """({(relation, row, neighbour): weights}, notes) of edges among rows 0..nodes-1."""
    table = pa.table(table)
    extra = {name: name if name in table.column_names else None for name in ("weight", "relation")}
    end = EdgeEnd(integers, nodes, size, is_range=integers)
    checks = EdgeChecks("edges", "src", "dst", **extra, directed=directed, on_bad=on_bad, source=end, target=end)
    batches = iter(table.to_batches(max_chunksize=2))
    if integers:
        mapped = edge_rows(batches, checks)
    else:  # what a join with ids a, b, c… gives
        mapped = (_joined(batch, "abcdefgh"[:nodes]) for batch in edge_keys(batches, checks))
    packs = pa.Table.from_batches(list(edge_entries(mapped, checks))).to_pylist()
    entries: dict = {}
    for pack in packs:
        if pack["block"] < 0:
            continue
        rows, neighbours = (np.frombuffer(pack[name], np.int32) for name in ("rows", "neighbours"))
        weights = np.ones(len(rows)) if pack["weights"] is None else np.frombuffer(pack["weights"], np.float32)
        assert set(rows // size) == {pack["block"]}
        for row, neighbour, weight in zip(rows, neighbours, weights):
            entries.setdefault((pack["relation"], int(row), int(neighbour)), []).append(float(weight))
    return entries, Notes.merged(Notes.read(pack["note"]) for pack in packs if pack["block"] == -1)


def _joined(batch, names):
    def rows(end):
        return pa.array([names.index(key) if key and key in names else None for key in batch.column(end).to_pylist()])

    columns = [*batch.columns, rows("src").cast(pa.int32()), rows("dst").cast(pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "src_row", "dst_row"])


def test_entries_are_both_ways_without_loops():
    table = {"src": [0, 1, 3, 2, 0], "dst": [1, 0, 1, 2, 1], "weight": [1.0, 2.0, 3.0, 9.0, 4.0]}
    entries, notes = check_edges(table)
    assert {key: sorted(found) for key, found in entries.items()} == {
        ("edge", 1, 0): [1, 2, 4],
        ("edge", 0, 1): [1, 2, 4],
        ("edge", 1, 3): [3],
        ("edge", 3, 1): [3],
    }
    facts = notes.facts["parts"]
    assert sum(part.get("read", 0) for part in facts) == 5 and sum(part.get("loops", 0) for part in facts) == 1
    directed, _ = check_edges(table, directed=True)
    assert directed == {("edge", 1, 0): [1, 4], ("edge", 0, 1): [2], ("edge", 1, 3): [3]}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"src": [1, 2], "dst": [2, 9]}, "edges, column dst: edge 2 → 9: node '9' is not in the node table."),
        ({"src": ["1", "x"], "dst": ["2", "1"]}, "edges, column src: edge x → 1: node 'x' is not in the node table."),
        ({"src": [1], "dst": pa.nulls(1, pa.int64())}, "edges, column dst: edge 1 → …: missing node."),
        ({"src": [1], "dst": [2], "weight": [-0.5]}, "edges, column weight: edge 1 → 2: a weight of -0.5; weights are"),
        ({"src": [1], "dst": [2], "weight": ["1e39"]}, "edge 1 → 2: a weight of 1e+39; weights are finite"),
        (
            {"src": [1], "dst": [2], "weight": [1e-50]},
            "edge 1 → 2: a weight of 1e-50, which is zero in float32; rescale",
        ),
        ({"src": [1], "dst": [2], "weight": ["heavy"]}, "edge 1 → 2: 'heavy' is not a number."),
        ({"src": [1], "dst": [2], "weight": [None]}, "edges, column weight: edge 1 → 2: missing weight."),
        ({"src": [1], "dst": [2], "relation": [None]}, "edges, column relation: relations are null; name them"),
        ({"src": [1], "dst": [2], "relation": [""]}, "edges, column relation: edge 1 → 2: missing relation."),
        ({"src": [1], "dst": [2], "relation": ["a/b"]}, "edges, column relation: edge 1 → 2: 'a/b' cannot name"),
        ({"src": [1.0], "dst": [2.0]}, "edges, column src: ids are double; use integers or strings."),
        (
            {"src": [1] * 1001, "dst": [2] * 1001, "relation": [f"r{i}" for i in range(1001)]},
            "edges, column relation: edge 1 → 2: more than 1000 different relations; is it the column of relations?",
        ),
    ],
)
def test_bad_edges(table, sentence):
    with pytest.raises(GamlpError) as error:
        check_edges(table)[1].report("edges", "stop")
    assert sentence in str(error.value)


@pytest.mark.parametrize("text", [False, True])
def test_skipped_edges_are_counted_by_their_first_fault(text):
    rows = [(0, 3, "2"), (0, 9, "1"), (3, 0, "-1"), (3, 3, "3"), (None, 3, "1"), (3, 0, "x"), (3, 0, None), (9, 9, "x")]
    names = "abcdxxxxxx"
    ends = [[names[row[at]] if text and row[at] is not None else row[at] for row in rows] for at in (0, 1)]
    entries, notes = check_edges(
        {"src": ends[0], "dst": ends[1], "weight": [row[2] for row in rows]}, "skip", integers=not text
    )
    assert entries == {("edge", 3, 0): [2], ("edge", 0, 3): [2]}
    assert notes.counts == {"unknown node": 2, "bad weight": 2, "missing node": 1, "missing weight": 1}
