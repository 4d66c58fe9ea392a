"""Ingest against dictionaries: any edge list, any format, any budget."""

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

integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='",'), min_size=1)


@st.composite
def graphs(draw):
    ids = draw(st.lists(integers, min_size=1, max_size=9, unique=True) | st.lists(texts, min_size=1, unique=True))
    ends = st.sampled_from(ids)
    weights = st.floats(0, 100, width=32)
    edges = draw(st.lists(st.tuples(ends, ends, weights), max_size=40))
    labels = draw(st.lists(st.sampled_from([None, "x", "y", "z"]), min_size=len(ids), max_size=len(ids)))
    return ids, edges, labels


def oracle(ids, edges, weighted, directed):
    """{target row: {source row: weight}} by the method: loops dropped, duplicates merged or added up."""
    row = {name: index for index, name in enumerate(ids)}
    lists = defaultdict(lambda: defaultdict(list))
    for source, target, weight in edges:
        if source != target:
            lists[row[target]][row[source]].append(weight)
            if not directed:
                lists[row[source]][row[target]].append(weight)
    return {
        target: {source: float(np.float32(sum(found))) if weighted else 1.0 for source, found in sources.items()}
        for target, sources in lists.items()
    }


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(),
    weighted=st.booleans(),
    directed=st.booleans(),
    memory=st.sampled_from([1, 60, 400, 1 << 30]),
    ending=st.sampled_from(["csv", "parquet", "arrow"]),
)
def test_any_graph(graph, weighted, directed, memory, ending):
    ids, edges, labels = graph
    columns = {"src": [e[0] for e in edges], "dst": [e[1] for e in edges]}
    if weighted:
        columns["weight"] = pa.array([e[2] for e in edges], pa.float32())
    if not edges:
        columns = {name: pa.array(values, pa.array(ids).type) for name, values in columns.items() if name != "weight"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gamlp.graph.ingest.build._SMALLEST_SHARE", 1)  # buckets, splits and hubs in tiny graphs too
        warnings.simplefilter("ignore", UserWarning)
        place = Path(folder)
        write(pa.table({"id": ids, "label": pa.array(labels, pa.string())}), place / f"n.{ending}")
        write(pa.table(columns), place / f"e.{ending}")
        how = IngestOptions(directed=directed)
        report = ingest(place / f"e.{ending}", place / f"n.{ending}", place / "g", how, memory=memory)
        built = Graph.open(place / "g")
        expected = oracle(ids, edges, weighted, directed)
        assert stored(built, ids) == expected
        kept_ids = built.nodes.ids.take(np.arange(len(ids))).to_pylist()
        # A CSV does not say whether its integers are text.
        assert kept_ids == ids if ending != "csv" else [str(name) for name in kept_ids] == [str(name) for name in ids]
        known = sorted({label for label in labels if label})
        if known:
            assert built.nodes.labels.classes == tuple(known)
            assert built.nodes.labels.values.tolist() == [known.index(x) if x else -1 for x in labels]
        assert report.edges_read == len(edges)
        assert report.self_loops_dropped == sum(e[0] == e[1] for e in edges)
        kept = sum(len(sources) for sources in expected.values()) // (1 if directed else 2)
        assert report.duplicates_merged == len(edges) - report.self_loops_dropped - kept


def stored(graph, ids):
    found = defaultdict(dict)
    start = 0
    for block in graph.relation.blocks:
        assert block.start == start
        start = block.stop
        for index, row in enumerate(range(block.start, block.stop)):
            part = slice(block.offsets[index], block.offsets[index + 1])
            neighbours = block.neighbours[part].tolist()
            assert neighbours == sorted(neighbours)
            weights = block.weights[part].tolist() if block.weights is not None else [1.0] * len(neighbours)
            if neighbours:
                found[row] = dict(zip(neighbours, weights))
    assert start == len(ids)
    return found


def write(table, path):
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as sink:
            sink.write_table(table)
