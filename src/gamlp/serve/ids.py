"""Ids of a graph's nodes and of the newcomers that came since → rows, type by type."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.graph.ingest import IdMap
from gamlp.serve.questions import Id, Refusal

_SHOWN = 60  # letters of an id that a sentence shows
_COMPARED = 1_000  # ids that a misspelt one is compared with: each question may have one


class IdBook:
    """Rows of the graph as it has them; newcomers of a type follow, in the order in which they came."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.counts = {name: nodes.count for name, nodes in graph.node_types.items()}  # of the graph itself
        self._maps: dict[str, IdMap] = {}
        self._integers: dict[str, bool] = {}
        self._new: dict[str, dict[Id, int]] = {name: {} for name in graph.node_types}
        for name, nodes in graph.node_types.items():
            values = np.arange(nodes.count) if nodes.ids.values is None else nodes.ids.values
            values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
            self._maps[name], self._integers[name] = IdMap(values), isinstance(values, np.ndarray)

    def plain(self, node_type: str, name: Id) -> Id:
        """An id as the graph has ids: 7 and "7" are one."""
        if not self._integers[node_type]:
            return str(name)
        text = str(name).strip()
        whole = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 20
        return int(text) if whole and str(int(text)) == text else text

    def is_foreign(self, node_type: str, name: Id | None) -> bool:
        """Whether it is a text, and all ids of the graph are integers."""
        return self._integers[node_type] and name is not None and isinstance(self.plain(node_type, name), str)

    def rows(self, node_type: str, names: Sequence[Id]) -> Array:
        """int64 rows; -1 of an id that nobody has."""
        if not len(names):
            return np.zeros(0, np.int64)
        found = self._maps[node_type].rows(_column(names)).astype(np.int64)
        found[found < 0] = -1
        new = self._new[node_type]
        if new and (found < 0).any():
            before = self.counts[node_type]
            for place in np.flatnonzero(found < 0):
                at = new.get(self.plain(node_type, names[int(place)]))
                found[place] = -1 if at is None else before + at
        return found

    def in_graph(self, node_type: str, name: Id) -> bool:
        return bool(self._maps[node_type].rows(_column([self.plain(node_type, name)]))[0] >= 0)

    def add(self, node_type: str, name: Id) -> int:
        """A newcomer's row."""
        new = self._new[node_type]
        new[self.plain(node_type, name)] = at = len(new)
        return self.counts[node_type] + at

    def newcomer(self, node_type: str, name: Id) -> int | None:
        """The number of a newcomer among those of its type."""
        return self._new[node_type].get(self.plain(node_type, name))

    def newcomers(self, node_type: str) -> int:
        return len(self._new[node_type])

    def shorten(self, counts: dict[str, int]) -> list[tuple[str, Id]]:
        """Forget the newest newcomers of each type, down to so many; types and ids of those that went."""
        gone: list[tuple[str, Id]] = []
        for node_type, count in counts.items():
            new = self._new[node_type]
            while len(new) > count:
                gone.append((node_type, new.popitem()[0]))
        return gone

    def names(self, node_type: str, rows: Array) -> list[Id]:
        """Original ids of rows, newcomers among them."""
        before = self.counts[node_type]
        inside = np.asarray(rows) < before
        found: list[Id] = [0] * len(inside)
        known = self.graph.node_types[node_type].ids.take(np.asarray(rows)[inside]).to_pylist()
        for place, name in zip(np.flatnonzero(inside), known):
            found[place] = name
        if not inside.all():
            new = list(self._new[node_type])
            for place in np.flatnonzero(~inside):
                found[place] = new[int(rows[place]) - before]
        return found

    def unknown(self, node_type: str, names: Sequence[Id], what: str = "node") -> Refusal:
        """What is said of ids that nobody has."""
        of = f" of type {node_type}" if len(self.counts) > 1 else ""
        others = f", nor {len(names) - 1:,} more of those asked for" if len(names) > 1 else ""
        problem = f"there is no {what}{of} '{_short(names[0])}'{others}"
        return Refusal(404, problem, hint=self._hint(node_type, str(names[0])))

    def _hint(self, node_type: str, name: str) -> str | None:
        nodes = self.graph.node_types[node_type]
        if not nodes.count:
            return None
        if self._integers[node_type]:
            values = nodes.ids.values
            low, high = (0, nodes.count - 1) if values is None else (values.min(), values.max())
            return f"ids are integers from {low} to {high}"
        known = nodes.ids.take(np.arange(min(nodes.count, _COMPARED))).to_pylist()
        near = difflib.get_close_matches(name[:_SHOWN], known, 1)
        return f"the nearest is '{_short(near[0])}'" if near else f"ids look like '{_short(known[0])}'"


def _column(names: Sequence[Id]) -> pa.Array:
    if all(type(name) is int for name in names):
        try:
            return pa.array(names, pa.int64())
        except (pa.ArrowInvalid, OverflowError):  # beyond int64: nobody has it
            pass
    return pa.array([str(name) for name in names], pa.large_string())


def _short(name: Id) -> str:
    plain = " ".join(str(name).split())
    return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 1]}…"
