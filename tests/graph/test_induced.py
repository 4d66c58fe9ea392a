"""The graph that rows induce, against A[rows][:, rows]; nothing outside the rows may be seen in it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.graph import Block, Features, Graph, Ids, Labels, Relation, Split, damaged_files, induced
from gamlp.kernel import store_as
from tests.conformance import dense
from tests.conformance.graphs import Case, cases
from tests.sealing import seal_graph

Array = np.ndarray[Any, Any]
many = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_nodes(graph: Graph, **changes: Any) -> Graph:
    return replace(graph, node_types={"node": replace(graph.nodes, **changes)})


def in_blocks(graph: Graph, cuts: list[int]) -> Graph:
    """The same graph with its relation in several blocks."""
    one, blocks = graph.relation.blocks[0], []
    bounds = sorted({0, graph.nodes.count, *(cut for cut in cuts if cut < graph.nodes.count)})
    for start, stop in pairwise(bounds):
        low, high = int(one.offsets[start]), int(one.offsets[stop])
        weights = None if one.weights is None else one.weights[low:high]
        blocks.append(Block(start, stop, one.offsets[start : stop + 1] - low, one.neighbours[low:high], weights))
    return replace(graph, relations={"edge": replace(graph.relation, blocks=tuple(blocks))})


def matrix(relation: Relation, count: int) -> Array:
    found = np.zeros((count, count))
    for rows, neighbours, weights in relation.edges():
        found[rows, neighbours] = 1.0 if weights is None else weights
    return found


def stored(relation: Relation, count: int) -> Array:
    """Where an entry is stored: an edge of weight zero is one."""
    found = np.zeros((count, count), bool)
    for rows, neighbours, _ in relation.edges():
        found[rows, neighbours] = True
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """Every file's bytes; of the manifest all but the fingerprint of the source."""
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    manifest = json.loads(found["graph.json"])
    del manifest["source"]["induced"]["key"], manifest["digest"]
    return {**found, "graph.json": json.dumps(manifest).encode()}


def place(tmp_path: Path) -> Path:
    return tmp_path / f"graph-{len(list(tmp_path.iterdir()))}"


@many
@given(case=cases(least=2), data=st.data())
def test_edges_are_the_dense_submatrix(case: Case, data: st.DataObject, tmp_path: Path) -> None:
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, case.count - 1), min_size=1))))
    graph = in_blocks(case.graph(), data.draw(st.lists(st.integers(0, 23), max_size=3)))
    with pytest.MonkeyPatch.context() as patch:
        for size in ("_ROWS", "_READ", "_COPY", "_MOST"):  # so small that every limit is met
            patch.setattr(induced, size, data.draw(st.sampled_from([1, 5, 64, 1 << 20]), size))
        found = induced.induce(graph, rows, place(tmp_path))
    expected = dense.adjacency(case.count, case.edges, case.weights, directed=case.directed)[np.ix_(rows, rows)]
    assert np.allclose(matrix(found.relation, len(rows)), expected)
    assert np.array_equal(stored(found.relation, len(rows)), stored(graph.relation, case.count)[np.ix_(rows, rows)])
    for block in found.relation.blocks:
        ends = block.offsets[1:-1]
        steps = np.delete(np.diff(block.neighbours), ends[(ends > 0) & (ends < len(block.neighbours))] - 1)
        assert (steps > 0).all(), "neighbours of a row ascend"
    assert (found.relation.directed, found.relation.weighted) == (case.directed, case.weights is not None)
    assert found.nodes.count == found.relation.count == len(rows)
    assert np.array_equal(found.nodes.features.values, case.features[rows])
    assert np.array_equal(found.nodes.labels.values, case.labels[rows])
    assert found.nodes.labels.classes == graph.nodes.labels.classes
    assert np.array_equal(found.nodes.split.roles, case.roles[rows])
    assert found.nodes.ids.take(np.arange(len(rows))).to_pylist() == rows.tolist()
    assert damaged_files(found) == []


@many
@given(case=cases(least=3), seed=st.integers(0, 2**31), most=st.sampled_from([1, 7, 1 << 20]))
def test_nothing_outside_the_rows_changes_a_byte(case: Case, seed: int, most: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    inside = random.random(case.count) < 0.6
    inside[random.integers(case.count)] = True
    outside = ~inside
    kept = [at for at, (s, t) in enumerate(case.edges) if inside[s] and inside[t]]
    others = np.flatnonzero(outside)
    edges = [case.edges[at] for at in kept]
    weights = None if case.weights is None else [case.weights[at] for at in kept]
    if len(others):  # other edges that touch nodes outside
        new = [(int(a), int(b)) for a, b in zip(random.choice(others, 40), random.integers(0, case.count, 40))]
        edges += new + [(b, a) for a, b in new]
        weights = None if weights is None else weights + random.uniform(0, 3, 80).astype(np.float32).tolist()
    labels, features, roles = case.labels.copy(), case.features.copy(), case.roles.copy()
    labels[outside] = random.integers(0, 5, outside.sum())
    features[outside] += 1
    roles[outside] = (roles[outside] + 1) % 4
    changed = replace(case, edges=edges, weights=weights, labels=labels, features=features, roles=roles)
    folders = place(tmp_path), tmp_path / f"other-{len(list(tmp_path.iterdir()))}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(induced, "_MOST", most)
        patch.setattr(induced, "_READ", 5)
        for one, folder in zip((case, changed), folders):
            graph = one.graph()
            graph = with_nodes(graph, labels=Labels(graph.nodes.labels.values, tuple("01234")))  # the names of all
            induced.induce(graph, np.flatnonzero(inside), folder)
    assert contents(folders[0]) == contents(folders[1])


def make_graph(count: int = 30, **options: Any) -> Graph:
    random = np.random.default_rng(5)
    x = random.normal(size=(count, 4)).astype(np.float32)
    split = Split(random.integers(0, 4, count).astype(np.int8))
    return Graph.from_arrays(
        random.integers(0, count, (2, 90)), x, random.integers(0, 3, count), split=split, **options
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_many_labels_and_ids_are_kept(tmp_path: Path, dtype: Any) -> None:
    graph, rows = make_graph(), np.array([2, 3, 11, 29])
    features = Features(store_as(graph.nodes.features.values, dtype), dtype)
    labels = Labels(np.random.default_rng(1).integers(0, 2, (30, 7)).astype(np.int8), tuple("abcdefg"))
    for ids in (np.arange(30) * 10 - 7, pa.array([f"node {i} ä" for i in range(30)], pa.large_string())):
        changed = with_nodes(graph, features=features, labels=labels, ids=Ids(30, ids)).save(place(tmp_path))
        nodes = induced.induce(changed, rows, place(tmp_path)).nodes
        assert nodes.features.dtype == dtype and np.array_equal(nodes.features.values, features.values[rows])
        assert nodes.labels.classes == labels.classes and np.array_equal(nodes.labels.values, labels.values[rows])
        assert nodes.ids.take(np.arange(4)) == changed.nodes.ids.take(rows)


def test_features_labels_and_split_may_be_absent(tmp_path: Path) -> None:
    nodes = induced.induce(Graph.from_arrays([[0, 1], [1, 2]]), np.array([0, 2]), tmp_path / "graph").nodes
    assert (nodes.features, nodes.labels, nodes.split) == (None, None, None)


def test_the_same_graph_is_opened_and_another_refused(tmp_path: Path) -> None:
    graph, rows = make_graph().save(tmp_path / "source"), np.arange(4, 20)
    induced.induce(graph, rows, tmp_path / "graph")
    manifest = tmp_path / "graph" / "graph.json"
    before = manifest.stat()
    again = induced.induce(graph, rows, tmp_path / "graph")
    assert again.nodes.count == 16 and manifest.stat() == before
    roles = graph.nodes.split.roles.copy()
    roles[25] = (roles[25] + 1) % 4  # not one of the rows
    induced.induce(with_nodes(graph, split=Split(roles)), rows, tmp_path / "graph")
    roles[5] = (roles[5] + 1) % 4
    ids = Ids(30, pa.array([f"node {i}" for i in range(30)]))
    others = {
        "rows": (graph, rows[1:]),
        "role": (with_nodes(graph, split=Split(roles)), rows),
        "ids": (with_nodes(graph, ids=ids), rows),
        "edges": (make_graph(directed=True), rows),
    }
    for other, numbers in others.values():
        with pytest.raises(GamlpError, match=r"graph: holds another graph \('arrays-induced'\); remove it or choose"):
            induced.induce(other, numbers, tmp_path / "graph")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(GamlpError, match="not a graph folder"):
        induced.induce(graph, rows, tmp_path / "letters")
    assert manifest.stat() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupt(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        if stage == "edges inside" and done > 10:
            raise error

    monkeypatch.setattr(induced, "_READ", 8)
    monkeypatch.setattr(induced, "_MOST", 8)
    with pytest.raises(error):
        induced.induce(make_graph(), np.arange(25), tmp_path / "made" / "graph", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [[], [1, 1], [2, 1], [-1, 3], [3, 30], [0.5], [True, False], [[1, 2]]])
def test_rows_that_are_not_ascending_numbers_are_told(tmp_path: Path, rows: Any) -> None:
    with pytest.raises(GamlpError, match=r"rows (are|do not ascend)"):
        induced.induce(make_graph(), np.array(rows), tmp_path / "graph")


def test_several_relations_are_told(tmp_path: Path) -> None:
    graph = make_graph()
    graph = replace(graph, relations={**graph.relations, "cites": replace(graph.relation, name="cites")})
    with pytest.raises(GamlpError, match="has 1 node types and 2 relations; rows induce a graph where there is one"):
        induced.induce(graph, np.arange(3), tmp_path / "graph")


@pytest.mark.parametrize("part", ["offsets", "neighbours"])
def test_a_damaged_source_is_told(tmp_path: Path, part: str) -> None:
    folder = make_graph().save(tmp_path / "source").folder
    values = np.load(folder / "relations/edge/00000" / f"{part}.npy")
    values[7] = 1 << 20
    np.save(folder / "relations/edge/00000" / f"{part}.npy", values)
    with pytest.raises(GamlpError, match=f"{part}.npy: is damaged: its bytes are not those that were written"):
        induced.induce(Graph.open(folder), np.arange(20), tmp_path / "graph")
    seal_graph(folder)
    with pytest.raises(GamlpError, match=f"{part}.npy: is damaged: (its offsets|neighbour 1048576)"):
        induced.induce(Graph.open(folder), np.arange(20), tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
