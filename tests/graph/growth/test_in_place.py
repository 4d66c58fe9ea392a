"""A graph folder grows in place: the arrays of ingesting all tables together, whenever it is killed or read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph, damaged_files, fingerprint
from gamlp.graph.growth import in_place
from gamlp.graph.ingest import IngestOptions, add_tables, ingest
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan
from gamlp.run import schema_of
from tests.graph.growing_tables import GrowingTables, some_tables, typed_tables
from tests.graph.growth_checks import same_arrays


def add(tables: GrowingTables, **options: Any) -> Graph:
    more = tables.place("more_nodes"), tables.place("more_edges")
    return add_tables(tables.folder / "graph", *more, IngestOptions(**options)).graph


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_arrays_are_those_of_all_tables_together(directed: bool, weighted: bool, tmp_path: Path) -> None:
    """Labels and roles too: the split is drawn by ids, so that old nodes keep their roles."""
    tables = some_tables(tmp_path, weighted=weighted)
    base, whole = tables.graph(directed=directed), tables.graph(grown=True, directed=directed)
    old = None if base.nodes.split is None else base.nodes.split.roles.copy()
    grown = add(tables)
    same_arrays(grown, whole)
    assert damaged_files(grown) == [] and grown.nodes.split is not None
    assert np.array_equal(grown.nodes.split.roles[:60], old)
    assert fingerprint.structure(grown) == fingerprint.structure(whole)
    plan = Plan(features=FeatureSignal(hops=2))
    hops = [LocalPropagator().propagate(one, plan, tmp_path / f"{i}").gather(np.arange(67)).x
            for i, one in enumerate((grown, whole))]  # fmt: skip
    assert hops[0] is not None and hops[1] is not None and hops[0].tobytes() == hops[1].tobytes()


def test_blocks_without_a_new_edge_stay(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    tables.write("edges", "src,dst", [f"n{i},n{(i + 1) % 60}" for i in range(60)], ["n60,n59", "n61,n60"])
    whole = tables.graph(grown=True)
    ingest(tables.place("edges"), tables.place("nodes"), tmp_path / "small", IngestOptions(columns={"*": "as-is"}))
    blocks = Graph.open(tmp_path / "small")
    relation = blocks.relation
    rows, neighbours = (np.concatenate(part) for part in list(zip(*relation.edges()))[:2])
    cut = [Block.from_edges(rows, neighbours, None, start=at, stop=at + 20, symmetric=False) for at in (0, 20, 40)]
    base = replace(blocks, relations={"edge": replace(relation, blocks=tuple(cut))}).save(tmp_path / "graph")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "graph/relations/edge").rglob("*.npy")}
    assert len(base.relation.blocks) == 3
    grown = add(tables)
    same_arrays(grown, whole)
    moved = [name for name in grown.moved if name.startswith("relations/")]
    assert moved and all(name.startswith("relations/edge/00002/") for name in moved)
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())


def test_of_several_types_and_again(tmp_path: Path) -> None:
    old, more, every, options = typed_tables(tmp_path)
    ingest(*old, tmp_path / "graph", IngestOptions(**options))
    ingest(*every, tmp_path / "whole", IngestOptions(**options))
    add_tables(tmp_path / "graph", nodes={"author": more[1]["author"]})
    add_tables(tmp_path / "graph", nodes={"paper": more[1]["paper"]}, edges=more[0])
    same_arrays(Graph.open(tmp_path / "graph"), Graph.open(tmp_path / "whole"))


def test_a_new_class_finds_its_place(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    rows = tables.place("more_nodes").read_text().replace(",x\n", ",w\n").splitlines()[1:]
    old = tables.place("nodes").read_text().splitlines()[1:]
    tables.write("nodes", "id,a,b,c,label", old, rows)
    tables.graph()
    whole = tables.graph(grown=True)
    grown = add(tables)
    assert grown.nodes.labels is not None and grown.nodes.labels.classes == ("w", "x", "y", "z")
    same_arrays(grown, whole)


def test_columns_are_encoded_as_the_graph_has_them(tmp_path: Path) -> None:
    """Scaled numbers, categories with one that is new, a gap where there was none, a column that the graph has not."""
    tables = some_tables(tmp_path)
    old = [f"n{i},{i * 0.37 % 5:.2f},{('red', 'blue', 'green')[i % 3]},{'xy'[i % 2]}" for i in range(60)]
    tables.write("nodes", "id,size,colour,label", old, ["n60,7.5,pink,x", "n61,,red,", "n62,1,blue,y"])
    more = [row + ",9" for row in tables.place("more_nodes").read_text().splitlines()[1:]]
    tables.place("more_nodes").write_text("\n".join(["id,size,colour,label,extra", *more]) + "\n")
    tables.write("edges", "src,dst", ["n1,n2", "n2,n3"], ["n60,n1", "n61,n62"])
    base = tables.graph(columns={})
    schema = schema_of(str(tmp_path / "graph"))
    whole = tables.graph(grown=True, columns={}, schema=schema)
    grown = add(tables)
    assert base.nodes.features is not None and base.nodes.features.width > 2
    same_arrays(grown, whole)
    raw = [[batch.to_pydict() for _, batch in one.nodes.raw.blocks()] for one in (grown, whole) if one.nodes.raw]
    values = [[value for block in side for value in block["colour"]] for side in raw]
    assert len(raw) == 2 and values[0] == values[1]


def test_tables_are_added_once(tmp_path: Path) -> None:
    tables = some_tables(tmp_path, weighted=True)
    tables.graph()
    add(tables)
    before = (tmp_path / "graph/graph.json").read_bytes()
    again = add_tables(tmp_path / "graph", tables.place("more_nodes"), tables.place("more_edges"))
    assert again.notes == ["these tables were added before: nothing was changed"] and not again.new
    assert (tmp_path / "graph/graph.json").read_bytes() == before


@pytest.mark.parametrize("moment", ["save_array", "write_text", "remove_unnamed"])
def test_a_kill_leaves_the_old_graph_or_the_new_one(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = some_tables(tmp_path)
    old, whole = tables.graph(), tables.graph(grown=True)
    reader = Graph.open(tmp_path / "graph")
    real, calls = getattr(in_place, moment), 0

    def killed(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if moment != "save_array" or calls == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(in_place, moment, killed)
    with pytest.raises(KeyboardInterrupt):
        add(tables)
    monkeypatch.undo()
    found = Graph.open(tmp_path / "graph")
    same_arrays(found, whole if moment == "remove_unnamed" else old)
    same_arrays(reader, old)  # opened before, read now
    add(tables)
    same_arrays(Graph.open(tmp_path / "graph"), whole)
    assert damaged_files(Graph.open(tmp_path / "graph")) == []


def test_files_that_nobody_reads_go_and_shards_stay_few(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    tables.graph()
    first = add(tables)
    assert first.nodes.features is not None
    for day in range(4):
        (tmp_path / "day.csv").write_text(f"id,a,b,c,label\nd{day},1,2,3,x\n")
        (tmp_path / "ties.csv").write_text(f"src,dst\nd{day},n1\n")
        add_tables(tmp_path / "graph", tmp_path / "day.csv", tmp_path / "ties.csv")
    grown = Graph.open(tmp_path / "graph")
    assert grown.nodes.count == 71 and damaged_files(grown) == []
    shards = [name for name in grown.checksums if "/features" in name]
    assert len(shards) <= 4
    kept = {path.name for path in (tmp_path / "graph").glob("grown-*")}
    assert kept <= {"grown-1", "grown-2", "grown-3", "grown-4", "grown-5"} and "grown-5" in kept
    labels = list((tmp_path / "graph").rglob("labels.npy"))
    assert len(labels) == 2, "of this graph and the one before"


def test_what_cannot_be_added_leaves_the_graph(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    tables.graph()
    before = sorted(path for path in (tmp_path / "graph").rglob("*"))
    (tmp_path / "bad.csv").write_text("id,a,b,c\nm,1,2,3\nn5,1,2,3\n")
    with pytest.raises(GamlpError, match=r"bad.csv, row 2, column id: node 'n5' is in the graph already"):
        add_tables(tmp_path / "graph", tmp_path / "bad.csv")
    with pytest.raises(GamlpError, match="nothing to add"):
        add_tables(tmp_path / "graph")
    with pytest.raises(GamlpError, match="not a graph folder"):
        add_tables(tmp_path / "nothing", tmp_path / "bad.csv")
    assert not (tmp_path / "nothing").exists()
    assert [path for path in sorted((tmp_path / "graph").rglob("*")) if not path.name.startswith(".lock")] == before


def test_newcomers_without_a_role_have_none(tmp_path: Path) -> None:
    """A column of roles that are all empty says nothing: nobody is drawn into training."""
    tables = GrowingTables(tmp_path)
    old = [f"n{i},{i}.5,{'xy'[i % 2]},{('train', 'valid', 'test')[i % 3]}" for i in range(30)]
    tables.write("nodes", "id,a,label,split", old, [f"m{i},{i}.5,x," for i in range(30)])
    tables.write("edges", "src,dst", ["n0,n1"], ["m0,n1"])
    tables.graph()
    whole = tables.graph(grown=True)
    grown = add(tables)
    same_arrays(grown, whole)
    assert grown.nodes.split is not None and not grown.nodes.split.roles[30:].any()


def test_two_tables_of_one_database_are_two_additions(tmp_path: Path) -> None:
    some_tables(tmp_path).graph()
    with closing(sqlite3.connect(tmp_path / "new.db")) as base:
        for day in ("monday", "tuesday"):
            base.execute(f"CREATE TABLE {day} (id TEXT, a REAL, b REAL, c REAL)")
            base.execute(f"INSERT INTO {day} VALUES (?, 1, 2, 3)", (day,))
        base.commit()
    for count, day in enumerate(("monday", "tuesday"), 61):
        found = add_tables(tmp_path / "graph", f"{tmp_path}/new.db::{day}")
        assert found.graph.nodes.count == count and found.new == {"node": 1}
    again = add_tables(tmp_path / "graph", f"{tmp_path}/new.db::tuesday")
    assert again.notes == ["these tables were added before: nothing was changed"]


def test_types_that_somebody_named_hold_for_newcomers(tmp_path: Path) -> None:
    tables = GrowingTables(tmp_path)
    old = [f"n{i},{i * 0.37 % 5:.2f},{'xy'[i % 2]}" for i in range(60)]
    tables.write("nodes", "id,size,label", old, ["n60,7.5,x"])
    tables.write("edges", "src,dst", ["n1,n2"], ["n60,n1"])
    columns = tables.graph(columns={"size": "robust"}).columns
    grown = add(tables)
    assert grown.nodes.count == 61 and grown.columns == columns


def test_a_graph_without_features_takes_newcomers_with_its_own_columns(tmp_path: Path) -> None:
    tables = GrowingTables(tmp_path)
    old = [f"n{i},Person {i},{'xy'[i % 2]}" for i in range(30)]
    tables.write("nodes", "id,name,label", old, ["n30,Person 30,x"])
    tables.write("edges", "src,dst", ["n1,n2"], ["n30,n1"])
    assert tables.graph(columns={}).nodes.features is None
    grown = add(tables)
    assert grown.nodes.count == 31 and grown.nodes.features is None


def test_newcomers_whose_label_has_another_name_are_told(tmp_path: Path) -> None:
    """Such a column would be left out, and its rows have no labels, without a word."""
    tables = some_tables(tmp_path)
    tables.graph()
    (tmp_path / "other.csv").write_text("id,a,b,c,class\nm0,1,2,3,x\nm1,3,2,1,y\n")
    notes = add_tables(tmp_path / "graph", tmp_path / "other.csv").notes
    assert any("newcomers have no labels" in note and "--label" in note for note in notes), notes
