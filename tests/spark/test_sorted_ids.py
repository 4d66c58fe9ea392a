"""Tables of ids that a process keeps from task to task; no Java."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gamlp.io import Place
from gamlp.spark.ingest.kept import keep
from gamlp.spark.ingest.sorted_ids import SortedIds, table_of


def sorted_ids(folder: Path, *ids: str) -> SortedIds:
    name = keep(iter([pa.RecordBatch.from_arrays([pa.array(ids)], names=["id"])]), Place.of(folder))
    assert name is not None
    return SortedIds(Place.of(folder), [name], [0], len(ids), False, False, [ids[0]], 100)


def test_a_graph_that_is_made_again_at_the_same_place_has_its_own_table(tmp_path: Path) -> None:
    asked = pa.array(["b", "c"])
    first = sorted_ids(tmp_path, "a", "b")
    assert table_of(first)(asked).tolist() == [1, -1] and table_of(first) is table_of(first)
    assert table_of(sorted_ids(tmp_path, "b", "c"))(asked).tolist() == [0, 1]
