"""Features of nodes that have none, from edges alone: log degrees, and random projections much as FastRP makes them.

R[n, d] are sparse random signs, N_k(P) = (D^(-1) A)^k P means over k steps, |·| brings rows to unit length. A round is

    P_1 = | Σ_k k² |N_k(R)| |,    P_(j+1) = | P_j + Σ_k k² |N_k(P_j)| |,    k = 1..hops

(Chen et al., Fast and Accurate Network Embeddings via Very Sparse Random Projection, 2019, with β = 0, is one round).
Several rounds look as far as many hops do, and only those of one round lie on disk. The ordinary engine moves P; what
is done with its hops is done row by row. Of directed edges N_k goes along and against them, and both are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import FeatureColumn, Features, FeatureSchema, Graph, Relation, digest, fingerprint
from gamlp.graph.features import Cache, DrawnSigns
from gamlp.io import Place
from gamlp.progress import Progress, silent
from gamlp.propagation.operator import Operator
from gamlp.propagation.plan import FeatureSignal, Plan, Propagator
from gamlp.propagation.store.store import HopStore
from gamlp.recipe import FeaturesSettings

METHOD = 1  # raised when other code makes other rows: what was kept is then not found
_LOG = 8.0  # log(1 + degree) is divided by it: as large as other features are, whatever the graph
_CHUNK = 1 << 22  # neighbours that are counted at a time


def structural_schema(graph: Graph, wanted: FeaturesSettings) -> FeatureSchema:
    """Names of the features that are made: degrees, of directed edges both ways, and projections."""
    ways = ("in-degree", "out-degree") if graph.relation.directed else ("degree",)
    projections = [FeatureColumn(name="projection", type="list", width=wanted.width)] if wanted.width else []
    return (*(FeatureColumn(name=way) for way in ways), *projections)


def structural_words(schema: FeatureSchema) -> str:
    """What was made, as a sentence has it.

    >>> structural_words((FeatureColumn(name="degree"), FeatureColumn(name="projection", type="list", width=128)))
    'log degree, 128 columns of random projection'
    """
    names = (
        f"{column.width} columns of random projection" if column.name == "projection" else f"log {column.name}"
        for column in schema
    )
    return ", ".join(names)


def with_structural_features(
    graph: Graph, wanted: FeaturesSettings, engine: Propagator, kept: Place, work: Place, progress: Progress = silent
) -> Graph:
    """The graph with features that its edges alone give; made once, whoever's engine it is, to the same bytes.

    They lie in the folder `kept` under a name that changes with all they depend on. What a round makes lies in `work`
    until the next one is done: an interrupted run goes on with it.
    """
    schema = structural_schema(graph, wanted)
    settings = wanted.model_dump(mode="json", exclude={"structural"})
    key = digest(["structural", METHOD, fingerprint.structure(graph), fingerprint.ids(graph), settings])
    cache, shape = Cache(kept), (graph.nodes.count, sum(column.width for column in schema))
    made = cache.found(graph.target, key, shape)
    if made is None:
        folder = work / f"rounds-{key}"
        projections = _projections(graph, wanted, engine, folder, progress) if wanted.width else None
        made = cache.keep(graph.target, key, _Rows(graph, shape, projections))
        folder.remove()
        if not work.names():
            work.remove()
    graph = graph.with_features(**{graph.target: replace(made, columns=schema)})
    return replace(graph, source={**graph.source, "structural": settings})


def _projections(
    graph: Graph, wanted: FeaturesSettings, engine: Propagator, folder: Place, progress: Progress
) -> Features:
    """P_j of the last round; each is kept until the next is."""
    signs: Any = DrawnSigns(graph.nodes.ids, wanted.width, wanted.seed)
    cache, shape = Cache(folder), (graph.nodes.count, wanted.width)
    signal = FeatureSignal(hops=wanted.hops, operator=Operator(r=0.0, loops=False))
    plan = Plan(features=signal, directions="both" if graph.relation.directed else "in")
    bare = graph.with_targets(labels=None, split=None)  # no label has a part in it
    found = Features(signs)
    for number in range(1, wanted.rounds + 1):
        before, place = found, folder / f"hops-{number}"
        made = cache.found("round", str(number), shape)
        if made is None:
            moved = bare.with_features(**{graph.target: before})
            store = engine.propagate(moved, plan, place, _named(progress, f"round {number} of {wanted.rounds}"))
            made = cache.keep("round", str(number), _Mixed(store, shape, own=number > 1))
        place.remove()
        found = made
    return found


def _named(progress: Progress, part: str) -> Progress:
    """Progress of a part of the work, by its name."""

    def report(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        progress(f"features made of edges, {part}: {stage}", done, total, unit, note)

    return report


@dataclass(frozen=True)
class _Mixed:
    """P_(j+1) from the hops of P_j, row by row as it is written."""

    store: HopStore
    shape: tuple[int, int]
    own: bool
    dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice, /) -> Array:
        begin, end, _ = part.indices(len(self))
        signals = [self.store.signals[channel.signal] for channel in self.store.channels()]
        return mixed([signal.read(begin, end) for signal in signals], own=self.own)


def mixed(channels: Sequence[Array], *, own: bool) -> Array:
    """| P + Σ_k k² |N_k| | of `[rows, hops + 1, d]` each, N_0 = P left out unless `own`; of a node alone it is zero."""
    total = np.asarray(channels[0][:, 0], np.float64) if own else np.zeros(channels[0][:, 0].shape)
    for hops in channels:
        for k in range(1, hops.shape[1]):
            total = total + k * k * _unit(np.asarray(hops[:, k], np.float64))
    return _unit(total).astype(np.float32)


def _unit(rows: Array) -> Array:
    lengths = np.sqrt(np.square(rows).sum(1, keepdims=True))
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))


@dataclass
class _Rows:
    """Log degrees and projections side by side, as they are written."""

    graph: Graph
    shape: tuple[int, int]
    projections: Features | None
    _out: Array | None = None
    dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice, /) -> Array:
        begin, end, _ = part.indices(len(self))
        columns = [np.log1p(degrees)[:, None] / _LOG for degrees in self._degrees(begin, end)]
        if self.projections is not None:
            columns.append(self.projections.read(slice(begin, end)))
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def _degrees(self, begin: int, end: int) -> list[Array]:
        """Of rows begin..end: how many edges lead to each; where they have a direction, also how many lead away."""
        relation, into = self.graph.relation, [np.zeros(0, np.int64)]
        for block in relation.blocks:
            first, last = max(begin, block.start), min(end, block.stop)
            if first < last:
                into.append(np.diff(block.offsets[first - block.start : last - block.start + 1]))
        found = [np.concatenate(into)]
        if relation.directed:
            if self._out is None:
                self._out = _out_degrees(relation, len(self))
            found.append(self._out[begin:end])
        return found


def _out_degrees(relation: Relation, count: int) -> Array:
    found = np.zeros(count, np.int64)
    for block in relation.blocks:
        for at in range(0, block.entries, _CHUNK):
            found += np.bincount(np.asarray(block.neighbours[at : at + _CHUNK]), minlength=count)
    return np.asarray(found)
