"""A table is read once, whole, and as it was when it was opened; else it is refused."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest import ingest
from gamlp.graph.ingest.formats import contract
from gamlp.graph.ingest.tables import Table

COUNT = 40_000
EDGE = "src,dst\n1,2\n"


def test_one_flipped_bit_of_the_footer_loses_no_column(tmp_path):
    path = tmp_path / "n.parquet"
    table = pa.table({"id": np.arange(100), "x": np.random.default_rng(0).random(100)})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    lost = refused = 0
    for bit in range(8 * (len(content) - 8 - footer), 8 * len(content), 2):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            rows = sum(batch.columns.num_rows for batch in Table(path).batches(["id", "x"], 1 << 20))
            lost += rows != 100
        except GamlpError as error:
            refused += "rows of 100 can be read" in str(error)
    assert lost == 0
    assert refused > 0  # some of these files read as tables without rows


def nodes_of(order: np.ndarray) -> str:
    return "id,x\n" + "".join(f"{i},{i}.5\n" for i in order)


@pytest.mark.parametrize("part", ["nodes", "edges"])
@pytest.mark.parametrize("change", ["shortened", "reordered", "appended", "replaced", "removed"])
def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path, part, change):
    order = np.arange(COUNT)
    tables = {"nodes": tmp_path / "n.csv", "edges": tmp_path / "e.csv"}
    tables["nodes"].write_text(nodes_of(order))
    # Long enough that some are not read yet when the first were: one batch is read ahead.
    tables["edges"].write_text("src,dst,more\n" + "".join(f"{i},{i // 2},{'x' * 300}\n" for i in order))
    path, changed = tables[part], False

    def meddle(stage: str, *_: object, **__: object) -> None:
        nonlocal changed
        if stage != part or changed:
            return
        changed = True
        lines = path.read_text().splitlines(keepends=True)
        if change == "shortened":
            os.truncate(path, path.stat().st_size // 2)
        elif change == "reordered":
            path.write_text("".join([lines[0], *reversed(lines[1:])]))
        elif change == "appended":
            path.write_text("".join([*lines, lines[-1]]))
        elif change == "replaced":
            (tmp_path / "other").write_text("".join(lines))
            (tmp_path / "other").replace(path)
        else:
            path.unlink()

    with pytest.raises(GamlpError, match=rf"{path.name}: changed while it was read; run it again"):
        ingest(tables["edges"], tables["nodes"], tmp_path / "graph", memory=1, progress=meddle)
    assert changed and not (tmp_path / "graph").exists()
    assert {each.name for each in tmp_path.iterdir()} <= {"n.csv", "e.csv"}


def test_an_array_that_changes_while_it_is_read_is_refused(build, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    opened = Path.stat

    def written_meanwhile(self, **how):
        found = opened(self, **how)
        if self.name == "x.npy":
            os.utime(self, ns=(0, found.st_mtime_ns + 1))
        return found

    with pytest.MonkeyPatch.context() as patch, pytest.raises(GamlpError, match=r"x.npy: changed while it was read"):
        patch.setattr(Path, "stat", written_meanwhile)
        build(features=str(tmp_path / "x.npy"))


def test_rows_that_are_dropped_take_their_features_with_them(build, tmp_path):
    """Bad rows and later duplicates, in tables of several batches: features stay beside their ids."""
    random = np.random.default_rng(0)
    ids = random.integers(0, 300_000, 200_000)
    bad = random.random(len(ids)) < 0.1
    rows = (f"{i},{'nan' if wrong else i + 0.5},{i}\n" for i, wrong in zip(ids, bad))
    graph, report = build("id,x,y\n" + "".join(rows), EDGE, on_bad="skip", memory=1, features="x,y")
    good = ids[~bad]
    first = good[np.sort(np.unique(good, return_index=True)[1])]
    assert graph.nodes.ids.take(np.arange(graph.nodes.count)).tolist() == first.tolist()
    np.testing.assert_array_equal(graph.nodes.features.values, np.stack([first + 0.5, first], 1).astype(np.float32))
    assert report.bad_rows["duplicate id"] == len(good) - len(first)


def test_lists_whose_length_the_first_rows_do_not_tell(build, tmp_path):
    table = pa.table({"id": [1, 2, 3], "x": [None, [1.0, 2.0], [3.0, 4.0]]})
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=1)
    graph, _ = build(tmp_path / "n.parquet", "src,dst\n2,3\n", on_bad="skip")
    assert graph.nodes.features.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_small_file_does_not_unfold_to_any_number_of_rows(build, tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "_ROWS_ALWAYS", 1000)
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"src,dst\n" + b"1,2\n" * 100_000))
    zeros, ones = np.zeros(1_000_000, np.int64), np.ones(1_000_000, np.int64)
    pq.write_table(pa.table({"src": zeros, "dst": ones}), tmp_path / "e.parquet", store_schema=False)
    nodes = "id,x\n0,1\n1,2\n2,3\n"
    for name in ("e.csv.gz", "e.parquet"):
        size = (tmp_path / name).stat().st_size
        with pytest.raises(GamlpError, match=rf"{name}: more than {16 * size:,} rows in .* allow them with --max-rows"):
            build(nodes, tmp_path / name)
        graph, _ = build(nodes, tmp_path / name, max_rows=1_000_000, out=tmp_path / f"graph of {name}")
        assert graph.relation.entries == 2


@pytest.mark.parametrize("kind", ["dictionary", "view", "plain"])
def test_a_value_repeated_in_many_rows_is_not_unfolded_at_once(tmp_path, kind):
    """2,000 rows of 256 KiB each, 512 MB, that share one text."""
    text = "a" * (256 << 10)
    if kind == "dictionary":
        column = pa.DictionaryArray.from_arrays(np.zeros(2000, np.int32), [text])
    elif kind == "view":
        views = np.tile(np.asarray([len(text), int.from_bytes(b"aaaa"), 0, 0], np.int32), 2000)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(text.encode())]
        column = pa.Array.from_buffers(pa.string_view(), 2000, buffers)
    else:
        column = pa.array([text] * 20)
    path = tmp_path / "n.arrow"
    table = pa.table({"id": np.arange(len(column)), "label": column})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    rows = [batch.columns.num_rows for batch in Table(path).batches(["id", "label"], 8 << 20)]
    assert sum(rows) == len(column) and max(rows) <= 40


def test_a_value_longer_than_is_read(build, tmp_path):
    long = "a" * ((1 << 20) + 1)
    for column in (
        pa.array([long, "b"]),
        pa.array([long, "b"]).dictionary_encode(),
        pa.array([long, "b"], pa.string_view()),
    ):
        with pa.ipc.new_file(tmp_path / "n.arrow", pa.schema([("id", column.type)])) as writer:
            writer.write_table(pa.table({"id": column}))
        with pytest.raises(GamlpError, match=r"n.arrow, column id: a value of 1.0 MiB; at most 1.0 MiB are read"):
            build(tmp_path / "n.arrow", EDGE)
