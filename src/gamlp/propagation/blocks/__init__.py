"""Propagation by tasks over row blocks on shared storage: whatever runs the tasks, the local engine's bytes."""

# An engine, but for who runs its tasks; the passes that it makes of signals, and what the widest row of them takes
from gamlp.propagation.blocks.engine import BlockPropagator, whole_passes, widest_row

# How large things are: blocks, memory of a task and of an executor, storage
from gamlp.propagation.blocks.sizing import Sizing, executor_memory, least_blocks

__all__ = ["BlockPropagator", "Sizing", "executor_memory", "least_blocks", "whole_passes", "widest_row"]
