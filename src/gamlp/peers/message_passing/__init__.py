"""Peers that pass messages over the whole graph, from PyG where it has them."""

from __future__ import annotations

from gamlp.peers.message_passing.attention import GAT, UniMP
from gamlp.peers.message_passing.convolution import GCN, SAGE, DeeperGCN, JKNet, ResGCN
from gamlp.peers.message_passing.propagation import APGCN, APPNP
from gamlp.peers.message_passing.typed.models import HGT, RGCN, RHGNN, HGConv

__all__ = [
    "APGCN", "APPNP", "GAT", "GCN", "HGT", "RGCN", "RHGNN", "SAGE", "DeeperGCN", "HGConv", "JKNet", "ResGCN", "UniMP",
]  # fmt: skip
