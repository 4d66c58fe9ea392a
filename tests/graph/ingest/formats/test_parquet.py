"""A small Parquet file may unfold to a large table: never all of it at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.parquet import _read_footer, parquet_batches


def repeated(path, length: int, rows: int, **how):
    """One text of so many bytes in every row, as a file of a few kilobytes."""
    labels = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["a" * length])
    table = pa.table({"id": np.arange(rows), "label": labels})
    limit = {"dictionary_pagesize_limit": 1 << 30, "write_statistics": False}
    pq.write_table(table, path, compression="zstd", **limit, **how)
    assert path.stat().st_size < 100_000
    return path


def test_a_dictionary_larger_than_is_read(build, tmp_path):
    path = repeated(tmp_path / "n.parquet", 33 << 20, 1000)
    with pytest.raises(GamlpError, match=r"n.parquet, column label: a dictionary of 33.0 MiB; write the file with"):
        build(path, "src,dst\n1,2\n")
    path = repeated(tmp_path / "n.parquet", 2 << 20, 1000)
    with pytest.raises(GamlpError, match=r"n.parquet, column label: a value of 2.0 MiB; at most 1.0 MiB are read"):
        build(path, "src,dst\n1,2\n")


def test_a_text_that_every_row_repeats_is_unfolded_some_rows_at_a_time(tmp_path):
    path = repeated(tmp_path / "n.parquet", 512 << 10, 3000, row_group_size=1000)
    rows = [batch.num_rows for batch in parquet_batches(path, ["id", "label"], 8 << 20)]
    assert sum(rows) == 3000 and max(rows) <= 16


_READ = """
import sys
from pathlib import Path
from gamlp.graph.ingest.formats.parquet import parquet_batches
for batch in parquet_batches(Path(sys.argv[1]), ["label"], 8 << 20): pass
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line).split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_memory_of_a_file_that_unfolds_to_a_gigabyte(tmp_path):
    """The first rows are short, so that a guess from them would be wrong."""
    short, long = ["b"] * 1000, ["a" * (512 << 10)] * 2000
    labels = pa.array(short + long[:1]).dictionary_encode()
    codes = np.concatenate([np.zeros(1000, np.int32), np.ones(2000, np.int32)])
    table = pa.table({"label": pa.DictionaryArray.from_arrays(codes, labels.dictionary)})
    pq.write_table(table, tmp_path / "n.parquet", compression="zstd", write_statistics=False)
    command = [sys.executable, "-c", _READ, str(tmp_path / "n.parquet")]
    peak = int(subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout)
    assert peak < 300 << 10  # KiB


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"compression": "none", "data_page_version": "2.0"}])
def test_the_footer_is_read_as_arrow_reads_it(tmp_path, how):
    table = pa.table({
        "id": np.arange(1000), "a.b": [f"n{i}" for i in range(1000)], "flag": [True] * 1000,
        "list": [[1.0, 2.0]] * 1000, "labels": [["x", "y"], []] * 500, "none": pa.nulls(1000),
        "fixed": pa.array([b"abcd"] * 1000, pa.binary(4)), "left": np.zeros(1000),
    })  # fmt: skip
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=300, **how)
    names = [name for name in table.column_names if name != "left"]
    chunks, fixed = _read_footer(path, names)
    known = pq.ParquetFile(path).metadata
    expected = []
    for group in range(known.num_row_groups):
        for number in range(known.num_columns - 1):
            column = known.row_group(group).column(number)
            facts = column.path_in_schema, column.num_values, column.total_uncompressed_size
            expected.append((group, known.row_group(group).num_rows, *facts))
    assert [(one.group, one.rows, one.path, one.values, one.size) for one in chunks] == expected
    assert {one.column for one in chunks} == set(names) and fixed == 4
    assert pa.Table.from_batches(parquet_batches(path, names, 1 << 12)).equals(table.select(names))
