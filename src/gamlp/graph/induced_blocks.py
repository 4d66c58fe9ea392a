"""The graph that some nodes induce, cut out of one on shared storage by tasks, one a block of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.graph.induced import check_rows, inside, source_of
from gamlp.graph.manifest import (
    BlockEntry,
    FeaturesEntry,
    FileEntry,
    FileFacts,
    GraphManifest,
    LabelsEntry,
    NodesEntry,
    RelationEntry,
    block_folder,
    features_files,
    nodes_folder,
    read_manifest,
)
from gamlp.graph.opening import FolderFiles, open_edges, open_features, open_graph
from gamlp.graph.shared_folder import building
from gamlp.graph.text_ids import id_files, id_shards, shard_bounds
from gamlp.io import Place, map_array, put_rows
from gamlp.kernel import crc32

Run = Callable[[Callable[[int], dict[str, Any]], Sequence[int], str], list[dict[str, Any]]]
_CHUNK = 1 << 20  # rows whose labels, roles and ids are copied at a time


@dataclass(frozen=True)
class InducedBlocks:
    """Block i of the result holds the rows `bounds[i]..bounds[i + 1]` of those in the file `rows`."""

    source: Place
    rows: Place
    bounds: tuple[int, ...]
    out: Place

    def write(self, index: int) -> dict[str, Any]:
        """One task: features and edges of a block."""
        manifest = read_manifest(self.source)
        every = map_array(self.rows.local_copy())  # not in memory: it is as long as the graph is large
        rows = every[self.bounds[index] : self.bounds[index + 1]]
        nodes, files, read = manifest.nodes[manifest.target], FileFacts(), FolderFiles(self.source, manifest.files)
        if nodes.features is not None:
            values = open_features(read, manifest.target, nodes.count, nodes.features).values[rows]
            name = features_files(manifest.target, [0] * (len(self.bounds) - 1))[index]
            files[name] = put_rows(self.out / name, values)
        (name, entry), *_ = manifest.relations.items()
        relation = open_edges(read, name, entry, nodes.count)
        degrees, neighbours, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
        for _, some, found, of_them in inside(relation, rows, nodes.count, lambda ends: _places(every, ends)):
            degrees.append(some)
            neighbours.append(found)
            weights += [] if of_them is None else [of_them]
        parts = {
            "offsets": np.concatenate([[0], np.cumsum(np.concatenate(degrees))]),
            "neighbours": np.concatenate(neighbours),
        }
        if entry.weighted:
            parts["weights"] = np.concatenate(weights)
        for part, values in parts.items():
            place = f"{block_folder(name, index)}/{part}.npy"
            files[place] = put_rows(self.out / place, values)
        return {"entries": len(parts["neighbours"]), "files": files}


def _places(every: Array, neighbours: Array) -> Array:
    """Where neighbours lie among the rows, ascending; -1 for one that is outside."""
    at = np.searchsorted(every, neighbours)
    found = every[np.minimum(at, len(every) - 1)] == neighbours
    return np.where(found, at, -1).astype(np.int32)


def induced_by_tasks(graph: Graph, rows: Array, folder: Place, blocks: int, run: Run) -> Graph:
    """As `gamlp.graph.induced`, in `blocks` tasks that `run` runs; labels, roles and ids are copied in parts here."""
    rows = check_rows(graph, rows)
    about = source_of(graph, rows)
    if (folder / "graph.json").exists():
        found = open_graph(folder)
        if found.source != about:
            raise GamlpError(f"holds another graph ('{found.name}')", file=folder, hint="remove it or choose another")
        return found
    assert graph.folder is not None
    count = max(1, min(blocks, len(rows)))
    bounds = tuple(len(rows) * at // count for at in range(count + 1))
    with building(folder) as made:
        listed = made.staging / f"rows-{crc32(np.ascontiguousarray(rows)):08x}.npy"  # workers keep copies by name
        put_rows(listed, rows)
        work = InducedBlocks(Place.of(graph.folder).resolved(), listed, bounds, made.graph)
        results = run(work.write, range(count), "training graph")
        files = {name: facts for result in results for name, facts in result["files"].items()}
        nodes, relation = graph.nodes, graph.relation
        strings = _are_strings(nodes.ids.values)
        entry = NodesEntry(count=len(rows), ids="strings" if strings else "integers")
        entry.id_shards = id_shards(len(rows)) if strings else None
        if nodes.features is not None:
            features = nodes.features
            columns = None if features.columns is None else list(features.columns)
            entry.features = FeaturesEntry(
                width=features.width, dtype=features.dtype, shards=list(bounds[1:]), columns=columns
            )
        if nodes.labels is not None:
            entry.labels = LabelsEntry(
                multi_label=nodes.labels.multi_label,
                classes=list(nodes.labels.classes),
                class_type=nodes.labels.class_type,
            )
            name = f"{nodes_folder(graph.target)}/labels.npy"
            files[name] = put_rows(made.graph / name, _Picked(nodes.labels.values, rows))
        if nodes.split is not None:
            entry.split = True
            name = f"{nodes_folder(graph.target)}/split.npy"
            files[name] = put_rows(made.graph / name, _Picked(nodes.split.roles, rows))
        files |= _put_ids(graph, rows, made.graph)
        edges = [
            BlockEntry(start=begin, stop=end, entries=result["entries"])
            for begin, end, result in zip(bounds, bounds[1:], results)
        ]
        manifest = GraphManifest(
            name=f"{graph.name}-induced",
            target=graph.target,
            nodes={graph.target: entry},
            relations={
                relation.name: RelationEntry(
                    source=relation.source,
                    target=relation.target,
                    directed=relation.directed,
                    weighted=relation.weighted,
                    blocks=edges,
                )
            },
            source=about,
            files={name: FileEntry(bytes=size, crc32=crc) for name, (size, crc) in files.items()},
        )
        made.manifest = manifest.to_json()
    return open_graph(folder)


class _Picked:
    """Rows of an array that are picked when they are written, some at a time."""

    def __init__(self, values: Array, rows: Array) -> None:
        self.values, self.rows = values, rows
        self.shape, self.dtype, self.size = (len(rows), *values.shape[1:]), values.dtype, len(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> Array:
        return np.ascontiguousarray(self.values[self.rows[part]])


def _are_strings(ids: Any) -> bool:
    return ids is not None and not isinstance(ids, np.ndarray)


def _put_ids(graph: Graph, rows: Array, out: Place) -> FileFacts:
    """Ids of the rows; where row numbers were the ids, they stay those of the source."""
    ids, folder = graph.nodes.ids, nodes_folder(graph.target)
    if not _are_strings(ids.values):
        values = rows if ids.values is None else _Picked(ids.values, rows)
        return {f"{folder}/ids.npy": put_rows(out / folder / "ids.npy", values)}
    schema, files, shards = pa.schema([("id", pa.large_string())]), FileFacts(), id_shards(len(rows))
    for name, (first, last) in zip(id_files(graph.target, shards), shard_bounds(len(rows), shards)):
        with (out / name).writing() as stream, pa.ipc.new_file(pa.PythonFile(stream, "w"), schema) as writer:
            for begin in range(first, last, _CHUNK):
                some = ids.take(rows[begin : min(begin + _CHUNK, last)]).cast(pa.large_string())
                writer.write_batch(pa.record_batch([some], schema=schema))
        files[name] = stream.size_and_checksum()
    return files
