"""Peers that pass messages over the whole graph, made of PyG's layers: importing this door imports PyG, an extra."""

from gamlp.peers.message_passing.attention import GAT, UniMP
from gamlp.peers.message_passing.convolution import GCN, SAGE, DeeperGCN, JKNet, ResGCN
from gamlp.peers.message_passing.propagation import APGCN, APPNP

# Of several node types and relations
from gamlp.peers.message_passing.typed import HGT, RGCN, RGSN, RHGNN, HGConv

__all__ = [
    "APGCN", "APPNP", "GAT", "GCN", "HGT", "RGCN", "RGSN", "RHGNN", "SAGE", "DeeperGCN", "HGConv", "JKNet", "ResGCN",
    "UniMP",
]  # fmt: skip
