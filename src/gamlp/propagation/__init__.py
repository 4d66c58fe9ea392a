"""Propagation: what to propagate, the engine that does it, the store that holds it."""

from gamlp.propagation.first_values import feature_statistics
from gamlp.propagation.local.arrays import hops_in_memory
from gamlp.propagation.local.engine import LocalEngine
from gamlp.propagation.operator import Operator
from gamlp.propagation.plan import FeatureSignal, LabelSignal, Plan, Propagator, Statistics
from gamlp.propagation.store.store import Hops, HopStore

__all__ = [
    "FeatureSignal",
    "HopStore",
    "Hops",
    "LabelSignal",
    "LocalEngine",
    "Operator",
    "Plan",
    "Propagator",
    "Statistics",
    "feature_statistics",
    "hops_in_memory",
]
