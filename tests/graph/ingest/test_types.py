"""Several node types and relations against dictionaries: any tables, in any order, in any budget."""

from __future__ import annotations

import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.graph import Graph
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames

TYPES = ("paper", "author", "venue")
RELATION_ENDS = {"writes": ("author", "paper"), "cites": ("paper", "paper"), "appears": ("paper", "venue")}
# Ids of different types overlap: 1 may be a paper, an author and a venue.
names = st.lists(st.integers(-5, 9), min_size=1, max_size=6, unique=True) | st.lists(
    st.text("abc7", min_size=1, max_size=2), min_size=1, max_size=6, unique=True
)


@st.composite
def worlds(draw):
    """(ids by type in the order of the table, edges (source, target, weight) by relation)"""
    ids = {node_type: draw(names) for node_type in TYPES}
    edges = {
        name: draw(
            st.lists(
                st.tuples(st.sampled_from(ids[source]), st.sampled_from(ids[target]), st.floats(0, 9, width=32)),
                max_size=25,
            )
        )
        for name, (source, target) in RELATION_ENDS.items()
    }
    return ids, edges


def expected(ids, edges, weighted, directed):
    """{relation: {(target row, source row): weight}} as sets say it, reverses included."""
    row = {node_type: {name: index for index, name in enumerate(some)} for node_type, some in ids.items()}
    made = {}
    for name, (source, target) in RELATION_ENDS.items():
        sums = defaultdict(list)
        for one, other, weight in edges[name]:
            if source == target and one == other:
                continue
            sums[row[target][other], row[source][one]].append(weight)
            if source == target and not directed:
                sums[row[source][one], row[target][other]].append(weight)
        made[name] = {pair: float(np.float32(sum(found))) if weighted else 1.0 for pair, found in sums.items()}
        if source != target and not directed:
            made[f"rev-{name}"] = {(b, a): weight for (a, b), weight in made[name].items()}
    return made


def stored(graph: Graph):
    found = {}
    for name, relation in graph.relations.items():
        assert relation.count == graph.node_types[relation.target].count
        pairs = {}
        for rows, neighbours, weights in relation.edges():
            keys = list(zip(rows.tolist(), neighbours.tolist()))
            assert keys == sorted(set(keys))
            pairs |= dict(zip(keys, [1.0] * len(keys) if weights is None else weights.tolist()))
        found[name] = pairs
    return found


def write(columns, path: Path) -> Path:
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


@settings(max_examples=40, deadline=None)
@given(
    world=worlds(),
    weighted=st.booleans(),
    directed=st.booleans(),
    memory=st.sampled_from([1, 60, 400, 1 << 30]),
    ending=st.sampled_from(["csv", "parquet"]),
)
def test_any_types_and_relations(world, weighted, directed, memory, ending):
    ids, edges = world
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gamlp.graph.ingest.build._SMALLEST_SHARE", 1)  # buckets, splits and hubs in tiny graphs too
        warnings.simplefilter("ignore", UserWarning)
        place = Path(folder)
        nodes = {node_type: write({"id": ids[node_type]}, place / f"{node_type}.{ending}") for node_type in TYPES}
        tables = {}
        for name, (source, target) in RELATION_ENDS.items():
            columns = {
                "src": pa.array([edge[0] for edge in edges[name]], pa.array(ids[source]).type),
                "dst": pa.array([edge[1] for edge in edges[name]], pa.array(ids[target]).type),
            }
            if weighted:
                columns["weight"] = pa.array([edge[2] for edge in edges[name]], pa.float32())
            tables[name] = write(columns, place / f"{name}.{ending}")
        how = IngestOptions(directed=directed, relation_ends=RELATION_ENDS, target="paper")
        report = ingest(tables, nodes, place / "g", how, memory=memory)
        graph = Graph.open(place / "g")
        wanted = expected(ids, edges, weighted, directed)
        assert stored(graph) == wanted
        for node_type in TYPES:
            kept = graph.node_types[node_type].ids.take(np.arange(len(ids[node_type]))).to_pylist()
            assert [str(name) for name in kept] == [str(name) for name in ids[node_type]]
        assert report.edges_read == sum(map(len, edges.values()))
        loops = sum(edge[0] == edge[1] for edge in edges["cites"])
        assert report.self_loops_dropped == loops
        distinct = sum(
            len(wanted[name]) // (2 if name == "cites" and not directed else 1) for name in RELATION_ENDS
        )  # fmt: skip
        assert report.duplicates_merged == report.edges_read - loops - distinct
        assert report.entries == {name: len(pairs) for name, pairs in wanted.items()}


def test_relations_know_their_types_and_reverses(library):
    graph, report = library()
    assert (graph.target, list(graph.node_types)) == ("paper", list(TYPES))
    told = {name: (r.source, r.target, r.directed, r.reverse) for name, r in graph.relations.items()}
    assert told == {
        "writes": ("author", "paper", True, "rev-writes"),
        "rev-writes": ("paper", "author", True, "writes"),
        "cites": ("paper", "paper", False, None),
        "appears": ("paper", "venue", True, "rev-appears"),
        "rev-appears": ("venue", "paper", True, "appears"),
    }
    assert graph.relation_pairs == {
        "writes": ("writes", "rev-writes"), "cites": ("cites",), "appears": ("appears", "rev-appears")
    }  # fmt: skip
    kept, _ = library(directed=True)
    assert {name: (r.directed, r.reverse) for name, r in kept.relations.items()} == dict.fromkeys(
        RELATION_ENDS, (True, None)
    )
    told = {node_type: (one["nodes"], one["features"]) for node_type, one in report.types.items()}
    assert told == {"paper": (4, 2), "author": (3, 1), "venue": (2, 0)}
    assert (report.nodes, report.features, report.classes) == (9, 2, 2)


def test_features_of_every_type_labels_of_the_target(library, tmp_path):
    np.save(tmp_path / "authors.npy", np.asarray([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32))
    graph, _ = library(names_of={"author": NodeNames("id", features=str(tmp_path / "authors.npy"))})
    papers, authors, venues = graph.node_types.values()
    assert papers.features.values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert authors.features.values.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]] and venues.features is None
    assert papers.labels.values.tolist() == [0, 1, -1, 0] and papers.labels.classes == ("x", "y")
    assert authors.labels is None and authors.split is None
    # The label column of a type that is not asked for is no feature either.
    other, _ = library(papers="id,label\n1,x\n2,y\n3,\n4,x\n", target="author", names_of={})
    assert other.node_types["paper"].features is None and other.node_types["paper"].labels is None
    named, _ = library(
        papers="id,class\n1,x\n2,y\n3,\n4,x\n",
        authors="id,h,class\nada,1,x\nbob,2,y\n3,3,y\n",
        node_names=NodeNames(label="class"),
        target="author",
    )
    assert named.node_types["paper"].features is None and named.nodes.labels.classes == ("x", "y")


def test_many_labels_of_the_target(library):
    papers = "id,f,label\n1,1,x|y\n2,3,y\n3,5,\n4,7,x\n"
    graph, _ = library(papers=papers, node_names=NodeNames(separator="|"))
    assert graph.nodes.labels.values.tolist() == [[1, 1], [0, 1], [-1, -1], [1, 0]]


def parts(graph: Graph):
    """{relation: (degrees, neighbours, weights)} of all blocks, one after the other."""
    return {
        name: (
            relation.degrees(),
            np.concatenate([block.neighbours for block in relation.blocks]),
            np.concatenate([block.weights for block in relation.blocks]) if relation.weighted else np.zeros(0),
        )
        for name, relation in graph.relations.items()
    }


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Weighted edges with many duplicates; a third of them at one hub, which alone exceeds small budgets."""
    place = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    counts = {"paper": 700, "author": 3000, "venue": 40}
    for node_type, count in counts.items():
        write({"id": rng.permutation(count)}, place / f"{node_type}.parquet")
    everything = []
    for name, (source, target) in RELATION_ENDS.items():
        ends = [rng.integers(0, counts[node_type], 60_000) for node_type in (source, target)]
        ends[1][::3] = 17
        columns = {"src": ends[0], "dst": ends[1], "weight": rng.random(60_000)}
        write(columns, place / f"{name}.parquet")
        everything.append(pa.table(columns | {"kind": [name] * 60_000}))
    mixed = pa.concat_tables(everything)
    mixed = mixed.take(np.argsort(rng.random(60_000 * 3), kind="stable"))
    pq.write_table(mixed, place / "mixed.parquet", row_group_size=50_000)
    return place


def build(place: Path, out: Path, edges=None, memory=None, **more):
    nodes = {node_type: place / f"{node_type}.parquet" for node_type in TYPES}
    edges = edges or {name: place / f"{name}.parquet" for name in RELATION_ENDS}
    ingest(edges, nodes, out, IngestOptions(relation_ends=RELATION_ENDS, target="paper", **more), memory=memory)


def test_bytes_do_not_depend_on_the_budget(large, tmp_path, monkeypatch):
    monkeypatch.setattr("gamlp.graph.ingest.build._SMALLEST_SHARE", 1 << 15)  # the hub alone is larger
    graphs = []
    for memory in (1 << 30, 1 << 20, 1):
        build(large, tmp_path / f"{memory}", memory=memory)
        graphs.append(Graph.open(tmp_path / f"{memory}"))
    assert len(graphs[0].relations["rev-writes"].blocks) == 1 and len(graphs[2].relations["rev-writes"].blocks) > 20
    whole = parts(graphs[0])
    assert whole.keys() == {*RELATION_ENDS, "rev-writes", "rev-appears"}
    for graph in graphs[1:]:
        for name, arrays in parts(graph).items():
            assert all(np.array_equal(one, other) for one, other in zip(arrays, whole[name]))


def test_a_reverse_is_the_transpose_to_the_bit(large, tmp_path):
    from scipy.sparse import csr_matrix

    build(large, tmp_path / "g")
    graph = Graph.open(tmp_path / "g")

    def matrix(name: str):
        relation, (degrees, neighbours, weights) = graph.relations[name], parts(graph)[name]
        shape = (relation.count, graph.node_types[relation.source].count)
        return csr_matrix((weights, neighbours, np.concatenate([[0], np.cumsum(degrees)])), shape)

    for name in ("writes", "appears"):
        turned = matrix(f"rev-{name}").T.tocsr()
        turned.sort_indices()
        own = matrix(name)
        assert np.array_equal(turned.indptr, own.indptr) and np.array_equal(turned.indices, own.indices)
        assert np.array_equal(turned.data, own.data)  # duplicates were added up in one order


def test_a_relation_column_equals_separate_tables(large, tmp_path):
    """Rows of relations among each other: every byte of the folder is the same but how it was made."""
    mixed = pq.read_table(large / "mixed.parquet")
    separate = {}
    for name in RELATION_ENDS:
        some = mixed.filter(pa.compute.equal(mixed["kind"], name)).drop(["kind"])
        pq.write_table(some, tmp_path / f"{name}.parquet")
        separate[name] = tmp_path / f"{name}.parquet"
    build(large, tmp_path / "tables" / "g", edges=separate, memory=1 << 30)
    column = EdgeNames(relation="kind")
    build(large, tmp_path / "column" / "g", edges=large / "mixed.parquet", edge_names=column, memory=1 << 30)
    made = [
        sorted(path for path in (tmp_path / how / "g").rglob("*") if path.is_file()) for how in ("tables", "column")
    ]
    assert len(made[0]) == len(made[1]) > 15
    for one, other in zip(*made):
        assert one.relative_to(tmp_path / "tables") == other.relative_to(tmp_path / "column")
        assert one.name == "graph.json" or one.read_bytes() == other.read_bytes()
    one, other = (Graph.open(tmp_path / how / "g") for how in ("tables", "column"))
    assert list(one.relations) == list(other.relations) and one.checksums == other.checksums


def test_rows_in_any_order_give_the_same_graph(large, tmp_path):
    build(large, tmp_path / "one")
    rng = np.random.default_rng(1)
    shuffled = {}
    for name in RELATION_ENDS:
        table = pq.read_table(large / f"{name}.parquet")
        pq.write_table(table.take(rng.permutation(len(table))), tmp_path / f"{name}.parquet")
        shuffled[name] = tmp_path / f"{name}.parquet"
    unweighted = EdgeNames(weight="")
    build(large, tmp_path / "other", edges=shuffled, edge_names=unweighted)
    one, other = parts(Graph.open(tmp_path / "one")), parts(Graph.open(tmp_path / "other"))
    for name, (degrees, neighbours, _) in one.items():
        assert np.array_equal(degrees, other[name][0]) and np.array_equal(neighbours, other[name][1])


def test_one_type_needs_no_joins(large, tmp_path):
    """Several tables of one type; relations inside a type go both ways."""
    nodes, cites = large / "paper.parquet", large / "cites.parquet"
    ingest({"cites": cites, "likes": cites}, nodes, tmp_path / "g")
    ingest(cites, nodes, tmp_path / "plain")
    graph, plain = Graph.open(tmp_path / "g"), Graph.open(tmp_path / "plain")
    assert (graph.target, list(graph.relations)) == ("node", ["cites", "likes"])
    for one, other in zip(parts(graph)["likes"], parts(plain)["edge"]):
        assert np.array_equal(one, other)
