"""Edges between several types as Spark's tasks read them: once for each pair of types, reverses in their own blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.spark.ingest.edge_checks import EdgeChecks, EdgeEnd, ReadRelations, edge_entries, edge_rows
from gamlp.spark.ingest.notes import Notes

DECLARED = ("writes", "reviews", "cites")
AUTHOR, PAPER = EdgeEnd(True, 4, 2, "author", is_range=True), EdgeEnd(True, 6, 4, "paper", is_range=True)


def read(table: dict, *readings: EdgeChecks) -> tuple[dict, Notes]:
    """({(relation, row, neighbour): count}, notes of all readings); every pack holds rows of its block alone."""
    entries: dict = {}
    notes = []
    for checks in readings:
        batches = iter(pa.table(table).to_batches(max_chunksize=3))
        packs = pa.Table.from_batches(list(edge_entries(edge_rows(batches, checks), checks))).to_pylist()
        notes += [Notes.read(pack["note"]) for pack in packs if pack["block"] < 0]
        for pack in (pack for pack in packs if pack["block"] >= 0):
            rows, neighbours = (np.frombuffer(pack[name], np.int32) for name in ("rows", "neighbours"))
            size = checks.source.size if pack["relation"].startswith("rev-") else checks.target.size
            assert set(rows // size) == {pack["block"]}
            for row, neighbour in zip(rows, neighbours):
                key = pack["relation"], int(row), int(neighbour)
                entries[key] = entries.get(key, 0) + 1
    return entries, Notes.merged(notes)


def reading(
    source: EdgeEnd, target: EdgeEnd, names: tuple[str, ...], *, first: bool, directed: bool = False
) -> EdgeChecks:
    chosen = ReadRelations(names, DECLARED, first)
    return EdgeChecks("edges", "src", "dst", None, "relation", directed, "skip", source, target, chosen=chosen)


TABLE = {
    "src": [0, 3, 2, 5, 1, 1, 9, 2],
    "dst": [0, 5, 4, 3, 1, 2, 0, None],
    "relation": ["writes", "reviews", "writes", "cites", "cites", "likes", "writes", "cites"],
}


def test_each_pair_of_types_is_read_by_itself_and_rows_are_counted_once() -> None:
    between = reading(AUTHOR, PAPER, ("writes", "reviews"), first=True)
    entries, notes = read(TABLE, between, reading(PAPER, PAPER, ("cites",), first=False))
    assert entries == {
        ("writes", 0, 0): 1,  # author 0 and paper 0 are two nodes: no self-loop
        ("rev-writes", 0, 0): 1,
        ("writes", 4, 2): 1,
        ("rev-writes", 2, 4): 1,
        ("reviews", 5, 3): 1,
        ("rev-reviews", 3, 5): 1,
        ("cites", 3, 5): 1,
        ("cites", 5, 3): 1,
    }
    assert notes.counts == {"relation without --join": 1, "unknown node": 1, "missing node": 1}
    facts = notes.facts["parts"]
    assert sum(part.get("read", 0) for part in facts) == 8
    assert sum(part.get("loops", 0) for part in facts) == 1  # paper 1 → paper 1
    assert sum(part.get("entries", 0) for part in facts) == 5  # of relations themselves, not of reverses


def test_a_directed_graph_has_no_reverses() -> None:
    between = reading(AUTHOR, PAPER, ("writes", "reviews"), first=True, directed=True)
    entries, _ = read(TABLE, between, reading(PAPER, PAPER, ("cites",), first=False, directed=True))
    assert set(entries) == {("writes", 0, 0), ("writes", 4, 2), ("reviews", 5, 3), ("cites", 3, 5)}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ((9, 0, "writes"), "column src: edge 9 → 0: node '9' is not in the table of type 'author', which relation"),
        ((0, "p", "writes"), "column dst: edge 0 → p: node 'p' is not in the table of type 'paper', which relation"),
        ((0, 1, "likes"), "column relation: edge 0 → 1: no --join says which types relation 'likes' joins; add --join"),
    ],
)
def test_a_bad_edge_is_told(row: tuple, sentence: str) -> None:
    checks = reading(AUTHOR, PAPER, ("writes", "reviews"), first=True)
    checks = EdgeChecks(**{**vars(checks), "on_bad": "stop"})
    src, dst, relation = row
    kind = pa.string() if isinstance(dst, str) else pa.int64()
    table = {"src": [src], "dst": pa.array([dst], kind), "relation": [relation]}
    with pytest.raises(GamlpError) as error:
        read(table, checks)[1].report("edges", "stop")
    assert sentence in str(error.value)
