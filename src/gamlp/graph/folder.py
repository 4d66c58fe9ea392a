"""A graph is written to a folder: beside, and renamed. `opening` maps it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.class_types import ClassType
from gamlp.graph.features.encoders import SCHEMA, FittedColumn, schema_text
from gamlp.graph.graph import Block, Graph, Labels, Relation, Split
from gamlp.graph.manifest import (
    MANIFEST,
    BlockEntry,
    FeaturesEntry,
    FileEntry,
    GraphManifest,
    LabelsEntry,
    NodesEntry,
    RawEntry,
    RelationEntry,
    block_folder,
    features_files,
    nodes_folder,
    raw_file,
)
from gamlp.graph.opening import open_graph
from gamlp.graph.raw import write_block
from gamlp.graph.schema import FeatureSchema
from gamlp.graph.text_ids import id_files, id_shards, shard_bounds
from gamlp.io import GrowingArray, StreamedArray, atomic_folder, checksum, create_array, save_array, write_text
from gamlp.kernel import NUMPY_DTYPES, FloatName

SHARD_BYTES = 1 << 30  # features in a file, where they are streamed


class GraphWriter:
    """Writes a graph part by part into a folder beside its destination. Use `writing(out)`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.source: dict[str, Any] = {}
        self.fitted: dict[str, list[FittedColumn]] = {}  # all columns that were read, for schema.yaml
        self._nodes: dict[str, NodesEntry] = {}
        self._relations: dict[str, RelationEntry] = {}
        self._earlier: dict[str, dict[str, RelationEntry]] = {}
        self._sums: dict[Path, int] = {}  # of files that were summed while they were written

    def nodes(self, count: int, node_type: str = "node") -> None:
        """Declare a node type."""
        check_name(node_type)
        (self.folder / nodes_folder(node_type)).mkdir(parents=True)
        self._nodes[node_type] = NodesEntry(count=count)

    def features(
        self, width: int, dtype: FloatName = "float32", node_type: str = "node", columns: FeatureSchema | None = None
    ) -> Array:
        """Reserve `[count, width]` and return it mapped for writing (bfloat16 as uint16 bits)."""
        entry = self._nodes[node_type]
        entry.features = FeaturesEntry(width=width, dtype=dtype, columns=None if columns is None else list(columns))
        return create_array(self._nodes_file(node_type, "features"), (entry.count, width), NUMPY_DTYPES[dtype])

    def feature_shards(self, width: int, dtype: FloatName, node_type: str = "node") -> list[tuple[int, int]]:
        """Declare features that are streamed: row ranges, each of which `stream_features` writes as one file.

        A reader verifies a file when it first reads from it: of several no more than it needs, and what it has verified
        is still in memory when it computes.
        """
        entry = self._nodes[node_type]
        rows = max(1, SHARD_BYTES // max(1, width * np.dtype(NUMPY_DTYPES[dtype]).itemsize))
        stops = [*range(rows, entry.count, rows), entry.count]
        entry.features = FeaturesEntry(width=width, dtype=dtype, shards=stops if len(stops) > 1 else None)
        return list(pairwise([0, *stops]))

    @contextmanager
    def stream_features(self, shard: int, node_type: str = "node") -> Iterator[StreamedArray]:
        """The rows of one shard are appended from first to last (bfloat16 as uint16 bits)."""
        entry = self._nodes[node_type]
        assert entry.features is not None
        shards = entry.features.shards
        start, stop = list(pairwise([0, *(shards or [entry.count])]))[shard]
        path = self.folder / features_files(node_type, shards)[shard]
        path.parent.mkdir(exist_ok=True)
        dtype = NUMPY_DTYPES[entry.features.dtype]
        with StreamedArray(path, (entry.features.width,), dtype, stop - start) as rows:
            yield rows
        if rows.rows != stop - start:
            raise ValueError(f"features of '{node_type}' have {rows.rows} rows, not {stop - start}")
        self._sums[path] = rows.crc32

    def take_features(
        self, rows: GrowingArray, dtype: FloatName, node_type: str = "node", columns: FeatureSchema | None = None
    ) -> None:
        """Features that were written before their number was known; the file is moved here."""
        entry = self._nodes[node_type]
        if rows.rows != entry.count:
            raise ValueError(f"features of '{node_type}' have {rows.rows} rows, not {entry.count}")
        entry.features = FeaturesEntry(
            width=rows.width, dtype=dtype, columns=None if columns is None else list(columns)
        )
        rows.path.rename(self._nodes_file(node_type, "features"))

    def raw_blocks(self, stops: Sequence[int], node_type: str = "node") -> Path:
        """Declare raw columns that somebody writes block by block into the folder that is returned."""
        self._nodes[node_type].raw = RawEntry(blocks=list(stops))
        folder = (self.folder / raw_file(node_type, 0)).parent
        folder.mkdir()
        return folder

    def raw_block(self, block: pa.RecordBatch, node_type: str = "node") -> None:
        """Append the next rows of the feature columns as the table had them."""
        entry = self._nodes[node_type]
        entry.raw = entry.raw or RawEntry(blocks=[])
        path = self.folder / raw_file(node_type, len(entry.raw.blocks))
        path.parent.mkdir(exist_ok=True)
        write_block(path, block)
        entry.raw.blocks.append((entry.raw.blocks[-1] if entry.raw.blocks else 0) + block.num_rows)

    def reserve_labels(
        self, multi_label: bool, classes: Sequence[str], node_type: str = "node", class_type: ClassType = "string"
    ) -> Array:
        """Reserve `[count]` int32 or, for many labels a node, `[count, classes]` int8, mapped for writing."""
        entry = self._nodes[node_type]
        entry.labels = LabelsEntry(multi_label=multi_label, classes=list(classes), class_type=class_type)
        shape = (entry.count, len(classes)) if multi_label else (entry.count,)
        return create_array(self._nodes_file(node_type, "labels"), shape, np.int8 if multi_label else np.int32)

    def labels(self, labels: Labels, node_type: str = "node") -> None:
        self._nodes[node_type].labels = LabelsEntry(
            multi_label=labels.multi_label, classes=list(labels.classes), class_type=labels.class_type
        )
        self._save(node_type, "labels", labels.values.astype(np.int8 if labels.multi_label else np.int32, copy=False))

    def split(self, split: Split, node_type: str = "node") -> None:
        self._nodes[node_type].split = True
        self._save(node_type, "split", split.roles.astype(np.int8, copy=False))

    def ids(self, values: Array | pa.Array | pa.ChunkedArray | None, node_type: str = "node") -> None:
        """Original ids: None (row numbers), int64 array, or Arrow strings."""
        if values is None:
            return
        if isinstance(values, np.ndarray):
            self._nodes[node_type].ids = "integers"
            self._save(node_type, "ids", values.astype(np.int64, copy=False))
            return
        entry = self._nodes[node_type]
        entry.ids, entry.id_shards = "strings", id_shards(len(values))
        for name, (begin, end) in zip(id_files(node_type, entry.id_shards), shard_bounds(len(values), entry.id_shards)):
            (self.folder / name).parent.mkdir(exist_ok=True)
            write_ids(self.folder / name, values[begin:end])

    def relation(
        self,
        *,
        directed: bool,
        weighted: bool,
        name: str = "edge",
        source: str = "node",
        target: str = "node",
        reverse: str | None = None,
        as_of: str | None = None,
    ) -> None:
        """Declare a relation; its blocks follow in order of rows. `as_of`: as it was when that part ended."""
        check_name(name)
        self._entries(as_of)[name] = RelationEntry(
            source=source, target=target, directed=directed, weighted=weighted, blocks=[], reverse=reverse
        )

    def _entries(self, as_of: str | None) -> dict[str, RelationEntry]:
        return self._relations if as_of is None else self._earlier.setdefault(as_of, {})

    def block(self, block: Block, relation: str = "edge", as_of: str | None = None) -> None:
        """Append the next rows of a relation: offsets from 0, neighbours ascending, no self-loops."""
        entry = self._entries(as_of)[relation]
        folder = self.folder / block_folder(relation, len(entry.blocks), as_of)
        folder.mkdir(parents=True)
        save_array(folder / "offsets.npy", block.offsets.astype(np.int64, copy=False))
        save_array(folder / "neighbours.npy", block.neighbours.astype(np.int32, copy=False))
        if entry.weighted:
            assert block.weights is not None
            save_array(folder / "weights.npy", block.weights.astype(np.float32, copy=False))
        entry.blocks.append(BlockEntry(start=block.start, stop=block.stop, entries=len(block.neighbours)))

    def stream_block(
        self, start: int, stop: int, parts: Iterable[tuple[Array, Array]], expected: int, relation: str = "edge"
    ) -> int:
        """The same of an unweighted relation, whose rows come in parts: (neighbours of each row, all of them).

        About `expected` entries; returns how many there were.
        """
        entry = self._relations[relation]
        folder = self.folder / block_folder(relation, len(entry.blocks))
        folder.mkdir(parents=True)
        offsets, done = np.zeros(stop - start + 1, np.int64), 0
        with StreamedArray(folder / "neighbours.npy", (), np.int32, expected) as rows:
            for counts, neighbours in parts:
                np.cumsum(counts, out=offsets[done + 1 : done + 1 + len(counts)])
                offsets[done + 1 : done + 1 + len(counts)] += offsets[done]
                done += len(counts)
                rows.append(neighbours)
        if done != stop - start or offsets[-1] != rows.rows:
            raise ValueError(f"{done} rows with {offsets[-1]} of {rows.rows} entries for rows {start}..{stop}")
        self._sums[rows.path] = rows.crc32
        save_array(folder / "offsets.npy", offsets)
        entry.blocks.append(BlockEntry(start=start, stop=stop, entries=rows.rows))
        return rows.rows

    def finish(self, target: str) -> None:
        """Checksums, then the manifest, last."""
        if self.fitted:
            write_text(self.folder / SCHEMA, schema_text(self.fitted))
        # People may edit schema.yaml, and nothing is read from it but by them: it has no checksum.
        paths = [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.name != SCHEMA]
        with ThreadPoolExecutor() as pool:
            sums = pool.map(lambda path: self._sums[path] if path in self._sums else checksum(path, fresh=True), paths)
            files = {
                path.relative_to(self.folder).as_posix(): FileEntry(bytes=path.stat().st_size, crc32=crc)
                for path, crc in zip(paths, sums)
            }
        manifest = GraphManifest(
            name=self.name,
            target=target,
            nodes=self._nodes,
            relations=self._relations,
            source=self.source,
            files=files,
            earlier=self._earlier,
        )
        write_text(self.folder / MANIFEST, manifest.to_json().decode())

    def _nodes_file(self, node_type: str, part: str) -> Path:
        return self.folder / nodes_folder(node_type) / f"{part}.npy"

    def _save(self, node_type: str, part: str, values: Array) -> None:
        if len(values) != self._nodes[node_type].count:
            raise ValueError(f"{part} of '{node_type}' has {len(values)} rows, not {self._nodes[node_type].count}")
        save_array(self._nodes_file(node_type, part), values)


def write_ids(path: Path, values: Array | pa.Array | pa.ChunkedArray) -> None:
    """Original ids as a file: integers as .npy, strings as Arrow."""
    if isinstance(values, np.ndarray):
        save_array(path, values.astype(np.int64, copy=False))
        return
    table = pa.table({"id": values.cast(pa.large_string())})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


@contextmanager
def writing(out: Path, name: str, *, target: str = "node", replace: bool = False) -> Iterator[GraphWriter]:
    """Write a graph folder: all of it appears at `out` when the block ends well, nothing otherwise."""
    with atomic_folder(out, replace=replace) as folder:
        writer = GraphWriter(folder, name)
        yield writer
        writer.finish(target)


def save_graph(graph: Graph, out: Path, *, replace: bool = False) -> Graph:
    """Write any graph as a folder."""
    with writing(out, graph.name, target=graph.target, replace=replace) as writer:
        writer.source = graph.source
        for node_type, nodes in graph.node_types.items():
            writer.nodes(nodes.count, node_type)
            writer.ids(nodes.ids.values, node_type)
            if nodes.features is not None:
                features = nodes.features
                room = writer.features(features.width, features.dtype, node_type, features.columns)
                room[:] = features.values
            for _, block in nodes.raw.blocks() if nodes.raw is not None else ():
                writer.raw_block(block, node_type)
            if nodes.labels is not None:
                writer.labels(nodes.labels, node_type)
            if nodes.split is not None:
                writer.split(nodes.split, node_type)
        _save_relations(writer, graph.relations)
        for part, relations in graph.earlier.items():
            _save_relations(writer, relations, part)
    return open_graph(out)


def _save_relations(writer: GraphWriter, relations: dict[str, Relation], as_of: str | None = None) -> None:
    for name, relation in relations.items():
        writer.relation(
            directed=relation.directed,
            weighted=relation.weighted,
            name=name,
            source=relation.source,
            target=relation.target,
            reverse=relation.reverse,
            as_of=as_of,
        )
        for block in relation.blocks:
            writer.block(block, name, as_of)


def check_name(name: str) -> None:
    """Refuse a name that cannot be that of a folder."""
    if not name or not all(char.isalnum() or char in "-_." for char in name) or name.startswith("."):
        raise GamlpError(f"'{name}' cannot name a node type or relation", hint="use letters, digits, '-', '_' and '.'")
