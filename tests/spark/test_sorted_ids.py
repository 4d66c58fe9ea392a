"""Tables of ids that a process keeps from task to task; no Java."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gamlp.io import Place
from gamlp.spark.ingest import sorted_ids as ids_file
from gamlp.spark.ingest.kept import keep
from gamlp.spark.ingest.sorted_ids import SortedIds, table_of


def sorted_ids(folder: Path, *ids: str) -> SortedIds:
    return cut_ids(folder, [list(ids)])


def cut_ids(folder: Path, files: list[list[str]], batch: int = 1 << 16) -> SortedIds:
    """Ids that lie in these files, in record batches of so many."""
    names = []
    for ids in files:
        parts = (pa.array(ids[begin : begin + batch]) for begin in range(0, len(ids), batch))
        names.append(keep((pa.RecordBatch.from_arrays([part], names=["id"]) for part in parts), Place.of(folder)))
    assert None not in names
    sizes = [len(ids) for ids in files]
    starts, firsts = np.cumsum([0, *sizes[:-1]]).tolist(), [ids[0] for ids in files]
    return SortedIds(Place.of(folder), [name for name in names if name], starts, sum(sizes), False, False, firsts, 100)


def test_a_graph_that_is_made_again_at_the_same_place_has_its_own_table(tmp_path: Path) -> None:
    asked = pa.array(["b", "c"])
    first = sorted_ids(tmp_path, "a", "b")
    assert table_of(first)(asked).tolist() == [1, -1] and table_of(first) is table_of(first)
    assert table_of(sorted_ids(tmp_path, "b", "c"))(asked).tolist() == [0, 1]


@pytest.mark.parametrize("bounds", [(0, 23), (4, 20)])
def test_files_of_ids_are_the_same_bytes_however_tasks_had_cut_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, int]
) -> None:
    monkeypatch.setattr(ids_file, "_BATCH", 5)
    ids = [f"é{number:02d}" for number in range(23)]
    found = []
    for number, (cuts, batch) in enumerate([([0, 23], 23), ([0, 1, 7, 12, 23], 3), ([0, 10, 23], 5)]):
        files = [ids[begin:end] for begin, end in pairwise(cuts)]
        cut_ids(tmp_path / f"{number}", files, batch).write_shard(Place.of(tmp_path), f"{number}.arrow", *bounds)
        found.append((tmp_path / f"{number}.arrow").read_bytes())
    assert found[0] == found[1] == found[2]
    table = pa.ipc.open_file(found[0]).read_all()
    assert table.column("id").to_pylist() == ids[slice(*bounds)]
