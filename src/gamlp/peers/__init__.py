"""Peers of GAMLP: methods that read hops, the whole graph, or labels alone. PyG is imported when one of its is run."""

# What a peer is asked and what it answers; labelled rows of a split's parts
from gamlp.peers.contract import Peer, Report, Seconds, Task, Workspace, labelled

# Shipped recipes that fit a graph, and why; those of a dataset alone
from gamlp.peers.fitting import FittingRecipe, recipes_for, recipes_of

# Hops that a task's runs share
from gamlp.peers.hops import INFERENCE_BATCH, features_key, features_store, prepare_task

# Every peer by name; the one a recipe asks for; recipes that are shipped for them; one run
from gamlp.peers.registry import METHODS, method, peer_of, recipe_for, recipe_name, recipe_named, run

# All seeds of a peer that leaves no bundle, in a run folder
from gamlp.peers.single import Single, run_method

__all__ = [
    "INFERENCE_BATCH",
    "METHODS",
    "FittingRecipe",
    "Peer",
    "Report",
    "Seconds",
    "Single",
    "Task",
    "Workspace",
    "features_key",
    "features_store",
    "labelled",
    "method",
    "peer_of",
    "prepare_task",
    "recipe_for",
    "recipe_name",
    "recipe_named",
    "recipes_for",
    "recipes_of",
    "run",
    "run_method",
]
