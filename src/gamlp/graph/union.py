"""Relations of several types as one CSR: what a view's hops run on. Made by tasks, a range of rows each.

Each relation is read once for all views. Tasks run on shared storage, or one after the other in this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.entries import RelationEntries, ends_of, entries_of, turned_entries_of
from gamlp.graph.even_bounds import EntryCells, cell_sizes, even_bounds
from gamlp.graph.graph import Block, Graph, Ids, Nodes
from gamlp.graph.manifest import (
    MANIFEST,
    BlockEntry,
    FileEntry,
    GraphManifest,
    NodesEntry,
    RelationEntry,
    block_folder,
    read_manifest,
)
from gamlp.graph.opening import FolderFiles, open_edges
from gamlp.graph.views import View
from gamlp.io import Place, digest, put_rows, run_here
from gamlp.progress import Progress, silent

Run = Callable[[Callable[[int], dict[str, Any]], Sequence[int], str], list[dict[str, Any]]]
_MEMORY = 1 << 30  # of a task, where nothing is said
_ENTRY_BYTES = 128  # of one entry in a task: as it was read, and while one view's block is made of it
_PARTS = "parts"  # notes of the ranges that are done


def folder_name(view: View) -> str:
    """Of a view's graph folder: its name may be too long for one."""
    return digest([*view.relation_pairs, *([view.direction] if view.direction else [])])


Read = dict[tuple[str, bool], RelationEntries]  # by relation, and whether its edges are turned


def union_block(graph: Graph, view: View, node_type: str, begin: int, end: int, read: Read) -> Block:
    """Rows begin..end of a type in a view: duplicates of several relations become one edge, weights add up."""
    at = view.start(node_type)
    rows, neighbours, weights = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for name in view.relations:
        source, target = ends_of(graph.relations[name], view.turned)
        if target != node_type:
            continue
        found = read[name, view.turned]
        rows.append(found.rows + np.int32(at))
        neighbours.append(found.neighbours + np.int32(view.start(source)))
        weights.append(np.ones(len(found.rows), np.float32) if found.weights is None else found.weights)
    values = np.concatenate(weights) if view.weighted(graph) else None
    return Block.from_edges(
        np.concatenate(rows), np.concatenate(neighbours), values, start=at + begin, stop=at + end, symmetric=False
    )


@dataclass(frozen=True)
class UnionBlocks:
    """Rows of all types, one type after the other, in ranges `bounds[i]..bounds[i + 1]`.

    Every view has its types in this same order: the rows of a range that are a view's follow each other in it too.
    """

    source: Place | Graph  # where tasks find the graph, or itself where they are done in this process
    types: tuple[str, ...]
    starts: tuple[int, ...]
    bounds: tuple[int, ...]
    views: tuple[View, ...]
    folders: tuple[Place, ...]  # of each view
    notes: Place

    def write(self, index: int) -> dict[str, Any]:
        """One task: a block of every view that has rows here."""
        pieces = self.pieces(index)
        graph = self.source if isinstance(self.source, Graph) else _edges_alone(self.source, self.views)
        wanted = dict.fromkeys((name, view.turned) for view in self.views for name in view.relations)
        read = {
            (name, turned): (turned_entries_of if turned else entries_of)(graph, graph.relations[name], begin, end)
            for node_type, begin, end in pieces
            for name, turned in wanted
            if ends_of(graph.relations[name], turned)[1] == node_type
        }
        made: dict[str, Any] = {}
        for view, folder in zip(self.views, self.folders):
            own = [piece for piece in pieces if piece[0] in view.types]
            if own:
                block = joined_blocks([union_block(graph, view, *piece, read) for piece in own])
                made[view.name] = _put(block, folder, self._file(view, index))
        self.note(index).put(json.dumps(made).encode())
        return made

    def note(self, index: int) -> Place:
        return self.notes / f"{index:05d}.json"

    def is_done(self, index: int) -> bool:
        """Whether a range was written, and none of its files was cut since."""
        if not self.note(index).exists():
            return False
        made, places = (
            json.loads(self.note(index).read()),
            {view.name: at for view, at in zip(self.views, self.folders)},
        )
        return all(_have_sizes(places[name], one["files"]) for name, one in made.items())

    def pieces(self, index: int) -> list[tuple[str, int, int]]:
        """(type, begin, end) of the rows of a range, counted within the type."""
        low, high = self.bounds[index : index + 2]
        found = []
        for node_type, start, stop in zip(self.types, self.starts, self.starts[1:]):
            begin, end = max(low, start), min(high, stop)
            if begin < end:
                found.append((node_type, begin - start, end - start))
        return found

    def _file(self, view: View, index: int) -> int:
        """Which file of a view this range makes: some ranges have no row of it."""
        return sum(any(node_type in view.types for node_type, *_ in self.pieces(other)) for other in range(index))


def union_graphs(
    graph: Graph, views: Sequence[View], folder: Path, memory: int | None = None, progress: Progress = silent
) -> dict[str, Graph]:
    """Graphs of one type and one relation, by the view's name, in `folder`, made here; those that are there are opened.

    One task at a time, in as many as the memory makes necessary; where one fails, nothing is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = Place.of(folder)
    run = partial(run_here, progress=progress)
    try:
        made = union_by_tasks(graph, graph, views, place, 1, memory or _MEMORY, run)
    except BaseException:
        _drop_others(place, set())
        raise
    return {name: Graph.open(at) for name, at in made.items()}


def union_by_tasks(
    graph: Graph, source: Place | Graph, views: Sequence[View], folder: Place, parts: int, memory: int, run: Run
) -> dict[str, Place]:
    """Graph folders of one type and one relation, by the view's name, inside `folder`; what is there is left.

    `source` is where tasks find the graph, or the graph itself. `parts` tasks, or as many as `memory` bytes in each
    make necessary.
    """
    found = {view.name: folder / folder_name(view) for view in views}
    missing = tuple(view for view in views if not _is_whole(found[view.name]))
    if not missing:
        return found
    types = tuple(node_type for node_type in _ordered(graph) if any(node_type in view.types for view in missing))
    starts = tuple(int(at) for at in np.cumsum([0, *(graph.node_types[node_type].count for node_type in types)]))
    wanted = {(name, view.turned) for view in missing for name in view.relations}
    entries = sum(graph.relations[name].entries for name, _ in wanted)
    parts = max(1, parts, -(-entries * _ENTRY_BYTES // memory))
    cells = None
    if isinstance(source, Place) and source.local is None:
        sizes = cell_sizes(graph, wanted, parts)
        counting = EntryCells(partial(_edges_alone, source, missing), tuple(sizes), tuple(sizes.values()))
        counted = run(counting.count, range(len(sizes)), "entries of relations")
        cells = {key: found["cells"] for key, found in zip(sizes, counted)}
    bounds = even_bounds(graph, types, wanted, parts, cells)
    key = digest([list(bounds), [folder_name(view) for view in missing]])
    folders = tuple(_beside(found[view.name], key) for view in missing)
    work = UnionBlocks(source, types, starts, bounds, missing, folders, folder / f"{_PARTS}-{key}")
    _drop_others(folder, {work.notes.name, *(place.name for place in folders)})
    ranges = range(len(bounds) - 1)
    run(work.write, [index for index in ranges if not work.is_done(index)], "edges of views")
    results = [json.loads(work.note(index).read()) for index in ranges]
    for view, place in zip(missing, folders):
        made = [result[view.name] for result in results if view.name in result]
        (place / MANIFEST).put(_manifest(graph, view, made).to_json())
        if place.local is not None:
            place.local.rename(found[view.name].local or place.local)
    work.notes.remove()
    return found


def _is_whole(place: Place) -> bool:
    """Whether a view's graph is there; one of which a file was cut goes, and is made anew."""
    if not (place / MANIFEST).exists():
        return False
    files = {name: [entry.bytes] for name, entry in read_manifest(place).files.items()}
    if not _have_sizes(place, files):
        place.remove()
        return False
    return True


def _have_sizes(folder: Place, files: dict[str, list[int]]) -> bool:
    """On an object store files are whole or not there: nothing is asked."""
    return folder.local is None or all((folder / name).size() == facts[0] for name, facts in files.items())


def _drop_others(folder: Place, ours: set[str]) -> None:
    """What a run with other ranges left half done."""
    for name in folder.names():
        if name.startswith((".", _PARTS)) and name not in ours:
            (folder / name).remove()


def _beside(place: Place, key: str) -> Place:
    """On a file system a folder appears whole; on an object store its manifest is written last."""
    return place if place.local is None else Place.of(place.local.with_name(f".{place.name}-{key}"))


def _ordered(graph: Graph) -> Iterator[str]:
    """The target first, then as the graph has them: as in every view."""
    yield graph.target
    yield from (node_type for node_type in graph.node_types if node_type != graph.target)


def _edges_alone(source: Place, views: Sequence[View]) -> Graph:
    """The graph as a task needs it: counts of nodes, and relations of the views; nothing else is opened."""
    manifest = read_manifest(source)
    names = dict.fromkeys(name for view in views for name in view.relations)
    files = FolderFiles(source, manifest.files)
    relations = {name: manifest.relations[name] for name in names}
    return Graph(
        manifest.name,
        {node_type: Nodes(node_type, entry.count, Ids(entry.count)) for node_type, entry in manifest.nodes.items()},
        {name: open_edges(files, name, one, manifest.nodes[one.source].count) for name, one in relations.items()},
        manifest.target,
        source.local or source,
    )


def joined_blocks(blocks: Sequence[Block]) -> Block:
    """Blocks of rows that follow each other, as one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    offsets: list[Array] = [first.offsets]
    for block in blocks[1:]:
        offsets.append(block.offsets[1:] + offsets[-1][-1])
    weights = [block.weights for block in blocks if block.weights is not None]
    neighbours = np.concatenate([block.neighbours for block in blocks])
    values = np.concatenate(weights) if weights else None
    return Block(first.start, blocks[-1].stop, np.concatenate(offsets), neighbours, values)


def _put(block: Block, folder: Place, number: int) -> dict[str, Any]:
    parts = {"offsets": block.offsets.astype(np.int64, copy=False), "neighbours": block.neighbours}
    if block.weights is not None:
        parts["weights"] = block.weights
    names = {part: f"{block_folder('edge', number)}/{part}.npy" for part in parts}
    files = {name: put_rows(folder / name, parts[part]) for part, name in names.items()}
    return {"start": block.start, "stop": block.stop, "entries": len(block.neighbours), "files": files}


def _manifest(graph: Graph, view: View, made: Sequence[dict[str, Any]]) -> GraphManifest:
    blocks = [BlockEntry(start=each["start"], stop=each["stop"], entries=each["entries"]) for each in made]
    edge = RelationEntry(
        source="node",
        target="node",
        directed=view.directed(graph),
        weighted=view.weighted(graph),
        blocks=blocks,
    )
    files = {name: FileEntry(bytes=size, crc32=crc) for each in made for name, (size, crc) in each["files"].items()}
    return GraphManifest(
        name=view.name,
        target="node",
        nodes={"node": NodesEntry(count=view.count)},
        relations={"edge": edge},
        source={},
        files=files,
    )
