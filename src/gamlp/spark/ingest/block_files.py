"""Files of one block of rows, written by a task: features, labels, roles, CSR; memory is bounded by the block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import (
    ONE_TYPE,
    ROLES,
    UNKNOWN,
    Block,
    FileFacts,
    Labels,
    block_folder,
    features_files,
    nodes_folder,
    roles_by_id,
)
from gamlp.graph.ingest import periods_by_role, too_heavy
from gamlp.io import Place, RowShards, npy_header, open_rows, put_rows
from gamlp.kernel import NUMPY_DTYPES, FloatName
from gamlp.spark.ingest.fitting import FittedColumns


@dataclass(frozen=True)
class RowBlocks:
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
    rows: RowBlocks
    width: int | None
    dtype: FloatName
    labels: Sequence[str] | None
    multi_label: bool
    node_type: str = ONE_TYPE
    fitted: FittedColumns | None = None  # where columns are encoded

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
        unseen: dict[str, list[Any]] = {}
        if self.fitted is not None and self.width is not None:
            place = self.graph, self.node_type, block, self.rows.blocks
            files, unseen = self.fitted.write(table, order, *place, self.dtype)
        elif self.width is not None:
            name = features_files(self.node_type, [0] * self.rows.blocks)[block]
            files[name] = put_rows(self.graph / name, self._features(table.column("features"), order))
        roles = table.column("role").to_numpy()[order].astype(np.int8)
        put_rows(self.staging / f"roles/{block:05d}.npy", roles)
        used, labelled = self._put_labels(block, table.column("label").combine_chunks().take(pa.array(order)))
        return {
            "files": files,
            "roles": int(np.count_nonzero(roles)),
            "used": used,
            "labelled": labelled,
            "unseen": unseen,
        }

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

    def _put_labels(self, block: int, column: Any) -> tuple[list[int], int]:
        """Write codes, places among all labels; returns those that are used, and how many nodes have a label."""
        if self.labels is None:
            return [], 0
        known = pa.array(self.labels, pa.string())
        flat = column.flatten() if self.multi_label else column
        codes = pc.index_in(flat, value_set=known).fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32)
        put_rows(self.staging / f"codes/{block:05d}.npy", codes)
        if self.multi_label:
            lengths = pc.list_value_length(column).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
            put_rows(self.staging / f"lengths/{block:05d}.npy", lengths.astype(np.int32))
        return [int(code) for code in np.unique(codes[codes >= 0])], len(column) - column.null_count


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
    features = table.column("features")[row].as_py() if "features" in table.column_names else None
    return features or b"", str(label), table.column("role")[row].as_py()


def relation_as_of(relation: str, as_of: str | None) -> str:
    """What a relation is called in a task: names themselves have no slash."""
    return relation if as_of is None else f"{as_of}/{relation}"


@dataclass(frozen=True)
class CsrBlocks:
    """Where and how blocks of edges are written."""

    graph: Place
    rows: RowBlocks
    weighted: bool
    weight: str | None  # what the column is called
    inside: bool = True  # one type: only there an edge can be a self-loop

    def write(self, relation: str, block: int, table: Any) -> dict[str, Any]:
        """Merge and sort a block's entries; None: it has none. `relation` is called as by `relation_as_of`."""
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
        as_of, _, name = relation.rpartition("/")
        folder = block_folder(name, block, as_of or None)
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


class StagedPeriods:
    """Of a split by time: periods of nodes, by the roles that tasks put; read where rows are asked for."""

    def __init__(self, staging: Place, rows: RowBlocks) -> None:
        places = [staging / f"roles/{block:05d}.npy" for block in range(rows.blocks)]
        self._roles = RowShards(places, [rows.bounds(block)[1] for block in range(rows.blocks)], (), np.int8)

    def __getitem__(self, rows: Array) -> Array:
        return periods_by_role(self._roles.take(rows.astype(np.int64)))


_TRAIN = ROLES.index("train")
_ROWS = 1 << 16  # of many labels a node, at a time


@dataclass(frozen=True)
class TargetFiles:
    """Codes of labels and roles by block → labels.npy and split.npy. `numbers[code]` is a class, the last one -1."""

    graph: Place
    staging: Place
    rows: RowBlocks
    classes: int
    numbers: Array
    multi_label: bool
    node_type: str = ONE_TYPE

    def write_labels(self) -> dict[str, Any]:
        name = f"{nodes_folder(self.node_type)}/labels.npy"
        shape = (self.rows.count, self.classes) if self.multi_label else (self.rows.count,)
        with (self.graph / name).writing() as stream:
            stream.write(npy_header(shape, np.int8 if self.multi_label else np.int32))
            for block in range(self.rows.blocks):
                for values in self._labels(block):
                    stream.write(np.ascontiguousarray(values).data)
        return {"files": {name: stream.size_and_checksum()}}

    def write_given_split(self) -> dict[str, Any]:
        """The roles of the table; where there are labels, of labelled nodes alone."""
        found = _Roles(self.classes)
        name = f"{nodes_folder(self.node_type)}/split.npy"
        with (self.graph / name).writing() as stream:
            stream.write(npy_header((self.rows.count,), np.int8))
            for block in range(self.rows.blocks):
                roles = staged(self.staging / f"roles/{block:05d}.npy").copy()  # a file is mapped for reading
                at = 0
                for values in self._labels(block) if self.classes else ():
                    part = roles[at : at + len(values)]
                    part[:] = found.add(part, values)
                    at += len(values)
                if not self.classes:
                    found.count(roles)
                stream.write(np.ascontiguousarray(roles).data)
        return {"files": {name: stream.size_and_checksum()}, **found.facts()}

    def write_random_split(
        self, ids: Callable[[], Iterator[Any]], fractions: Sequence[float], seed: int
    ) -> dict[str, Any]:
        """The split that `gamlp ingest` makes of the same labels and ids; `ids` gives batches in the order of rows."""
        found, name = _Roles(self.classes), f"{nodes_folder(self.node_type)}/split.npy"
        drawn = (roles_by_id(batch.column(0), fractions, seed) for batch in ids())
        with (self.graph / name).writing() as stream:
            stream.write(npy_header((self.rows.count,), np.int8))
            for values, roles in _side_by_side(self._all(), drawn):
                known = np.where(Labels(values, ()).known(), roles, 0).astype(np.int8)
                stream.write(np.ascontiguousarray(found.add(known, values)).data)
        return {"files": {name: stream.size_and_checksum()}, **found.facts()}

    def _all(self) -> Iterator[Array]:
        return (values for block in range(self.rows.blocks) for values in self._labels(block))

    def _labels(self, block: int) -> Iterator[Array]:
        codes = staged(self.staging / f"codes/{block:05d}.npy")
        if not self.multi_label:
            yield self.numbers[codes]
            return
        lengths = staged(self.staging / f"lengths/{block:05d}.npy")
        stops = np.cumsum(np.maximum(lengths, 0))
        for begin in range(0, len(lengths), _ROWS):
            some = lengths[begin : begin + _ROWS]
            first = int(stops[begin - 1]) if begin else 0
            owners = np.repeat(np.arange(len(some)), np.maximum(some, 0))
            numbers = self.numbers[codes[first : first + len(owners)]]
            values = np.zeros((len(some), self.classes), np.int8)
            values[some < 0] = UNKNOWN
            values[owners[numbers >= 0], numbers[numbers >= 0]] = 1
            yield values


def _side_by_side(first: Iterator[Array], second: Iterator[Array]) -> Iterator[tuple[Array, Array]]:
    """Rows of two streams of equally many rows, cut where either of them is."""
    one = other = np.zeros(0, np.int8)
    while True:
        while not len(one):
            if (found := next(first, None)) is None:
                return
            one = found
        while not len(other):
            other = next(second)
        count = min(len(one), len(other))
        yield one[:count], other[:count]
        one, other = one[count:], other[count:]


class _Roles:
    """Counts roles, roles of nodes without a label, and classes that train."""

    def __init__(self, classes: int) -> None:
        self._counts = np.zeros(len(ROLES), np.int64)
        self._useless = 0
        self._seen = np.zeros(classes, bool)

    def add(self, roles: Array, labels: Array) -> Array:
        """Roles without those of nodes that have no label."""
        kept = Labels(labels, ()).known()
        self._useless += int(np.count_nonzero((roles > 0) & ~kept))
        roles = np.where(kept, roles, 0).astype(np.int8)
        trained = labels[roles == _TRAIN]
        if labels.ndim == 2:
            self._seen |= (trained > 0).any(0)
        else:
            self._seen[trained] = True
        self.count(roles)
        return roles

    def count(self, roles: Array) -> None:
        self._counts += np.bincount(roles, minlength=len(ROLES))

    def facts(self) -> dict[str, Any]:
        split = {role: int(count) for role, count in zip(ROLES[1:], self._counts[1:])}
        absent = [int(number) for number in np.flatnonzero(~self._seen)]
        return {"split": split, "useless": self._useless, "absent": absent}
