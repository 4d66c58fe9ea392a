"""Peers that pass messages over the whole graph, from PyG where it has them."""

from __future__ import annotations

from gamlp.bench.message_passing_attention import GAT, UniMP
from gamlp.bench.message_passing_convolution import GCN, SAGE, DeeperGCN, JKNet, ResGCN
from gamlp.bench.message_passing_propagation import APGCN, APPNP
from gamlp.bench.message_passing_types import HGT, RGCN, RHGNN, HGConv

__all__ = [
    "APGCN", "APPNP", "GAT", "GCN", "HGT", "RGCN", "RHGNN", "SAGE", "DeeperGCN", "HGConv", "JKNet", "ResGCN", "UniMP",
]  # fmt: skip
