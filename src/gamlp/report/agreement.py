"""Whether neighbours of training rows agree with them, counted over ranges of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import (
    ROLES,
    UNKNOWN,
    AgreementCounts,
    Graph,
    Homophily,
    Labels,
    TargetRelations,
    drawn_rows,
    drawn_share,
    relation_degrees,
)
from gamlp.io import Place, Ranges, State, TakeTally, row_ranges, tally_here
from gamlp.propagation import HopStore

_RANGE = 1 << 20  # rows that a task looks at at a time
_TRAIN = ROLES.index("train")


def agreement_of(graph: Graph | None, store: HopStore, take: TakeTally = tally_here) -> Homophily | None:
    """Of the edges between training rows; a graph behind a URL is not fetched for it.

    First the edges are counted, since of very many some rows' are looked at; then the labels at their ends.
    """
    if graph is None or not store.labelled or not store.has_split or not _near(graph):
        return None
    ranges, edges = row_ranges(graph.nodes.count, _RANGE), TargetRelations(graph)
    if not edges.among_targets:
        return None
    counted = take(AgreementWork(edges, store, None), ranges, "edges of training rows")
    share = drawn_share(sum(int(state["entries"]) for state in counted))
    found = AgreementCounts(_labels(store))
    for state in take(AgreementWork(edges, store, share), ranges, "labels of neighbours"):
        found.merge(state)
    return found.found(share < 1)


def _near(graph: Graph) -> bool:
    return graph.folder is None or Place.of(graph.folder).local is not None


def _labels(store: HopStore) -> Labels:
    return Labels(store.targets_file("labels.npy"), tuple(store.manifest.targets.classes or ()))


@dataclass(frozen=True)
class AgreementWork:
    """Edges between training rows: how many there are (`share` None), or of a share of the rows, what they join."""

    edges: TargetRelations
    store: HopStore
    share: float | None

    def __call__(self, ranges: Ranges) -> State:
        labels, entries = _labels(self.store), 0
        counts = AgreementCounts(labels)
        for begin, end in ranges:
            rows = begin + np.flatnonzero(self._trains(labels, slice(begin, end)))
            if self.share is None:
                entries += sum(int(relation_degrees(one, rows).sum()) for one in self.edges.among_targets)
                continue
            own = drawn_rows(rows, self.share)
            counts.add_rows(self.edges.among_targets, own, lambda others: self._trains(labels, others))
        return {"entries": np.array(entries)} if self.share is None else counts.state()

    def _trains(self, labels: Labels, rows: slice | Array) -> Array:
        values = np.asarray(labels.values[rows])
        known = (values[:, 0] if values.ndim == 2 else values) != UNKNOWN
        return np.asarray(known & (np.asarray(self.store.targets_file("split.npy")[rows]) == _TRAIN))
