"""Propagation by tasks over row blocks on shared storage: whatever runs the tasks, the local engine's bytes."""

# An engine, but for who runs its tasks
from gamlp.propagation.blocks.engine import BlockPropagator

# How large things are: blocks, memory of a task and of an executor, storage
from gamlp.propagation.blocks.sizing import Sizing, executor_memory

__all__ = ["BlockPropagator", "Sizing", "executor_memory"]
