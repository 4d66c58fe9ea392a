"""Who makes the CSR of a graph from two Parquet tables: `gamlp ingest`, DuckDB, Polars.

    python benchmarks/csr_from_tables.py duckdb nodes.parquet edges.parquet OUT BYTES

DuckDB and Polars do what each does best: rows of ids by two hash joins, both directions of an edge as one 64-bit key
(row · n + neighbour), keys sorted; what is the same as the one before is dropped while the sorted keys are read, which
costs less than DISTINCT. They write offsets.npy (int64) and neighbours.npy (int32), as the graph folder has them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow.parquet import read_schema

from contained import tell
from gamlp.arrays import Array

_PIECE = 1 << 22  # keys that are looked at together
_TOLD = 0.7  # of the limit: what DuckDB is told. Told the whole of it, it was ended: not all it holds is counted by it


@dataclass(frozen=True)
class Contestant:
    """How a contestant is started; `beside`: bytes it may hold above the memory that it is told to use.

    `more`: it does more than the CSR alone, which others are not asked for.
    """

    command: Callable[[Path, Path, Path, int], Sequence[str]]
    beside: int = 300 * 10**6
    more: bool = False


def _ingest(nodes: Path, edges: Path, out: Path, memory: int, *options: str) -> list[str]:
    words = [
        "ingest",
        "--nodes",
        str(nodes),
        "--edges",
        str(edges),
        "--out",
        str(out / "graph"),
        "--memory",
        str(memory),
    ]
    return [sys.executable, "-c", "from gamlp.cli.main import main; main()", *words, "--json", *options]


def _structure(nodes: Path, edges: Path, out: Path, memory: int) -> list[str]:
    """Of the node table nothing but ids."""
    others = [name for name in read_schema(nodes).names if name not in ("id", "label")]
    return _ingest(nodes, edges, out, memory, "--label", "", *(word for name in others for word in ("--drop", name)))


def _other(name: str) -> Callable[[Path, Path, Path, int], list[str]]:
    def command(nodes: Path, edges: Path, out: Path, memory: int) -> list[str]:
        return [sys.executable, __file__, name, str(nodes), str(edges), str(out), str(memory)]

    return command


CONTESTANTS = {
    "gamlp ingest, edges alone": Contestant(_structure),
    "gamlp ingest, all columns": Contestant(_ingest, more=True),
    "DuckDB": Contestant(_other("duckdb")),
    "Polars": Contestant(_other("polars")),
}


def duckdb_csr(nodes: Path, edges: Path, out: Path, memory: int) -> None:
    """Joins and sort within the limit, spilled to disk beyond it."""
    import duckdb

    from gamlp.io import usable_cores

    database = duckdb.connect(str(out / "work.duckdb"))
    for setting in (
        f"threads = {usable_cores()}",
        f"memory_limit = '{round(memory * _TOLD) // 10**6} MB'",
        f"temp_directory = '{out / 'spilled'}'",
        "preserve_insertion_order = false",
    ):
        database.execute(f"SET {setting}")
    database.execute(
        "CREATE TEMP TABLE node AS SELECT id, file_row_number AS place "
        f"FROM read_parquet('{nodes}', file_row_number = true)"
    )
    found = database.execute("SELECT count(*) FROM node").fetchone()
    assert found is not None
    count = int(found[0])
    tell(step="nodes read")
    database.execute(
        f"""CREATE TEMP TABLE edge AS
        SELECT source.place AS a, target.place AS b
        FROM read_parquet('{edges}') AS given
        JOIN node AS source ON given.src = source.id JOIN node AS target ON given.dst = target.id
        WHERE a <> b"""
    )
    tell(step="joined")
    reader = database.execute(
        f"SELECT a * {count} + b AS key FROM edge UNION ALL SELECT b * {count} + a FROM edge ORDER BY key"
    ).fetch_record_batch(_PIECE)
    _write_csr((batch.column(0).to_numpy() for batch in reader), count, out)


def polars_csr(nodes: Path, edges: Path, out: Path, memory: int) -> None:
    """The streaming engine joins and sorts; it has no limit of memory that it could be told."""
    import polars

    node = polars.scan_parquet(nodes).select("id").with_row_index("place").collect()
    count = node.height
    tell(step="nodes read")
    places = node.lazy().with_columns(polars.col("place").cast(polars.Int64))
    edge = (
        polars.scan_parquet(edges)
        .join(places.rename({"id": "src", "place": "a"}), on="src", maintain_order="none")
        .join(places.rename({"id": "dst", "place": "b"}), on="dst", maintain_order="none")
        .filter(polars.col("a") != polars.col("b"))
        .select("a", "b")
        .collect(engine="streaming")
    )
    del node, places
    tell(step="joined")
    keys = polars.concat([edge["a"] * count + edge["b"], edge["b"] * count + edge["a"]], rechunk=True)
    del edge
    sorted_keys = keys.sort().to_numpy()
    del keys
    _write_csr((sorted_keys[at : at + _PIECE] for at in range(0, len(sorted_keys), _PIECE)), count, out)


def _write_csr(pieces: Iterable[Array], count: int, out: Path) -> None:
    """Sorted keys, some at a time → offsets and neighbours."""
    degrees = np.zeros(count, np.int64)
    last = -1
    with (out / "neighbours.raw").open("wb") as file:
        for keys in pieces:
            if len(keys) == 0:
                continue
            fresh = np.empty(len(keys), bool)
            fresh[0] = keys[0] != last
            np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
            last = int(keys[-1])
            rows, neighbours = np.divmod(keys[fresh], count)
            if len(rows):
                first = int(rows[0])
                found = np.bincount(rows - first)
                degrees[first : first + len(found)] += found
            neighbours.astype(np.int32).tofile(file)
    offsets = np.concatenate([[0], np.cumsum(degrees)])
    np.save(out / "offsets.npy", offsets)


def read_csr(out: Path) -> tuple[Array, Array]:
    """(offsets, neighbours) of what a contestant wrote."""
    if (out / "graph").exists():
        from gamlp.graph import Graph

        blocks = Graph.open(out / "graph").relation.blocks
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.offsets) for block in blocks]))])
        return offsets, np.concatenate([block.neighbours for block in blocks])
    return np.load(out / "offsets.npy"), np.fromfile(out / "neighbours.raw", np.int32)


_OTHERS: dict[str, Any] = {"duckdb": duckdb_csr, "polars": polars_csr}

if __name__ == "__main__":
    _OTHERS[sys.argv[1]](*map(Path, sys.argv[2:5]), int(sys.argv[5]))
