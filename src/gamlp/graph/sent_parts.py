"""Parts of a graph as tasks elsewhere read them: relations and ids of its target rows, never of the whole at once.

Sent to another process, each is the graph's folder, of which that process opens the part alone; of a graph in memory
it is the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.graph.graph import Graph, Ids, Relation
from gamlp.graph.manifest import nodes_folder, read_manifest
from gamlp.graph.opening import FolderFiles, open_edges, open_id_shards
from gamlp.io import Place, open_rows


class DegreesByRow(Protocol):
    """Row numbers → how many neighbours each has; an array of all nodes' degrees is one."""

    def __getitem__(self, rows: Array, /) -> Array: ...


class TargetRelations:
    """Relations that lead to a graph's target rows."""

    def __init__(self, graph: Graph) -> None:
        self.target = graph.target
        self.relations = [one for one in graph.relations.values() if one.target == graph.target and one.blocks]
        self._folder = None if graph.folder is None else Place.of(graph.folder).resolved()

    @property
    def among_targets(self) -> list[Relation]:
        """Those that join target rows with each other."""
        return [one for one in self.relations if one.source == self.target]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._folder is not None:
            del state["relations"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._folder is not None:
            manifest = read_manifest(self._folder)
            files = FolderFiles(self._folder, manifest.files)
            self.relations = [
                open_edges(files, name, entry, manifest.nodes[entry.source].count)
                for name, entry in manifest.relations.items()
                if entry.target == manifest.target and entry.blocks
            ]


@dataclass(frozen=True)
class RowDegrees:
    """Stored neighbours of target rows over all relations, read where they are asked for: `graph.degrees()[rows]`.

    >>> RowDegrees.of(Graph.from_arrays([[0, 1], [1, 2]], np.eye(3)))[np.array([1, 2])].tolist()
    [2, 1]
    """

    edges: TargetRelations

    @classmethod
    def of(cls, graph: Graph) -> RowDegrees:
        return cls(TargetRelations(graph))

    def __getitem__(self, rows: Array, /) -> Array:
        found = np.zeros(len(rows), np.int64)
        for relation in self.edges.relations:
            found += relation_degrees(relation, rows)
        return found


def relation_degrees(relation: Relation, rows: Array) -> Array:
    """Neighbours of some rows in one relation."""
    rows = np.asarray(rows, np.int64)
    found = np.zeros(len(rows), np.int64)
    of_block = np.searchsorted([block.stop for block in relation.blocks], rows, side="right")
    for number in np.unique(of_block).tolist():
        block, chosen = relation.blocks[number], np.flatnonzero(of_block == number)
        at = rows[chosen] - block.start
        found[chosen] = np.asarray(block.offsets[at + 1]) - np.asarray(block.offsets[at])
    return found


class TargetIds:
    """Original ids of a graph's target rows: `graph.nodes.ids.take(rows)`.

    Another process reads the rows that it asks for: of integers ranges, of texts the files that hold them.
    """

    def __init__(self, graph: Graph) -> None:
        self._take: Callable[[Array], pa.Array] | None = graph.nodes.ids.take
        self._folder = None if graph.folder is None else Place.of(graph.folder).resolved()

    def take(self, rows: Array) -> pa.Array:
        """Of some rows, as an Arrow array of int64 or string."""
        if self._take is None:
            assert self._folder is not None
            self._take = _reader(self._folder)
        return self._take(rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **({} if self._folder is None else {"_take": None})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _reader(folder: Place) -> Callable[[Array], pa.Array]:
    manifest = read_manifest(folder)
    files, entry = FolderFiles(folder, manifest.files), manifest.nodes[manifest.target]
    if entry.ids == "strings":
        return open_id_shards(files, manifest.target, entry).take
    if entry.ids == "range":
        return Ids(entry.count).take
    name = f"{nodes_folder(manifest.target)}/ids.npy"
    numbers = open_rows(files.at(name))
    if folder.local is not None:
        files.verify(name)
    return lambda rows: pa.array(np.asarray(numbers[rows]))
