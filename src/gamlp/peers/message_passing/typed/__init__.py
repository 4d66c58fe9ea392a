"""Peers that pass messages over several node types and relations: R-GCN, HGT, HGConv, R-HGNN and R-GSN."""

from gamlp.peers.message_passing.typed.macro import HGConv
from gamlp.peers.message_passing.typed.models import HGT, RGCN
from gamlp.peers.message_passing.typed.relations import RHGNN
from gamlp.peers.message_passing.typed.similar import RGSN

__all__ = ["HGT", "RGCN", "RGSN", "RHGNN", "HGConv"]
