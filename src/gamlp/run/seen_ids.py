"""Which nodes trained or chose a model, by hashes of their original ids: scores on another graph leave them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, TargetIds, fingerprint, hash_key, id_hashes
from gamlp.io import (
    Place,
    Ranges,
    State,
    TakeTally,
    map_array,
    npy_header,
    row_ranges,
    save_array,
    temporary_folder,
)
from gamlp.propagation import HopStore
from gamlp.run.prediction_table import asked_among

_CHUNK = 1 << 20  # ids hashed at a time, and hashes that are merged
_IDS, _ROWS = "seen ids", "seen rows of"  # what hashes are for: those of ids and of row numbers never meet


def has_ids(graph: Graph) -> bool:
    """Whether nodes have ids that mean the same in another graph; numbers of rows do only where a table named them."""
    return graph.nodes.ids.values is not None or graph.source.get("made_by") == "ingest"


@dataclass(frozen=True)
class SeenKey:
    """What hashes of a graph's nodes are made with: for ids, or for row numbers in a graph of these very edges."""

    key: tuple[int, int]

    @classmethod
    def of(cls, graph: Graph) -> SeenKey:
        return cls(hash_key(0, _IDS if has_ids(graph) else f"{_ROWS} {fingerprint.structure(graph)}"))

    def hashes(self, ids: Ids | TargetIds, rows: Array) -> Array:
        """uint64 of every row."""
        parts = (id_hashes(ids.take(rows[at : at + _CHUNK]), self.key) for at in range(0, len(rows), _CHUNK))
        return np.concatenate([np.zeros(0, np.uint64), *parts])


def seen_hashes(graph: Graph, rows: Array) -> Array:
    """uint64 of every row: of its id, or, where nodes have none, of its number in a graph of these very edges."""
    return SeenKey.of(graph).hashes(graph.nodes.ids, rows)


@dataclass(frozen=True)
class SeenWork:
    """Hashes of the labelled rows of some ranges that have these roles in a store, whose graph's ids these are."""

    store: HopStore
    ids: TargetIds
    key: SeenKey
    roles: tuple[str, ...]

    def __call__(self, ranges: Ranges) -> State:
        found = [np.zeros(0, np.uint64)]
        for begin, end in ranges:
            some = slice(begin, end)
            chosen = asked_among(self.store, ("labelled",), some) & asked_among(self.store, self.roles, some)
            found.append(np.unique(self.key.hashes(self.ids, begin + np.flatnonzero(chosen))))
        return {"hashes": np.unique(np.concatenate(found))}


def seen_of(store: HopStore, graph: Graph, roles: tuple[str, ...], take: TakeTally) -> Iterator[Array]:
    """Hashes of the labelled rows that have these roles, part by part, as tasks find them."""
    if not store.labelled or not store.has_split:
        return
    work = SeenWork(store, TargetIds(graph), SeenKey.of(graph), roles)
    for state in take(work, row_ranges(store.manifest.nodes, _CHUNK), "ids of training rows"):
        yield state["hashes"]


def write_seen(path: Path | Place, hashes: Iterable[Array]) -> None:
    """Sorted, 8 bytes an id, whole or not at all; parts wait in files, and are merged some hashes at a time."""
    with temporary_folder() as folder:
        parts = []
        for number, part in enumerate(hashes):
            save_array(folder / f"{number}.npy", np.sort(part))
            parts.append(map_array(folder / f"{number}.npy"))
        pieces = 1 + sum(len(part) for part in parts) // _CHUNK
        firsts = [number * (1 << 64) // pieces for number in range(pieces)]
        cuts = [[*np.searchsorted(part, np.array(firsts, np.uint64)).tolist(), len(part)] for part in parts]

        def merged() -> Iterator[Array]:
            for piece in range(pieces):
                some = [part[cut[piece] : cut[piece + 1]] for part, cut in zip(parts, cuts)]
                yield np.unique(np.concatenate([np.zeros(0, np.uint64), *some]))

        count = sum(len(piece) for piece in merged())
        with Place.of(path).writing() as stream:
            stream.write(npy_header((count,), np.uint64))
            for piece in merged():
                stream.write(piece.data)


def read_seen(path: Path | Place) -> Array | None:
    """What `write_seen` wrote; None: the run did not note it."""
    place = Place.of(path)
    if not place.exists():
        return None
    with place.as_file() as file:  # a copy is anew each time: processes live on, and a run may be made again
        found = map_array(file)
    if found.ndim != 1 or found.dtype != np.uint64 or not bool(np.all(found[1:] > found[:-1])):
        raise GamlpError("is no sorted list of hashed ids", file=path, hint="remove it: it is made anew from the graph")
    return found


def among(seen: Array, hashes: Array) -> Array:
    """Mask of the hashes that are among those seen."""
    if not len(seen):
        return np.zeros(len(hashes), bool)
    return np.asarray(seen[np.minimum(np.searchsorted(seen, hashes), len(seen) - 1)] == hashes)
