"""Features of nodes that have none, from edges alone: log degrees, and random projections as FastRP makes them.

R[n, d] are sparse random signs, N_k = (D^(-1) A)^k R their means over k steps, and a node's projection is
Σ_k k² N_k / |N_k|, brought to unit length (Chen et al., Fast and Accurate Network Embeddings via Very Sparse Random
Projection, 2019, with β = 0). The ordinary engine moves R; what is done with its hops is done row by row.
"""

from __future__ import annotations

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


def structural_schema(directed: bool, wanted: FeaturesSettings) -> FeatureSchema:
    """Names of the features that are made: degrees, then projections; of directed edges both, each way."""
    ways = ("in-", "out-") if directed else ("",)
    degrees = [FeatureColumn(name=f"{way}degree") for way in ways]
    width = wanted.width // len(ways)
    projections = [FeatureColumn(name=f"{way}projection", type="list", width=width) for way in ways] if width else []
    return (*degrees, *projections)


def structural_width(graph: Graph, wanted: FeaturesSettings) -> int:
    """How many features are made for each node of a graph of one relation."""
    return sum(column.width for column in structural_schema(graph.relation.directed, wanted))


def with_structural_features(
    graph: Graph, wanted: FeaturesSettings, engine: Propagator, kept: Place, work: Place, progress: Progress = silent
) -> Graph:
    """The graph with features that its edges alone give; made once.

    They lie in the folder `kept` under a name that changes with all they depend on. Hops of the signs lie in `work`
    until they are mixed: an interrupted run goes on with them.
    """
    schema = structural_schema(graph.relation.directed, wanted)
    settings = wanted.model_dump(mode="json", exclude={"structural"})
    known = [fingerprint.structure(graph), fingerprint.ids(graph), settings]
    key, cache = digest(["structural", METHOD, *known]), Cache(kept)
    width = structural_width(graph, wanted)
    made = cache.found(graph.target, key, (graph.nodes.count, width))
    if made is None:
        place = work / f"signs-{key}"
        store = _moved_signs(graph, wanted, engine, place, progress) if width > len(_ways(schema)) else None
        made = cache.keep(graph.target, key, _Rows(graph, schema, store, progress))
        place.remove()
    graph = graph.with_features(**{graph.target: replace(made, columns=schema)})
    return replace(graph, source={**graph.source, "structural": settings})


def _moved_signs(
    graph: Graph, wanted: FeaturesSettings, engine: Propagator, place: Place, progress: Progress
) -> HopStore:
    """N_1 … N_K of the graph's one direction, or of both."""
    directed = graph.relation.directed
    signs: Any = DrawnSigns(graph.nodes.ids, wanted.width // (2 if directed else 1), wanted.seed)
    signal = FeatureSignal(hops=wanted.hops, operator=Operator(r=0.0, loops=False))
    plan = Plan(features=signal, directions="both" if directed else "in")
    bare = graph.with_targets(labels=None, split=None)  # no label has a part in it
    return engine.propagate(bare.with_features(**{graph.target: Features(signs)}), plan, place, progress)


def _ways(schema: FeatureSchema) -> list[str]:
    return [column.name.removesuffix("degree") for column in schema if column.name.endswith("degree")]


@dataclass
class _Rows:
    """Rows of made features, computed as they are written."""

    graph: Graph
    schema: FeatureSchema
    store: HopStore | None
    progress: Progress
    _out: Array | None = None
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.nodes.count, sum(column.width for column in self.schema)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice, /) -> Array:
        begin, end, _ = part.indices(len(self))
        columns = [np.log1p(degrees)[:, None] / _LOG for degrees in self._degrees(begin, end)]
        if self.store is not None:
            channels = self.store.channels()
            columns += [mixed(self.store.signals[channel.signal].read(begin, end)) for channel in channels]
        self.progress("features made from edges", end, len(self), "rows")
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def _degrees(self, begin: int, end: int) -> list[Array]:
        """Of rows begin..end: neighbours whose edges lead to each; of directed edges also those that it leads to."""
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


def mixed(hops: Array) -> Array:
    """Σ_k k² N_k / |N_k| of `[rows, hops + 1, d]`, as rows of unit length; far hops weigh more, R itself nothing.

    Of a node that hears nobody all is zero.
    """
    total = np.zeros((len(hops), hops.shape[2]))
    for k in range(1, hops.shape[1]):
        total += k * k * _unit(np.asarray(hops[:, k], np.float64))
    return _unit(total).astype(np.float32)


def _unit(rows: Array) -> Array:
    lengths = np.sqrt(np.square(rows).sum(1, keepdims=True))
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))


def _out_degrees(relation: Relation, count: int) -> Array:
    found = np.zeros(count, np.int64)
    for block in relation.blocks:
        for at in range(0, block.entries, _CHUNK):
            found += np.bincount(np.asarray(block.neighbours[at : at + _CHUNK]), minlength=count)
    return np.asarray(found)
