"""Propagation on one machine, in a memory budget."""

# Into memory
from gamlp.propagation.local.arrays import hops_in_memory

# Into a store
from gamlp.propagation.local.engine import LocalPropagator

__all__ = ["LocalPropagator", "hops_in_memory"]
