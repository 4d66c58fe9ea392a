"""How far answers were from those of a graph that had grown: what a refresh moves, measured.

Newcomers were answered with their neighbours as these were before, and older nodes as if no newcomer had come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io import sealed, write_json
from gamlp.run import LIKELIEST
from gamlp.serve.questions import Answered, Id, Question
from gamlp.serve.served import ServedRun

MOST_ROWS = 10_000  # older nodes that are compared
FILE = "drift.json"
_AT_A_TIME = 1_000
_SEED = 0


@dataclass(frozen=True)
class Moved:
    """Of so many `rows`: differences of probabilities, the share of labels that are others, and of hops.

    hops: the largest |after - before| / max(|after|, |before|) of a row in one signal, all hops together.
    """

    rows: int
    mean: float = 0.0
    largest: float = 0.0
    labels: float = 0.0
    hops: float = 0.0


@dataclass(frozen=True)
class Drift:
    """newcomers: of the type that is classified. older: nodes of the graph before whose hops changed.

    drawn: older nodes that were looked at, of `reached`, those that newcomers may have changed.
    """

    newcomers: Moved
    older: Moved
    drawn: int
    reached: int

    def content(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, sealed({"format": "gamlp-drift", "version": 1, **self.content()}))


def measure(before: ServedRun, after: ServedRun, newcomers: Sequence[Id], reached: Array | None) -> Drift:
    """Compare two generations of a run.

    before: with the newcomers that it kept; after: with these as nodes of its graph.
    newcomers: ids of the type that is classified.
    reached: older rows that may have changed; None: any.
    """
    older = before.graph.nodes.count
    reached = np.arange(older) if reached is None else reached
    drawn = np.sort(np.random.default_rng(_SEED).permutation(reached)[:MOST_ROWS])
    changed = _differing(before, after, drawn)
    names = after.nodes.ids.names(after.graph.target, changed)
    new = after.nodes.ids.rows(after.graph.target, newcomers)
    places = before.nodes.ids.rows(before.graph.target, newcomers) - older
    return Drift(
        _moved(before, after, newcomers, _KeptHops(before, places), _StoredHops(after, new)),
        _moved(before, after, names, _StoredHops(before, changed), _StoredHops(after, changed)),
        len(drawn),
        len(reached),
    )


@dataclass(frozen=True)
class _StoredHops:
    """Hops of rows of a graph."""

    served: ServedRun
    rows: Array

    def read(self, signal: int, part: slice) -> Array:
        one = self.served.nodes.signals[signal]
        return np.asarray(one.stored.gather(self.rows[part], one.hops), np.float32)


@dataclass(frozen=True)
class _KeptHops:
    """Hops of newcomers that were kept, by their places among them."""

    served: ServedRun
    rows: Array

    def read(self, signal: int, part: slice) -> Array:
        one = self.served.nodes.signals[signal]
        return one.kept[self.served.graph.target].hops[self.rows[part]]


def _parts(count: int) -> list[slice]:
    return [slice(begin, begin + _AT_A_TIME) for begin in range(0, count, _AT_A_TIME)]


def _differing(before: ServedRun, after: ServedRun, rows: Array) -> Array:
    """Rows whose hops are not the same, to the last bit."""
    one, other = _StoredHops(before, rows), _StoredHops(after, rows)
    found = np.zeros(len(rows), bool)
    for signal in range(len(before.nodes.signals)):
        for part in _parts(len(rows)):
            found[part] |= (one.read(signal, part) != other.read(signal, part)).any((1, 2))
    return np.asarray(rows[found])


def _moved(
    before: ServedRun, after: ServedRun, names: Sequence[Id], old: _KeptHops | _StoredHops, new: _StoredHops
) -> Moved:
    if not len(names):
        return Moved(0)
    was, now = _probabilities(before, names), _probabilities(after, names)
    chosen = [LIKELIEST.chosen(after.bundle, one).reshape(len(names), -1) for one in (was, now)]
    differences = np.abs(now - was)
    hops = 0.0
    for signal in range(len(after.nodes.signals)):
        for part in _parts(len(names)):
            hops = max(hops, _relative(old.read(signal, part), new.read(signal, part)))
    return Moved(
        len(names),
        float(differences.mean()),
        float(differences.max()),
        float((chosen[0] != chosen[1]).any(1).mean()),
        hops,
    )


def _probabilities(served: ServedRun, names: Sequence[Id]) -> Array:
    parts = []
    for part in _parts(len(names)):
        [found] = served.answer([Question(ids=tuple(names[part]))])
        assert isinstance(found, Answered), found
        parts.append(found.probabilities)
    return np.concatenate(parts)


def _relative(old: Array, new: Array) -> float:
    was, now = (values.reshape(len(values), -1).astype(np.float64) for values in (old, new))
    sizes = np.maximum(np.linalg.norm(was, axis=1), np.linalg.norm(now, axis=1))
    moved = np.linalg.norm(now - was, axis=1)
    return float(np.divide(moved, sizes, out=np.zeros_like(moved), where=sizes > 0).max(initial=0.0))
