"""Feature columns are kept as their table had them: block by block, verified, any rows of them."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import MANIFEST, Graph, block_bytes
from gamlp.graph.folder import writing
from gamlp.io import sealed, unsealed

TABLE = pa.table(
    {
        "income": pa.array([1.5, None, 3.0, 4.0, float("nan")]),
        "city": pa.array(["Ulm", "", None, "Köln", "Ulm"], pa.large_string()),
        "since": pa.array([datetime.date(2020, 1, day) for day in range(1, 6)]),
        "vector": pa.array([[1, 2], [3, 4], None, [5, 6], [7, 8]], pa.list_(pa.float32())),
    }
)


@pytest.fixture
def folder(tmp_path):
    with writing(tmp_path / "graph", "g") as writer:
        writer.nodes(5)
        for start, stop in ((0, 2), (2, 3), (3, 5)):
            writer.raw_block(TABLE.slice(start, stop - start).to_batches()[0])
        writer.relation(directed=False, weighted=False)
    return tmp_path / "graph"


def same(found, expected) -> bool:
    """NaN is a value here, and equal to itself."""
    return str(found.to_pylist()) == str(expected.to_pylist()) and found.schema == expected.schema


def test_blocks_come_back_as_they_were_written(folder, tmp_path):
    raw = Graph.open(folder).nodes.raw
    assert raw.count == 5 and [start for start, _ in raw.blocks()] == [0, 2, 3]
    assert same(pa.Table.from_batches(block for _, block in raw.blocks()), TABLE)
    assert raw.schema() == TABLE.schema
    assert raw.block(2, ["vector", "income"]).schema.names == ["vector", "income"]
    again = Graph.open(folder).save(tmp_path / "again").nodes.raw
    assert again.stops == raw.stops and same(pa.Table.from_batches(b for _, b in again.blocks()), TABLE)


@pytest.mark.parametrize("rows", [[], [0], [1, 2], [4], [0, 2, 3, 4]])
def test_rows_are_taken_from_their_blocks(folder, rows):
    raw = Graph.open(folder).nodes.raw
    found = raw.take(np.asarray(rows, int), ["city"])
    assert found.column("city").to_pylist() == [TABLE.column("city")[row].as_py() for row in rows]


def test_damage_is_refused(folder):
    file = folder / "nodes/node/raw/00001.arrow"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    raw = Graph.open(folder).nodes.raw
    assert raw.block(0).num_rows == 2
    with pytest.raises(GamlpError, match=r"00001.arrow: is damaged: its bytes are not those that were written"):
        raw.block(1)
    with pytest.raises(GamlpError, match="no column 'nobody'"):
        raw.block(0, ["nobody"])
    file.unlink()
    with pytest.raises(GamlpError, match=r"00001.arrow: file is missing"):
        Graph.open(folder)


def test_blocks_must_hold_the_rows_of_the_manifest(folder):
    manifest = unsealed((folder / MANIFEST).read_bytes())
    for blocks, sentence in {(2, 3, 4): "do not hold 5 rows", (1, 3, 5): "2 rows where there are 1"}.items():
        manifest["nodes"]["node"]["raw"]["blocks"] = list(blocks)
        (folder / MANIFEST).write_text(json.dumps(sealed(manifest)))
        with pytest.raises(GamlpError, match=sentence):
            Graph.open(folder).nodes.raw.block(0)


@pytest.mark.parametrize("begin", [0, 3])
def test_the_bytes_of_a_block_are_those_of_its_rows_alone(begin: int) -> None:
    cells = ["a", "bb", None, "ccc", "", "d"]

    def written(rest: str) -> bytes:
        whole = pa.RecordBatch.from_pydict({"x": pa.array([*cells, rest], pa.large_string())})
        return block_bytes(whole.slice(begin, len(cells) - begin))

    assert written("end-1") == written("end-2") == written("")
