"""Files of labels and roles, written from streams: those of the whole arrays, whatever the streams are cut into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamlp.graph import Ids, Labels, random_split
from gamlp.io import Place, put_rows
from gamlp.spark.ingest.block_files import RowBlocks, TargetFiles

COUNT, BLOCK, FRACTIONS, SEED = 100, 17, (0.5, 0.2, 0.2), 3


@pytest.mark.parametrize("batch", [1, 13, 100])
def test_a_random_split_is_that_of_one_machine(tmp_path: Path, batch: int) -> None:
    codes = np.random.default_rng(0).integers(0, 4, COUNT)  # the last code is 'no label'
    numbers = np.array([0, 1, 2, -1])
    rows, place = RowBlocks(COUNT, BLOCK), Place.of(tmp_path)
    for block in range(rows.blocks):
        begin, end = rows.bounds(block)
        put_rows(place / f"staging/codes/{block:05d}.npy", codes[begin:end])
    names = pa.array([f"n{row}" for row in range(COUNT)])

    def ids() -> Iterator[Any]:
        yield from pa.table({"id": names}).to_batches(max_chunksize=batch)

    files = TargetFiles(place, place / "staging", rows, 3, numbers, False)
    told = files.write_random_split(ids, FRACTIONS, SEED)
    labels = Labels(numbers[codes].astype(np.int32), ("a", "b", "c"))
    expected = random_split(labels, Ids(COUNT, names), FRACTIONS, SEED)
    assert np.array_equal(np.load(tmp_path / "nodes/node/split.npy"), expected.roles)
    assert told["split"] == {role: len(expected.rows(role)) for role in ("train", "valid", "test")}
    (facts,) = told["files"].values()
    assert facts[0] == (tmp_path / "nodes/node/split.npy").stat().st_size and told["useless"] == 0
