"""Original ids that are texts, in files: one, or of many nodes several, of which a lookup opens those it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.manifest import nodes_folder
from gamlp.io import Place, verify

ID_SHARD = 2_000_000  # rows of a file, where there are more than one holds
_AGAIN = "build the graph again"


def id_shards(count: int) -> list[int] | None:
    """The first row after each file of so many ids; None: one file holds them."""
    if count <= ID_SHARD:
        return None
    return [*range(ID_SHARD, count, ID_SHARD), count]


def id_files(node_type: str, shards: list[int] | None) -> list[str]:
    """Names of the files that hold a node type's ids, where they are texts."""
    if shards is None:
        return [f"{nodes_folder(node_type)}/ids.arrow"]
    return [f"{nodes_folder(node_type)}/ids/{index:05d}.arrow" for index in range(len(shards))]


def shard_bounds(count: int, shards: list[int] | None) -> list[tuple[int, int]]:
    """Rows of each file.

    >>> shard_bounds(5, [2, 4, 5]), shard_bounds(5, None)
    ([(0, 2), (2, 4), (4, 5)], [(0, 5)])
    """
    stops = [count] if shards is None else shards
    return list(zip([0, *stops[:-1]], stops))


def open_strings(path: Path, count: int) -> Any:
    """Ids that are strings, mapped; all are looked at, since one that leads out of the file would end the process."""
    try:
        ids = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("id")
        ids.validate(full=True)
        ids = ids.chunk(0) if ids.num_chunks == 1 else ids  # Spark writes a batch for each block of rows
    except (pa.ArrowException, OSError, KeyError) as error:
        message = " ".join(str(error).split())[:200]
        raise GamlpError(f"ids cannot be read ({message})", file=path, hint=_AGAIN) from error
    if len(ids) != count:
        raise GamlpError(f"{len(ids)} ids for {count} nodes", file=path, hint=_AGAIN)
    if ids.null_count or not (pa.types.is_large_string(ids.type) or pa.types.is_string(ids.type)):
        raise GamlpError(f"ids are {ids.type}, not strings", file=path, hint=_AGAIN)
    return ids


def take_texts(values: pa.Array | pa.ChunkedArray, rows: Array) -> pa.Array:
    """Those of rows in any order. Nothing else is copied: Arrow's own `take` puts all chunks together first."""
    rows = np.asarray(rows, np.int64)
    if not isinstance(values, pa.ChunkedArray):
        return values.take(pa.array(rows))
    stops = np.cumsum([len(chunk) for chunk in values.chunks], dtype=np.int64)
    of_chunk = np.searchsorted(stops, rows, side="right")
    order = np.argsort(of_chunk, kind="stable")
    chosen, bounds = np.unique(of_chunk[order], return_index=True)
    parts = [pa.array([], values.type)]
    for number, begin, end in zip(chosen.tolist(), bounds, [*bounds[1:], len(rows)]):
        if number == len(stops):
            raise IndexError(f"row {rows.max()} of {len(values)} ids")
        chunk = values.chunk(number)
        parts.append(chunk.take(pa.array(rows[order[begin:end]] - (stops[number] - len(chunk)))))
    found = pa.concat_arrays(parts)
    return found if bool(np.all(order[1:] > order[:-1])) else found.take(pa.array(np.argsort(order)))


@dataclass(frozen=True)
class IdShards:
    """Ids by row number; a file is fetched, where it is elsewhere, and verified when a row of it is first asked for.

    `files`: the place of each, its CRC-32, and the first row after it.
    """

    files: tuple[tuple[Place, int, int], ...]
    _opened: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def take(self, rows: Array) -> pa.Array:
        """Of rows in any order, as an Arrow array of strings."""
        rows = np.asarray(rows, np.int64)
        of_file = np.searchsorted([stop for _, _, stop in self.files], rows, side="right")
        parts, order = [pa.array([], pa.large_string())], [np.zeros(0, np.int64)]
        for number in np.unique(of_file).tolist():
            own = np.flatnonzero(of_file == number)
            begin = self.files[number - 1][2] if number else 0
            parts.append(take_texts(self._file(number), rows[own] - begin))
            order.append(own)
        back = np.argsort(np.concatenate(order), kind="stable")
        together = pa.concat_arrays([part.cast(pa.large_string()) for part in parts])
        return together if len(parts) == 2 else together.take(pa.array(back))

    def _file(self, number: int) -> Any:
        if number not in self._opened:
            place, crc32, stop = self.files[number]
            # By its content: another file may be behind the same URL later, and workers live long.
            copy = place.local_copy(f"-{crc32:08x}")
            verify(place, crc32, hint=_AGAIN, copy=copy)
            self._opened[number] = open_strings(copy, stop - (self.files[number - 1][2] if number else 0))
        return self._opened[number]

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _opened={})
