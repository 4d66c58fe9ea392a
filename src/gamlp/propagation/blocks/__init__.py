"""Propagation by tasks over row blocks on shared storage: whatever runs the tasks, the local engine's bytes."""

# An engine, but for who runs its tasks
from gamlp.propagation.blocks.engine import BlockPropagator

__all__ = ["BlockPropagator"]
