"""Files of one block of rows, written by a task: features, labels, roles, CSR; memory is bounded by the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ONE_TYPE, UNKNOWN, Block, FileFacts, block_folder, features_files
from gamlp.graph.ingest import too_heavy
from gamlp.io import Place, open_rows, put_rows
from gamlp.kernel import NUMPY_DTYPES, FloatName


@dataclass(frozen=True)
class Rows:
    """Rows of a graph cut into blocks of `size` rows."""

    count: int
    size: int

    @property
    def blocks(self) -> int:
        return -(-self.count // self.size)

    def bounds(self, block: int) -> tuple[int, int]:
        return block * self.size, min(self.count, (block + 1) * self.size)


@dataclass(frozen=True)
class NodeBlocks:
    """Where and how blocks of nodes are written. `labels`: all texts there are, sorted."""

    graph: Place
    staging: Place
    rows: Rows
    width: int | None
    dtype: FloatName
    labels: Sequence[str] | None
    multi_label: bool
    node_type: str = ONE_TYPE

    def write(self, block: int, table: Any) -> dict[str, Any]:
        """Sort a block's rows by id, and write its features, and its labels and roles for later."""
        order = sorted_once(table)
        begin, end = self.rows.bounds(block)
        if len(order) != end - begin:
            raise GamlpError(
                f"{len(order)} nodes where {end - begin} were before: the node table changes while it is read",
                hint="write it to a file first",
            )
        files: FileFacts = {}
        if self.width is not None:
            name = features_files(self.node_type, [0] * self.rows.blocks)[block]
            files[name] = put_rows(self.graph / name, self._features(table.column("features"), order))
        roles = table.column("role").to_numpy()[order].astype(np.int8)
        put_rows(self.staging / f"roles/{block:05d}.npy", roles)
        used = self._put_labels(block, table.column("label").combine_chunks().take(pa.array(order)))
        return {"files": files, "roles": int(np.count_nonzero(roles)), "used": used}

    def _features(self, column: Any, order: Array) -> Array:
        assert self.width is not None
        place = np.full(len(column), -1, np.int64)
        place[order] = np.arange(len(order))
        values: Array = np.empty((len(order), self.width), NUMPY_DTYPES[self.dtype])
        at = 0
        for chunk in column.chunks:
            some = place[at : at + len(chunk)]
            flat = np.frombuffer(chunk.buffers()[2], np.uint8) if len(chunk) and self.width else np.zeros(0, np.uint8)
            row = self.width * values.itemsize
            flat = flat[_first_offset(chunk) :][: len(chunk) * row]
            part = flat.view(values.dtype).reshape(len(chunk), self.width)
            values[some[some >= 0]] = part[some >= 0]
            at += len(chunk)
        return values

    def _put_labels(self, block: int, column: Any) -> list[int]:
        """Write codes, places among all labels; returns those that are used."""
        if self.labels is None:
            return []
        known = pa.array(self.labels, pa.string())
        flat = column.flatten() if self.multi_label else column
        codes = pc.index_in(flat, value_set=known).fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32)
        put_rows(self.staging / f"codes/{block:05d}.npy", codes)
        if self.multi_label:
            lengths = pc.list_value_length(column).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
            put_rows(self.staging / f"lengths/{block:05d}.npy", lengths.astype(np.int32))
        return [int(code) for code in np.unique(codes[codes >= 0])]


def _first_offset(chunk: Any) -> int:
    return int(np.frombuffer(chunk.buffers()[1], np.int32, 1, 4 * chunk.offset)[0]) if len(chunk) else 0


def sorted_once(table: Any) -> Array:
    """Places of rows in order of ids, one of each id.

    Of rows with the same id the one with the smallest content stays, however Spark partitions them.
    """
    ids = table.column("id")
    order: Array = pc.sort_indices(ids).to_numpy()
    ascending = ids.take(pa.array(order)).combine_chunks()
    if len(ascending) < 2:
        return order
    same = pc.equal(ascending[1:], ascending[:-1]).to_numpy(zero_copy_only=False)
    if not same.any():
        return order
    heads = np.flatnonzero(np.concatenate([[True], ~same]))
    sizes = np.diff(np.append(heads, len(order)))
    chosen = order[heads]
    for index in np.flatnonzero(sizes > 1):
        rivals = [int(row) for row in order[heads[index] : heads[index] + sizes[index]]]
        chosen[index] = min(rivals, key=lambda row: _content(table, row))
    return chosen


def _content(table: Any, row: int) -> tuple[Any, ...]:
    label = table.column("label")[row].as_py()
    return table.column("features")[row].as_py() or b"", str(label), table.column("role")[row].as_py()


@dataclass(frozen=True)
class CsrBlocks:
    """Where and how blocks of edges are written."""

    graph: Place
    rows: Rows
    weighted: bool
    weight: str | None  # what the column is called
    inside: bool = True  # one type: only there an edge can be a self-loop

    def write(self, relation: str, block: int, table: Any) -> dict[str, Any]:
        """Merge and sort a block's entries; None: it has none."""
        rows, neighbours = (_joined(table, name, np.int32) for name in ("rows", "neighbours"))
        weights = _joined(table, "weights", np.float32) if self.weighted else None
        begin, end = self.rows.bounds(block)
        if weights is not None:  # duplicates then add up in the same order, however Spark partitions edges
            order = np.lexsort((weights, neighbours, rows))
            rows, neighbours, weights = rows[order], neighbours[order], weights[order]
        made = Block.from_edges(
            rows, neighbours, weights, start=begin, stop=end, symmetric=False, drop_loops=self.inside, threads=1
        )
        if made.weights is not None and not np.isfinite(made.weights).all():
            raise too_heavy(self.weight)
        folder = block_folder(relation, block)
        parts = {"offsets": made.offsets, "neighbours": made.neighbours.astype(np.int32, copy=False)}
        if made.weights is not None:
            parts["weights"] = made.weights
        files = {f"{folder}/{name}.npy": put_rows(self.graph / f"{folder}/{name}.npy", parts[name]) for name in parts}
        return {"entries": len(made.neighbours), "files": files}


def _joined(table: Any, name: str, dtype: type) -> Array:
    if table is None:
        return np.zeros(0, dtype)
    values = (value for chunk in table.column(name).chunks for value in chunk)
    parts: list[Array] = [np.frombuffer(value.as_buffer(), dtype) for value in values]
    return np.concatenate([np.zeros(0, dtype), *parts])


def staged(place: Place) -> Array:
    """An array that a task put."""
    return np.asarray(open_rows(place)[:])
