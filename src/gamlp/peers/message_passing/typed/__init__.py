"""Peers that pass messages over several node types and relations: R-GCN, HGT, HGConv and R-HGNN.

R-GSN (Wu et al., 2021) stays unwritten: its published result rests on adversarial perturbation of features in training
(FLAG) and on weights of relations that are means over a sampled batch; the one training loop has neither.
"""

from gamlp.peers.message_passing.typed.macro import HGConv
from gamlp.peers.message_passing.typed.models import HGT, RGCN
from gamlp.peers.message_passing.typed.relations import RHGNN

__all__ = ["HGT", "RGCN", "RHGNN", "HGConv"]
