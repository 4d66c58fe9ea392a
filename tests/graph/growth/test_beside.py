"""A grown graph in a folder of its own: the arrays of all tables together, and the folder of before as it was."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, damaged_files
from gamlp.graph.growth import GrownGraph, beside, grow_beside, in_place
from gamlp.graph.ingest import add_tables
from tests.graph.growing_tables import GrowingTables, some_tables
from tests.graph.growth_checks import same_arrays


def grow(tables: GrowingTables, growth: GrownGraph) -> Graph:
    files = {"nodes": [tables.place("more_nodes")], "edges": [tables.place("more_edges")]}
    return grow_beside(growth, tables.folder / "beside", files)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("in_memory", [False, True])
def test_the_arrays_are_those_of_all_tables_together(in_memory: bool, tmp_path: Path) -> None:
    tables = some_tables(tmp_path, weighted=True)
    base, whole = tables.graph(directed=True), tables.graph(grown=True, directed=True)
    before = contents(tmp_path / "graph")
    growth = tables.additions(replace(base, folder=None, checksums={}) if in_memory else base).growth
    grown = grow(tables, growth)
    same_arrays(grown, whole)
    assert damaged_files(grown) == []
    assert contents(tmp_path / "graph") == before
    again = contents(tmp_path / "beside")
    same_arrays(grow(tables, growth), whole)
    assert contents(tmp_path / "beside") == again


def test_what_did_not_change_is_shared_and_nothing_else_is_kept(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    grown = grow(tables, tables.additions(tables.graph()).growth)
    at = "nodes/node/features"
    assert (tmp_path / f"graph/{at}.npy").stat().st_ino == grown.file(f"{at}/00000.npy").local.stat().st_ino  # type: ignore[union-attr]
    named = {grown.file(name).local for name in grown.checksums}
    assert set((tmp_path / "beside").rglob("*.npy")) <= named
    shutil.rmtree(tmp_path / "graph")
    assert damaged_files(Graph.open(tmp_path / "beside")) == []


@pytest.mark.parametrize(
    "module, moment", [(beside, "share_file"), (in_place, "save_array"), (beside, "remove_unnamed")]
)
def test_killed_and_called_again_it_is_the_same(
    module: Any, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = some_tables(tmp_path)
    growth = tables.additions(tables.graph()).growth
    real, calls = getattr(module, moment), 0

    def killed(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 or moment == "remove_unnamed":
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, moment, killed)
    with pytest.raises(KeyboardInterrupt):
        grow(tables, growth)
    monkeypatch.undo()
    same_arrays(grow(tables, growth), tables.graph(grown=True))


def test_a_graph_that_grew_meanwhile_is_told(tmp_path: Path) -> None:
    tables = some_tables(tmp_path)
    growth = tables.additions(tables.graph()).growth
    (tmp_path / "day.csv").write_text("id,a,b,c,label\nd1,1,2,3,x\n")
    add_tables(tmp_path / "graph", tmp_path / "day.csv")
    with pytest.raises(GamlpError, match="graph: has grown since it was opened"):
        grow(tables, growth)
