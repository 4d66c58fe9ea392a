"""Cluster-GCN's parts: a graph cut into clusters of few edges between, some of them together a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.peers.contract import options_of
from gamlp.peers.samplers.neighbours import induced_part
from gamlp.peers.tensors import GraphRows, GraphTensors, Sampler
from gamlp.recipe import Recipe

CLUSTERS: dict[str, Any] = {"clusters": 10, "together": 2, "diagonal": 0.0, "layer_norm": False}


@dataclass(frozen=True)
class ClusterSampler:
    """An epoch: every cluster once, `together` a part, with all edges inside the part.

    A part without a row to train on is left out.
    """

    tensors: GraphTensors
    rows: Array
    members: list[Array]
    together: int

    def groups(self, generator: torch.Generator) -> Iterator[Array]:
        """Nodes, ascending, of the clusters that meet; each node once an epoch."""
        order = torch.randperm(len(self.members), generator=generator).tolist()
        for start in range(0, len(order), self.together):
            yield np.sort(np.concatenate([self.members[one] for one in order[start : start + self.together]]))

    def __call__(self, generator: torch.Generator) -> Iterator[GraphTensors]:
        for nodes in self.groups(generator):
            rows = np.intersect1d(nodes, self.rows, assume_unique=True)
            if len(rows):
                yield induced_part(self.tensors, nodes, rows)[0]


def partition(tensors: GraphTensors, count: int, seed: int = 0) -> list[Array]:
    """METIS's cut of the graph, edges taken as going both ways, into at most `count` clusters; none is empty."""
    try:
        import pymetis
    except ModuleNotFoundError as error:
        raise GamlpError(
            "clusters need PyMetis, which is not installed", hint='pip install "gamlp[bench]"'
        ) from error  # fmt: skip
    nodes, count = tensors.nodes, min(count, tensors.nodes)
    source, target = tensors.edges.numpy()
    other = source != target
    ends = np.concatenate([source[other] * nodes + target[other], target[other] * nodes + source[other]])
    rows, neighbours = np.divmod(np.unique(ends), nodes)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=nodes))])
    try:
        _, chosen = pymetis.part_graph(
            count, pymetis.CSRAdjacency(offsets, neighbours), options=pymetis.Options(seed=seed % (1 << 31))
        )  # fmt: skip
    except RuntimeError as error:
        raise GamlpError(
            f"METIS could not cut the graph into {count} clusters ({error})", hint="ask for fewer"
        ) from error
    labels = np.asarray(chosen)
    ordered = np.argsort(labels, kind="stable")
    found = np.split(ordered, np.cumsum(np.bincount(labels, minlength=count))[:-1])
    return [members for members in found if len(members)]


def cluster_sampler(train: GraphRows[GraphTensors], recipe: Recipe, seed: int) -> Sampler:
    """Clusters by the recipe: how many, and how many of them together."""
    options = options_of(recipe, CLUSTERS)
    members = partition(train.tensors, max(1, options["clusters"]), seed)
    return ClusterSampler(train.tensors, np.asarray(train.rows, np.int64), members, max(1, options["together"]))
