"""Propagation: what to propagate, the engines that do it, the store that holds the hops."""

# A damaged graph ends in a sentence
from gamlp.propagation.checks import check_neighbours

# Features before the first hop: their scaling
from gamlp.propagation.first_values import feature_statistics, scaled_features

# On one machine: into a store, or in memory
from gamlp.propagation.local.arrays import hops_in_memory
from gamlp.propagation.local.engine import LocalPropagator

# Of a graph that has grown, from those of before
from gamlp.propagation.local.growth import Regrown, propagate_growth
from gamlp.propagation.local.hops import CHECKPOINT_SECONDS

# Of nodes that were added to a graph, alone
from gamlp.propagation.local.newcomers import newcomers_of, propagate_newcomers
from gamlp.propagation.local.slabs import allocate

# Â = D̃^(r-1) Ã D̃^(-r), and its diagonals for a relation
from gamlp.propagation.operator import Operator, degree_sums, factors

# Which columns go through the hops together in a budget of memory
from gamlp.propagation.passes import Pass, plan_passes

# What to propagate, and what every engine can do
from gamlp.propagation.plan import FeatureSignal, LabelSignal, Plan, Propagator, Statistics

# A plan over a graph, resolved
from gamlp.propagation.signals import Signal, SignalPart, outline

# Hops of a split by time: of every row over the graph as of the end of its own part
from gamlp.propagation.split_by_time import propagate_as_of

# Hops on disk: gather(rows) → Hops
from gamlp.propagation.store.manifest import StoreManifest
from gamlp.propagation.store.sharing import share_features
from gamlp.propagation.store.store import Hops, HopStore, StoredSignal, row_numbers, side_by_side

# Features made of edges alone
from gamlp.propagation.structural import structural_schema, structural_words, with_structural_features

# Which subsets of relations become views
from gamlp.propagation.subsets import Reach, choose_subsets, relation_pair_of

__all__ = [
    "CHECKPOINT_SECONDS",
    "FeatureSignal",
    "HopStore",
    "Hops",
    "LabelSignal",
    "LocalPropagator",
    "Operator",
    "Pass",
    "Plan",
    "Propagator",
    "Reach",
    "Regrown",
    "Signal",
    "SignalPart",
    "Statistics",
    "StoreManifest",
    "StoredSignal",
    "allocate",
    "check_neighbours",
    "choose_subsets",
    "degree_sums",
    "factors",
    "feature_statistics",
    "hops_in_memory",
    "newcomers_of",
    "outline",
    "plan_passes",
    "propagate_as_of",
    "propagate_growth",
    "propagate_newcomers",
    "relation_pair_of",
    "row_numbers",
    "scaled_features",
    "share_features",
    "side_by_side",
    "structural_schema",
    "structural_words",
    "with_structural_features",
]
