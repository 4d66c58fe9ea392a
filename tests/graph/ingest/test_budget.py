"""A graph larger than its memory budget is still built, within the budget, to the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.graph import Graph

MIB = 1 << 20
FIXED = 200 * 10**6  # the interpreter and its libraries (67 MB here), buffers of the readers


def whole(graph: Graph):
    """(degrees, neighbours, weights) of all blocks, one after the other."""
    blocks = graph.relation.blocks
    weights = np.concatenate([b.weights for b in blocks]) if blocks[0].weights is not None else None
    return graph.relation.degrees(), np.concatenate([b.neighbours for b in blocks]), weights


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Weighted edges with many duplicates; a third of them at one hub, which alone exceeds small budgets."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 5000, (2, 300_000))
    ends[0, ::3] = 17
    pq.write_table(pa.table({"id": np.arange(5000)}), place / "n.parquet")
    columns = {"src": ends[0], "dst": ends[1], "weight": rng.random(300_000)}
    pq.write_table(pa.table(columns), place / "e.parquet", row_group_size=70_000)
    return place


@pytest.mark.parametrize("weight", [None, ""])
@pytest.mark.parametrize("directed", [False, True])
def test_bytes_do_not_depend_on_the_budget(build, tables, tmp_path, weight, directed):
    built = []
    for memory in (1 << 30, 4 * MIB, 1):
        out = tmp_path / f"{memory}"
        graph, _ = build(
            tables / "n.parquet",
            tables / "e.parquet",
            out=out,
            memory=memory,
            weight=weight,
            directed=directed,
        )
        built.append((graph, whole(graph)))
    assert len(built[0][0].relation.blocks) == 1
    assert 1 < len(built[1][0].relation.blocks) < len(built[2][0].relation.blocks)
    for _, parts in built[1:]:
        for part, expected in zip(parts, built[0][1]):
            assert np.array_equal(part, expected)


def test_batches_of_any_size_give_the_same_nodes(build, tmp_path):
    rng = np.random.default_rng(1)
    values = rng.standard_normal((30_000, 20), np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 20)
    labels = pa.array(rng.integers(0, 9, 30_000))
    pq.write_table(pa.table({"id": rng.permutation(30_000), "x": lists, "label": labels}), tmp_path / "n.parquet")
    for memory in (1, 1 << 30):
        graph, _ = build(tmp_path / "n.parquet", "src,dst\n1,2\n", memory=memory, out=tmp_path / f"{memory}")
        np.testing.assert_array_equal(graph.nodes.features.values, values)
        assert graph.nodes.labels.values.tolist() == labels.to_pylist()


_MEASURED = """
import json, re, sys, threading, time
from pathlib import Path
from gamlp.graph.ingest.build import ingest

peak = 0
def watch():
    global peak
    while True:
        status = Path("/proc/self/status").read_text()
        peak = max(peak, int(re.search(r"RssAnon:\\s*(\\d+)", status)[1]) << 10)
        time.sleep(0.002)

threading.Thread(target=watch, daemon=True).start()
edges, nodes, out, memory = sys.argv[1:]
report = ingest(edges, nodes, out, memory=int(memory))
print(json.dumps({"peak": peak, "seconds": report.seconds, "read": report.edges_read}))
"""


def measured(edges: Path, nodes: Path, out: Path, memory: int) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, edges, nodes, out, str(memory)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_memory_stays_within_a_budget_smaller_than_the_edges(tmp_path, ending):
    rng = np.random.default_rng(0)
    count = 8_000_000 if ending == "parquet" else 3_000_000
    nodes, edges = tmp_path / "n.parquet", tmp_path / f"e.{ending}"
    pq.write_table(pa.table({"id": rng.permutation(500_000)}), nodes)
    ends = (rng.integers(0, 500_000, (2, count)) ** 2 // 500_000).astype(np.int64)  # hubs
    table = pa.table({"src": ends[0], "dst": ends[1]})
    if ending == "parquet":
        pq.write_table(table, edges)
    else:
        pa.csv.write_csv(table, edges)
    budget = 32 * MIB
    assert count * 16 > budget or ending == "csv"  # as pairs of integers
    result = measured(edges, nodes, tmp_path / "g", budget)
    assert result["read"] == count
    assert result["peak"] < budget + FIXED
    assert Graph.open(tmp_path / "g").relation.entries > count


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_a_wide_node_table_streams(tmp_path):
    """Features of 240 MB in a budget of 32 MiB."""
    rows = np.zeros((20_000, 300), np.float32)  # zeros: the file takes next to nothing, the features all the same
    rows[:, 0] = 1
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 300)
    parts = pa.chunked_array([lists] * 10)
    pq.write_table(pa.table({"id": np.arange(200_000), "x": parts}), tmp_path / "n.parquet")
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n")
    result = measured(tmp_path / "e.csv", tmp_path / "n.parquet", tmp_path / "g", 32 * MIB)
    assert Graph.open(tmp_path / "g").nodes.features.values.shape == (200_000, 300)
    assert result["peak"] < 32 * MIB + FIXED


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_columns_of_all_types_stream(tmp_path):
    """Features of 100 MB, and raw columns beside them, in a budget of 32 MiB."""
    rng = np.random.default_rng(0)
    count = 400_000
    columns = {f"number{n}": rng.standard_normal(count) for n in range(8)}
    columns |= {f"heavy{n}": np.exp(4 * rng.standard_normal(count)) for n in range(4)}
    columns = {name: pa.array(values, mask=rng.random(count) < 0.05) for name, values in columns.items()}
    columns["city"] = pa.array([f"city {n}" for n in range(30)]).take(pa.array(rng.integers(0, 30, count)))
    columns["since"] = pa.array(rng.integers(0, 10**9, count)).cast(pa.timestamp("s"))
    pq.write_table(pa.table({"id": np.arange(count), **columns}), tmp_path / "n.parquet")
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n")
    result = measured(tmp_path / "e.csv", tmp_path / "n.parquet", tmp_path / "g", 32 * MIB)
    built = Graph.open(tmp_path / "g").nodes
    assert built.features.count * built.features.width * 4 > 2 * 32 * MIB and built.raw.count == count
    assert result["peak"] < 32 * MIB + FIXED
