"""Which nodes trained or chose a model, by hashes of their original ids: scores on another graph leave them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, Labels, Split, TargetIds, fingerprint, hash_key, id_hashes
from gamlp.io import Place, map_array, put_rows

_CHUNK = 1 << 20  # ids hashed at a time
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


def rows_with_role(labels: Labels | None, split: Split | None, *roles: str) -> Array:
    """Labelled rows of these parts of a split."""
    if labels is None or split is None:
        return np.zeros(0, np.int64)
    rows = split.rows(*roles)
    return np.asarray(rows[labels.known_at(rows)])


def write_seen(path: Path | Place, hashes: Sequence[Array]) -> None:
    """Sorted, 8 bytes an id, whole or not at all."""
    put_rows(Place.of(path), np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes])))


def read_seen(path: Path | Place) -> Array | None:
    """What `write_seen` wrote; None: the run did not note it."""
    place = Place.of(path)
    if not place.exists():
        return None
    found = map_array(place.local_copy())
    if found.ndim != 1 or found.dtype != np.uint64 or not bool(np.all(found[1:] > found[:-1])):
        raise GamlpError("is no sorted list of hashed ids", file=path, hint="remove it: it is made anew from the graph")
    return found


def among(seen: Array, hashes: Array) -> Array:
    """Mask of the hashes that are among those seen."""
    if not len(seen):
        return np.zeros(len(hashes), bool)
    return np.asarray(seen[np.minimum(np.searchsorted(seen, hashes), len(seen) - 1)] == hashes)
