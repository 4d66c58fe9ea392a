"""A graph folder, mapped: an array is verified, by checksum and by what it may hold, when it is first read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.contents import check_label_numbers, check_neighbours_of, check_offsets_of, check_roles
from gamlp.graph.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split
from gamlp.graph.manifest import (
    FeaturesEntry,
    FileEntry,
    NodesEntry,
    RelationEntry,
    block_folder,
    features_files,
    nodes_folder,
    raw_file,
    read_manifest,
)
from gamlp.graph.raw import RawColumns
from gamlp.graph.text_ids import IdShards, id_files, open_strings, shard_bounds
from gamlp.graph.unread import Unread
from gamlp.io import Place, RowShards, map_array, open_rows, verify
from gamlp.kernel import NUMPY_DTYPES

_HINT = "build the graph again"
_EDGE_TYPES = {"offsets": np.int64, "neighbours": np.int32, "weights": np.float32}


def open_graph(place: str | Path | Place) -> Graph:
    """Map a graph folder; sizes are checked now, contents when they are first read.

    Behind a URL, labels, roles and ids are fetched and verified; features and edges are read where they are asked for,
    unverified.
    """
    folder = Place.of(place)
    manifest = read_manifest(folder)
    for name, file in manifest.files.items() if folder.local is not None else ():
        size = (folder / (file.at or name)).size()
        if size != file.bytes:
            found = "is missing" if size is None else f"has {size} bytes, not {file.bytes}"
            raise GamlpError(f"file {found}", file=folder / (file.at or name), hint=_HINT)
    files = FolderFiles(folder, manifest.files)
    return Graph(
        name=manifest.name,
        node_types={node_type: _open_nodes(files, node_type, entry) for node_type, entry in manifest.nodes.items()},
        relations={
            name: open_edges(files, name, entry, manifest.nodes[entry.source].count)
            for name, entry in manifest.relations.items()
        },
        target=manifest.target,
        earlier={
            part: {
                name: open_edges(files, name, entry, manifest.nodes[entry.source].count, part)
                for name, entry in relations.items()
            }
            for part, relations in manifest.earlier.items()
        },
        folder=folder.local or folder,
        source=manifest.source,
        checksums={name: (file.bytes, file.crc32) for name, file in manifest.files.items()},
        moved={name: file.at for name, file in manifest.files.items() if file.at is not None},
    )


def damaged_files(graph: Graph) -> list[str]:
    """Names of files whose bytes are not those that were written."""
    assert graph.folder is not None
    return [name for name, (_, crc) in graph.checksums.items() if graph.file(name).checksum() != crc]


Check = Callable[[Array, Place], None]


@dataclass(frozen=True)
class FolderFiles:
    """A graph's folder and what its manifest knows of every file."""

    place: Place
    entries: dict[str, FileEntry]

    def at(self, name: str) -> Place:
        """Where a file lies."""
        entry = self.entries.get(name)
        return self.place / (name if entry is None or entry.at is None else entry.at)

    def array(self, name: str, shape: tuple[int, ...], check: Check | None = None) -> Any:
        """Whole numbers, fetched where they are elsewhere."""
        values = map_array(self._copy(name))
        if tuple(values.shape) != shape:
            raise GamlpError(f"shape is {tuple(values.shape)}, not {shape}", file=self.at(name), hint=_HINT)
        if values.dtype.kind != "i":
            raise GamlpError(f"holds {values.dtype}, not whole numbers", file=self.at(name), hint=_HINT)
        return self.later(name, values, check)

    def later(self, name: str, values: Array, check: Check | None = None) -> Any:
        """An array that was mapped, verified when it is first asked for."""
        self.entry(name)
        return Unread(tuple(values.shape), values.dtype, partial(self._verified, name, values, check))

    def strings(self, names: Sequence[str], bounds: Sequence[tuple[int, int]]) -> Any:
        """Ids in files with these rows, verified when they are first asked for."""
        for name in names:
            self.entry(name)
        return Unread((bounds[-1][1],), None, partial(self._strings, names, bounds))

    def _strings(self, names: Sequence[str], bounds: Sequence[tuple[int, int]]) -> Any:
        found = []
        for name, (begin, end) in zip(names, bounds):
            self.verify(name)
            found.append(open_strings(self._copy(name), end - begin))
        if len(found) == 1:
            return found[0]
        chunks = [chunk for part in found for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks])

    def _verified(self, name: str, values: Array, check: Check | None) -> Array:
        self.verify(name)
        if check is not None:
            check(values, self.at(name))
        return values

    def verify(self, name: str) -> None:
        place = self.at(name)
        verify(place, self.entry(name).crc32, hint=_HINT, copy=self._copy(name))

    def _copy(self, name: str) -> Path:
        """Fetched where it is elsewhere; by its content, as a graph may grow behind its URL."""
        entry = self.entries.get(name)
        return self.at(name).local_copy("" if entry is None else f"-{entry.crc32:08x}")

    def entry(self, name: str) -> FileEntry:
        if name not in self.entries:
            raise GamlpError("the manifest knows no checksum of this file", file=self.place / name, hint=_HINT)
        return self.entries[name]


def _open_nodes(files: FolderFiles, node_type: str, entry: NodesEntry) -> Nodes:
    folder, labels, split = nodes_folder(node_type), None, None
    features = None if entry.features is None else open_features(files, node_type, entry.count, entry.features)
    if entry.labels is not None:
        classes = tuple(entry.labels.classes)
        shape = (entry.count, len(classes)) if entry.labels.multi_label else (entry.count,)
        check = partial(check_label_numbers, classes=len(classes))
        labels = Labels(files.array(f"{folder}/labels.npy", shape, check), classes, entry.labels.class_type)
    if entry.split:
        split = Split(files.array(f"{folder}/split.npy", (entry.count,), check_roles))
    raw = None if entry.raw is None else open_raw(files, node_type, entry.raw.blocks)
    return Nodes(node_type, entry.count, open_ids(files, node_type, entry), features, labels, split, raw)


def open_ids(files: FolderFiles, node_type: str, entry: NodesEntry) -> Ids:
    """Original ids of a node type, read when they are first asked for."""
    folder, ids = nodes_folder(node_type), None
    if entry.ids == "integers":
        ids = files.array(f"{folder}/ids.npy", (entry.count,))
    elif entry.ids == "strings":
        bounds = shard_bounds(entry.count, entry.id_shards)
        ids = files.strings(id_files(node_type, entry.id_shards), bounds)
    return Ids(entry.count, ids)


def open_id_shards(files: FolderFiles, node_type: str, entry: NodesEntry) -> IdShards:
    """Ids that are strings, of which files are opened one by one as their rows are asked for."""
    bounds = shard_bounds(entry.count, entry.id_shards)
    names = id_files(node_type, entry.id_shards)
    return IdShards(tuple((files.at(name), files.entry(name).crc32, end) for name, (_, end) in zip(names, bounds)))


def open_raw(files: FolderFiles, node_type: str, blocks: Sequence[int]) -> RawColumns:
    """Raw columns of a node type; a block is verified when it is read."""
    names = [raw_file(node_type, block) for block in range(len(blocks))]
    for name in names:
        files.entry(name)
    return RawColumns(tuple(files.at(name) for name in names), tuple(blocks), lambda index: files.verify(names[index]))


def open_features(files: FolderFiles, node_type: str, count: int, entry: FeaturesEntry) -> Features:
    """Features of a node type: one file, mapped; several, or behind a URL, read where they are asked for."""
    dtype, columns = np.dtype(NUMPY_DTYPES[entry.dtype]), None if entry.columns is None else tuple(entry.columns)
    names = features_files(node_type, entry.shards)
    places = [files.at(name) for name in names]
    if files.place.local is None or entry.shards is not None:
        stops = [count] if entry.shards is None else entry.shards
        sums = [files.entry(name).crc32 for name in names]
        shards: Any = RowShards(places, stops, (entry.width,), dtype, sums)
        return Features(shards, entry.dtype, columns)
    values = open_rows(places[0])
    if tuple(values.shape) != (count, entry.width):
        raise GamlpError(f"shape is {values.shape}, not {(count, entry.width)}", file=places[0])
    if values.dtype != dtype:
        raise GamlpError(f"features are {values.dtype}, not {entry.dtype}", file=places[0])
    return Features(files.later(names[0], values), entry.dtype, columns)


def open_edges(files: FolderFiles, name: str, entry: RelationEntry, count: int, as_of: str | None = None) -> Relation:
    """The blocks of a relation whose neighbours are among `count` nodes; `as_of`: when that part of a split ended."""
    blocks = []
    row = 0
    for index, block in enumerate(entry.blocks):
        folder = block_folder(name, index, as_of)
        place = files.place / folder
        names = [part for part in _EDGE_TYPES if entry.weighted or part != "weights"]
        parts = {part: open_rows(files.at(f"{folder}/{part}.npy")) for part in names}
        if files.place.local is not None:  # elsewhere nothing is read before it is needed
            shapes = {"offsets": (block.stop - block.start + 1,)}
            fits = all(
                values.shape == shapes.get(part, (block.entries,)) and values.dtype == _EDGE_TYPES[part]
                for part, values in parts.items()
            )
            if block.start != row or not fits:
                raise GamlpError("block does not fit its manifest", file=place, hint="build the graph again")
            checks: dict[str, Check] = {
                "offsets": partial(check_offsets_of, entries=block.entries),
                "neighbours": partial(check_neighbours_of, count=count),
            }
            parts = {
                part: files.later(f"{folder}/{part}.npy", values, checks.get(part)) for part, values in parts.items()
            }
        blocks.append(Block(block.start, block.stop, parts["offsets"], parts["neighbours"], parts.get("weights")))
        row = block.stop
    return Relation(name, entry.source, entry.target, entry.directed, tuple(blocks), entry.reverse)
