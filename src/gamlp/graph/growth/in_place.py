"""A graph folder that grows in place: new files beside the old ones, then one switch of the manifest.

Who reads meanwhile sees the old graph or the new one: no file that a manifest names is ever written to, and those of
the graph before stay until the next growth. What a kill leaves is named by no manifest, and goes with the next attempt.
Features are appended; ids, labels and roles are written anew; of edges, blocks with a row that gained one are.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import write_ids
from gamlp.graph.graph import Graph, Nodes
from gamlp.graph.growth.growth import GrownGraph
from gamlp.graph.growth.lists import GrownRelation
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
    read_manifest,
)
from gamlp.graph.opening import open_graph
from gamlp.graph.text_ids import id_files, id_shards, shard_bounds
from gamlp.graph.union import joined_blocks
from gamlp.io import Place, checksum, digest, disk_full_as_error, save_array, sole_writer, work_folder, write_text

_GROWN = "grown-"  # folders of files that came later: grown-1, grown-2 …


R = TypeVar("R")


def grow_folder(
    folder: Path,
    tables: Mapping[str, Sequence[Path]],
    read: Callable[[Graph, Path], tuple[GrownGraph, R]],
    how: Any = None,
) -> tuple[Graph, R | None]:
    """The grown graph, and what `read(graph, scratch folder)` told beside what is added.

    The files of `tables`, and `how` they are read where that tells tables of one file apart, tell an addition from
    others: one that was made before is not made again (None).
    """
    if Place.of(folder).local is None:
        raise GamlpError("is behind a URL, and graphs grow on this machine", file=str(folder), hint="copy it here")
    read_manifest(Place.of(folder))  # before anything is made where there is no graph
    with sole_writer(Place.of(folder), refused="another process is writing this graph"):
        before, key = read_manifest(Place.of(folder)), _key(tables, how)
        base = open_graph(folder)
        if any(one.get("key") == key for one in before.source.get("added", [])):
            return base, None
        with work_folder(folder / ".adding") as scratch, disk_full_as_error(folder):
            growth, report = read(base, scratch)
            after = _Folder(folder, before, _next(before)).grown(growth)
            names = {name: [path.name for path in paths] for name, paths in tables.items()}
            counts = {name: nodes.count for name, nodes in growth.nodes.items()}
            after.source = {**before.source, "added": [*before.source.get("added", []), _added(names, counts, key)]}
            GraphManifest.model_validate(after.model_dump())  # what does not fit together never becomes the graph
            write_text(folder / MANIFEST, after.to_json().decode())
        remove_unnamed(folder, before, after)
    return open_graph(folder), report


def _added(names: dict[str, list[str]], counts: dict[str, int], key: str) -> dict[str, Any]:
    return {"files": names, "nodes": counts, "key": key}


def _key(tables: Mapping[str, Sequence[Path]], how: Any) -> str:
    files = [[name, [[path.name, checksum(path)] for path in paths]] for name, paths in sorted(tables.items())]
    return digest(files if how is None else [files, how])


def _next(manifest: GraphManifest) -> str:
    used = [entry.at.partition("/")[0] for entry in manifest.files.values() if entry.at]
    numbers = [int(name.removeprefix(_GROWN)) for name in used if name.removeprefix(_GROWN).isdigit()]
    return f"{_GROWN}{max(numbers, default=0) + 1}"


@dataclass
class _Folder:
    """Files of a growth on their way into a graph folder."""

    folder: Path
    before: GraphManifest
    name: str  # of the folder that new files lie in
    files: dict[str, FileEntry] = field(default_factory=dict)

    def grown(self, growth: GrownGraph) -> GraphManifest:
        shutil.rmtree(self.folder / self.name, ignore_errors=True)  # of an attempt that was killed
        self.files = dict(self.before.files)
        after = self.before.model_copy(deep=True)
        for node_type, new in growth.nodes.items():
            after.nodes[node_type] = self._nodes(growth, node_type, new)
        for name, relation in growth.relations.items():
            after.relations[name] = self._relation(name, relation)
        after.files = self.files
        return after

    def _nodes(self, growth: GrownGraph, node_type: str, new: Nodes) -> NodesEntry:
        nodes, old = growth.graph.node_types[node_type], self.before.nodes[node_type]
        place = nodes_folder(node_type)
        entry = NodesEntry(count=nodes.count)
        gone = [f"{place}/{part}" for part in ("ids.npy", "labels.npy", "split.npy")]
        for name in (*gone, *id_files(node_type, old.id_shards)):
            self.files.pop(name, None)
        if nodes.ids.values is not None:
            integers = isinstance(nodes.ids.values, np.ndarray)
            entry.ids = "integers" if integers else "strings"
            values = nodes.ids.values
            entry.id_shards = None if integers else id_shards(nodes.count)
            names = [f"{place}/ids.npy"] if integers else id_files(node_type, entry.id_shards)
            for name, (begin, end) in zip(names, shard_bounds(nodes.count, entry.id_shards)):
                self._write(name, partial(write_ids, values=values[begin:end]))
        if nodes.labels is not None:
            labels = nodes.labels
            entry.labels = LabelsEntry(
                multi_label=labels.multi_label, classes=list(labels.classes), class_type=labels.class_type
            )
            self._save(f"{place}/labels.npy", labels.values)
        if nodes.split is not None:
            entry.split = True
            self._save(f"{place}/split.npy", nodes.split.roles)
        if old.features is not None and new.features is not None:
            entry.features = self._features(node_type, old, new)
        if old.raw is not None and new.raw is not None:
            entry.raw = self._raw(node_type, old.raw, new)
        return entry

    def _features(self, node_type: str, old: NodesEntry, new: Nodes) -> FeaturesEntry:
        """Rows are appended as a file of their own, with the files before that are no larger: they stay few."""
        assert old.features is not None and new.features is not None
        names = features_files(node_type, old.features.shards)
        stops = [old.count] if old.features.shards is None else old.features.shards
        kept = len(stops)
        while kept and stops[kept - 1] - (stops[kept - 2] if kept > 1 else 0) <= new.count:
            kept -= 1
        values: list[Array] = [np.load(self._path(name), mmap_mode="r", allow_pickle=False) for name in names[kept:]]
        entries = [self.files.pop(name) for name in names]
        shards = [*stops[:kept], old.count + new.count]
        made = features_files(node_type, shards if kept else None)
        for name, source, entry in zip(made, names, entries[:kept]):
            self.files[name] = entry.model_copy(update={"at": entry.at or source})
        self._save(made[-1], np.concatenate([*values, np.asarray(new.features.values)]))
        return old.features.model_copy(update={"shards": shards if kept else None})

    def _raw(self, node_type: str, old: RawEntry, new: Nodes) -> RawEntry:
        assert new.raw is not None
        at = old.blocks[-1] if old.blocks else 0
        for index, place in enumerate(new.raw.places):
            new.raw.verify(index)
            self._write(raw_file(node_type, len(old.blocks) + index), partial(shutil.copy, place.local_copy()))
        return RawEntry(blocks=[*old.blocks, *(at + stop for stop in new.raw.stops)])

    def _relation(self, name: str, grown: GrownRelation) -> RelationEntry:
        """Blocks that did not change keep their files; new rows go with the last block where that is written anew."""
        old, blocks = self.before.relations[name], list(grown.relation.blocks)
        same = [not grown.touches(block) for block in grown.base.blocks]
        if len(blocks) > len(same) and same and not same[-1]:
            last = blocks.pop()
            blocks[-1] = joined_blocks([blocks[-1], last])
        entries = []
        for index, block in enumerate(blocks):
            if not (index < len(same) and same[index]):
                place = block_folder(name, index)
                self._save(f"{place}/offsets.npy", np.asarray(block.offsets, np.int64))
                self._save(f"{place}/neighbours.npy", np.asarray(block.neighbours, np.int32))
                if old.weighted:
                    assert block.weights is not None
                    if not np.isfinite(block.weights).all():
                        raise GamlpError("the weights of an edge add up to more than float32 holds")
                    self._save(f"{place}/weights.npy", np.asarray(block.weights, np.float32))
            entries.append(BlockEntry(start=block.start, stop=block.stop, entries=block.entries))
        return old.model_copy(update={"blocks": entries})

    def _path(self, name: str) -> Path:
        return self.folder / (self.before.files[name].at or name)

    def _save(self, name: str, values: Array) -> None:
        self._write(name, lambda path: save_array(path, values))

    def _write(self, name: str, write: Callable[[Path], Any]) -> None:
        at = f"{self.name}/{name}"
        path = self.folder / at
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        self.files[name] = FileEntry(bytes=path.stat().st_size, crc32=checksum(path, fresh=True), at=at)


def remove_unnamed(folder: Path, *manifests: GraphManifest) -> None:
    """Files of graphs that nobody can still be reading: neither of these manifests names them."""
    named = {folder / (entry.at or name) for one in manifests for name, entry in one.files.items()}
    for top in [folder / "nodes", folder / "relations", *folder.glob(f"{_GROWN}*")]:
        for path in sorted(top.rglob("*"), reverse=True):
            if path.is_file() and path not in named:
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
