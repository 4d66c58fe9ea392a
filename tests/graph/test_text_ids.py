"""Ids that are texts in several files: the same ids, and a lookup opens the files of its rows alone."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, TargetIds, damaged_files, id_files, id_shards, shard_bounds, text_ids
from gamlp.graph.ingest import IngestOptions, add_tables
from tests.conformance.engines import BlocksHere
from tests.graph.growing_tables import some_tables
from tests.graph.growth_checks import same_arrays
from tests.training.small import NODES, make_graph, with_nodes

SHARD = 25  # of 60 rows: three files
TEXTS = [f"né {row}" for row in range(NODES)]
FILES = [f"nodes/node/ids/{number:05d}.arrow" for number in range(3)]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_ids, "ID_SHARD", SHARD)


def named() -> Graph:
    return with_nodes(make_graph(), ids=Ids(NODES, pa.array(TEXTS, pa.large_string())))


def test_of_few_nodes_there_is_one_file_as_before(tmp_path: Path) -> None:
    named().save(tmp_path / "graph")
    assert (tmp_path / "graph/nodes/node/ids.arrow").exists()
    assert "id_shards" not in (tmp_path / "graph/graph.json").read_text(), "older versions read it"
    assert Graph.open(tmp_path / "graph").nodes.ids.take(np.array([7, 3])).to_pylist() == ["né 7", "né 3"]


@pytest.mark.usefixtures("small_shards")
def test_of_many_there_are_several_with_the_same_ids(tmp_path: Path) -> None:
    assert id_shards(NODES) == [25, 50, 60] and id_shards(SHARD) is None and id_files("node", [25, 50, 60]) == FILES
    assert shard_bounds(NODES, id_shards(NODES)) == [(0, 25), (25, 50), (50, 60)]
    named().save(tmp_path / "graph")
    assert all((tmp_path / "graph" / name).exists() for name in FILES)
    graph = Graph.open(tmp_path / "graph")
    rows = np.random.default_rng(0).permutation(NODES)
    assert graph.nodes.ids.take(rows).to_pylist() == [TEXTS[row] for row in rows]
    assert graph.nodes.ids.take(np.zeros(0, np.int64)).to_pylist() == [] and damaged_files(graph) == []
    again = graph.save(tmp_path / "again")
    assert again.nodes.ids.take(np.arange(NODES)).to_pylist() == TEXTS


@pytest.mark.usefixtures("small_shards")
def test_another_process_opens_the_files_of_its_rows_alone(tmp_path: Path) -> None:
    graph = named().save(tmp_path / "graph")
    broken = tmp_path / "graph" / FILES[1]
    content = bytearray(broken.read_bytes())
    content[-3] ^= 1
    broken.write_bytes(content)
    sent = pickle.loads(pickle.dumps(TargetIds(graph)))
    rows = np.array([59, 0, 24, 50, 0])
    assert sent.take(rows).to_pylist() == [TEXTS[row] for row in rows]
    assert sent.take(np.zeros(0, np.int64)).to_pylist() == []
    with pytest.raises(GamlpError, match=r"00001\.arrow: is damaged: its bytes are not those that were written"):
        sent.take(np.array([25]))


@pytest.mark.parametrize("kind", ["rows", "integers", "strings"])
@pytest.mark.parametrize("saved", [True, False])
def test_ids_of_every_kind_are_sent(kind: str, saved: bool, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).permutation(NODES) + 5
    values = {"rows": None, "integers": numbers, "strings": pa.array(TEXTS, pa.large_string())}[kind]
    graph = with_nodes(make_graph(), ids=Ids(NODES, values))
    graph = graph.save(tmp_path / "graph") if saved else graph
    rows = np.array([3, 59, 4])
    sent = pickle.loads(pickle.dumps(TargetIds(graph)))
    assert sent.take(rows).to_pylist() == graph.nodes.ids.take(rows).to_pylist()


@pytest.mark.usefixtures("small_shards")
def test_a_graph_cut_out_by_tasks_and_one_that_grows_have_several_too(tmp_path: Path) -> None:
    rows = np.arange(0, NODES, 2)
    found = BlocksHere(blocks=2).induce(named().save(tmp_path / "graph"), rows, tmp_path / "some")
    assert found.nodes.ids.take(np.arange(30)).to_pylist() == [TEXTS[row] for row in rows]
    assert len(list((tmp_path / "some/nodes/node/ids").iterdir())) == 2
    (tmp_path / "tables").mkdir()
    tables = some_tables(tmp_path / "tables")
    _, whole = tables.graph(), tables.graph(grown=True)
    more = tables.place("more_nodes"), tables.place("more_edges")
    grown = add_tables(tables.folder / "graph", *more, IngestOptions()).graph
    same_arrays(grown, whole)
    assert damaged_files(grown) == [] and sum(name.startswith("nodes/node/ids/") for name in grown.checksums) == 3


@pytest.mark.parametrize("ascending", [True, False])
def test_ids_in_chunks_are_taken_alone(ascending: bool) -> None:
    """What is allocated for a few of many ids does not grow with those beside them."""
    count, each = 200_000, 10_000
    chunks = [
        pa.array([f"né {row:07d}" for row in range(begin, begin + each)], pa.large_string())
        for begin in range(0, count, each)
    ]
    rows = np.random.default_rng(0).integers(0, count, 50)
    rows = np.sort(rows) if ascending else rows
    ids, usual = Ids(count, pa.chunked_array(chunks)), pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        found = ids.take(rows).to_pylist()  # no array outlives the pool it is of
    finally:
        pa.set_memory_pool(usual)
    assert found == [f"né {row:07d}" for row in rows.tolist()]
    assert 0 < counted.max_memory() < 50_000  # Arrow's own take: 3,800,000
    assert ids.take(rows[:0]).to_pylist() == []
    with pytest.raises(IndexError, match="200000"):
        ids.take(np.array([count]))


def test_shards_that_do_not_hold_all_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_ids, "ID_SHARD", SHARD)
    monkeypatch.setattr("gamlp.graph.folder.id_shards", lambda count: [25, 50, 59])
    with pytest.raises((GamlpError, ValueError), match="shards of ids of 'node' do not hold 60 rows"):
        Graph.open(named().save(tmp_path / "graph").folder or "")
