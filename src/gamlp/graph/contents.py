"""What arrays of a graph may hold. Wrong numbers end in a sentence, never in a read outside of an array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import ROLES, UNKNOWN

_CHUNK = 1 << 21  # numbers looked at at a time: they stay in the cache
DAMAGED_HINT = "verify the graph with gamlp info, and build it again"


def ascend(offsets: Array, entries: int) -> bool:
    """Whether offsets ascend from 0 to the number of neighbours."""
    if len(offsets) == 0 or int(offsets[0]) != 0 or int(offsets[-1]) != entries:
        return False
    parts = (offsets[begin : begin + _CHUNK + 1] for begin in range(0, len(offsets) - 1, _CHUNK))
    return all(bool((part[1:] >= part[:-1]).all()) for part in parts)


def stray_neighbour(neighbours: Array, count: int) -> int | None:
    """The first neighbour that is not one of `count` nodes."""
    for part in _parts(neighbours):
        if int(part.view(np.uint32).max()) >= count:  # a negative one is huge
            return int(part[(part < 0) | (part >= count)][0])
    return None


def check_offsets_of(offsets: Array, file: object, *, entries: int) -> None:
    if not ascend(offsets, entries):
        raise GamlpError("is damaged: its offsets do not ascend", file=file, hint=DAMAGED_HINT)


def check_neighbours_of(neighbours: Array, file: object, *, count: int) -> None:
    if (wrong := stray_neighbour(neighbours, count)) is not None:
        raise GamlpError(f"is damaged: neighbour {wrong} is not one of {count:,} nodes", file=file, hint=DAMAGED_HINT)


def check_label_numbers(values: Array, file: object, *, classes: int) -> None:
    """-1 or a class; many labels a node: -1, 0 or 1."""
    most = 1 if values.ndim == 2 else classes - 1
    for part in _parts(values):
        if int(part.min()) < UNKNOWN or int(part.max()) > most:
            wrong = part[(part < UNKNOWN) | (part > most)].reshape(-1)[0]
            raise GamlpError(f"is damaged: label {wrong} of {classes} classes", file=file, hint=DAMAGED_HINT)


def check_roles(roles: Array, file: object) -> None:
    for part in _parts(roles):
        if int(part.min()) < 0 or int(part.max()) >= len(ROLES):
            wrong = part[(part < 0) | (part >= len(ROLES))][0]
            raise GamlpError(f"is damaged: {wrong} is no part of a split", file=file, hint=DAMAGED_HINT)


def _parts(values: Array) -> Iterator[Array]:
    step = max(1, _CHUNK // max(1, values[:1].size))
    return (values[begin : begin + step] for begin in range(0, len(values) if values.size else 0, step))
