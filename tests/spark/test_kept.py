"""Rows that wait in files: some columns are read without the others, which behind a URL are then not fetched."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from gamlp.io import Place
from gamlp.spark.ingest.kept import KeptFiles, keep

FEATURES = 1000


def batches() -> Iterator[pa.RecordBatch]:
    for begin, end in ((0, 300), (300, 300), (300, 500)):
        rows = range(begin, end)
        columns = [[f"n{row}" for row in rows], ["a"] * len(rows), [bytes([row % 256]) * FEATURES for row in rows]]
        kinds = (pa.string(), pa.string(), pa.binary())
        arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds)]
        yield pa.RecordBatch.from_arrays(arrays, names=["id", "label", "features"])


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_columns_apart_are_read_alone_or_with_the_others(place: str, tmp_path) -> None:
    folder = Place.of(tmp_path if place == "folder" else f"memory://{tmp_path.name}")
    name = keep(batches(), folder, ["id", "label"])
    assert name is not None
    kept, expected = KeptFiles(folder, [name], True), pa.Table.from_batches(batches())
    assert pa.Table.from_batches(kept.read(0)).equals(expected)
    others = next(folder / other for other in folder.names() if other != name)
    assert (others.size() or 0) > 500 * FEATURES > 20_000 > ((folder / name).size() or 0)
    others.remove()  # what is not asked for is not read
    assert pa.Table.from_batches(kept.read(0, alone=True)).equals(expected.select(["id", "label"]))


def test_without_columns_apart_there_is_one_file(tmp_path) -> None:
    folder = Place.of(tmp_path)
    name = keep(batches(), folder)
    assert name is not None and folder.names() == [name]
    assert pa.Table.from_batches(KeptFiles(folder, [name]).read(0)).equals(pa.Table.from_batches(batches()))
    assert keep(iter([]), folder) is None
