"""Peers that train on sampled parts of the graph: the samplers and the networks they feed; torch alone."""

# Rows, a recipe and a seed → parts to train on, one optimiser step each
from gamlp.peers.samplers.clusters import cluster_sampler
from gamlp.peers.samplers.layerwise import FastGCN, layer_sampler
from gamlp.peers.samplers.neighbours import neighbour_sampler

# Networks that read such parts, and are scored exactly, by all neighbours
from gamlp.peers.samplers.networks import ClusterGCN, GraphSAINT, SampledSAGE
from gamlp.peers.samplers.saint import saint_sampler

__all__ = [
    "ClusterGCN",
    "FastGCN",
    "GraphSAINT",
    "SampledSAGE",
    "cluster_sampler",
    "layer_sampler",
    "neighbour_sampler",
    "saint_sampler",
]
