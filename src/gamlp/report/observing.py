"""Looks on while a run is evaluated, so that one pass over the rows serves the scores and the report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.explain.weights import WeightsByDegree, weights_by_degree
from gamlp.graph.graph import Graph
from gamlp.propagation import HopStore
from gamlp.report.tally import Frame, Tally
from gamlp.run.resources import LOCAL, Resources
from gamlp.training.bundle import Bundle
from gamlp.training.device import choose_device
from gamlp.training.rows import rows_of
from gamlp.training.seeds import best_bundle

_BATCH = 500  # rows whose weights are asked for at once


class Observed:
    """What an evaluation showed: counts for every seed, and the nodes of the best by validation.

    `graph` is that of the store, for ids and degrees; without it rows have their numbers as names.
    """

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self.degrees = degrees_of(graph)
        self.frame: Frame | None = None
        self.tallies: dict[int, Tally] = {}

    def watch(
        self, bundles: dict[int, Bundle], store: HopStore, rows: Array
    ) -> dict[int, Callable[[Array, Array, Array], None]]:
        """For every seed a function that is given its batches."""
        first = next(iter(bundles.values()))
        labels = store.labels
        assert labels is not None
        best = best_bundle(bundles)
        self.frame = Frame.of(first.classes, labels.values[rows], rows, self.degrees)
        self.tallies = {seed: Tally(self.frame, listed=seed == best) for seed in bundles}
        return {seed: tally.add for seed, tally in self.tallies.items()}

    def nodes(self) -> dict[str, Array]:
        """Those that are listed, if any."""
        return next((tally.nodes() for tally in self.tallies.values() if tally.listed), {})


def degrees_of(graph: Graph | None) -> Array | None:
    """Of all nodes; None where the graph is not at hand or has several relations."""
    if graph is None:
        return None
    try:
        return graph.degrees()
    except GamlpError:
        return None


def listening(
    bundle: Bundle, graph: Graph | None, store: HopStore, resources: Resources = LOCAL
) -> WeightsByDegree | None:
    """Weights over hops by degree, of all stored rows or many of them; None where the graph is not at hand."""
    degrees = degrees_of(graph)
    if degrees is None:
        return None
    kept = store.kept
    rows = np.arange(store.manifest.nodes) if kept is None else np.asarray(kept)
    device = choose_device(resources.device)
    return weights_by_degree(bundle.model().to(device), rows_of(store, bundle.recipe, rows), degrees, device=device)


@torch.no_grad()
def weights_of_rows(
    bundle: Bundle, store: HopStore, rows: Array, resources: Resources = LOCAL
) -> tuple[Array | None, Array | None, int]:
    """Weights `[b, hops]` of features and of labels, and the first label hop; None for what the model weighs not."""
    device = choose_device(resources.device)
    weigh = getattr(bundle.model().to(device), "hop_weights", None)
    if weigh is None or not len(rows):
        return None, None, 1
    parts: dict[str, list[Array]] = {"features": [], "labels": []}
    read, first = rows_of(store, bundle.recipe, rows), 1
    for begin in range(0, len(rows), _BATCH):
        x, y = read.gather(np.arange(begin, min(begin + _BATCH, len(rows))))
        labels = None if y is None else torch.from_numpy(y).to(device, torch.float32)
        found = weigh(torch.from_numpy(x).to(device, torch.float32), labels)
        first = found.first_label_hop
        for name, values in (("features", found.features), ("labels", found.labels)):
            if values is not None:
                parts[name].append(values.cpu().numpy())
    features, own = (np.concatenate(some) if some else None for some in parts.values())
    return features, own, first
