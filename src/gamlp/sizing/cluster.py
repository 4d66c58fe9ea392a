"""The same on Spark, by the formulas that its engine cuts blocks with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gamlp.io import format_size
from gamlp.propagation import Plan
from gamlp.propagation.blocks import Sizing, executor_memory, least_blocks, whole_passes, widest_row
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.hops import signals_of
from gamlp.sizing.rates import Rates


@dataclass(frozen=True)
class Cluster:
    """Executors, cores of each, bytes that a task may hold."""

    executors: int = 8
    cores: int = 4
    memory: int = 4 << 30

    @property
    def slots(self) -> int:
        return self.executors * self.cores


@dataclass(frozen=True)
class ClusterSizes:
    """What propagation by blocks takes."""

    shape: GraphShape
    plan: Plan
    cluster: Cluster
    rates: Rates

    @cached_property
    def signals(self) -> dict[str, Sizing]:
        """By signal: on Spark each goes through its hops with all its columns, and all share the blocks of a view."""
        found, signals, shape = {}, signals_of(self.shape, self.plan), self.shape
        widest = widest_row(whole_passes(signals))
        least = least_blocks(shape.nodes, shape.entries, widest, self.cluster.memory, shape.weighted)
        for signal in signals:
            kept = None if signal.rows is None else len(signal.rows)
            columns = signal.width * len(signal.parts)
            found[signal.name] = Sizing(
                shape.nodes,
                shape.entries,
                columns,
                signal.hops,
                signal.dtype,
                kept,
                self.cluster.memory,
                self.cluster.slots,
                shape.weighted,
                least,
            )
        return found

    @property
    def blocks(self) -> int:
        return max(sizing.blocks for sizing in self.signals.values())

    @property
    def executor_memory(self) -> int:
        """For Python on an executor."""
        return executor_memory(self.cluster.cores, self.cluster.memory)

    @property
    def storage(self) -> int:
        """Shared storage at its most, beside the graph: what one signal has left is there while the next runs."""
        return sum(sizing.storage for sizing in self.signals.values())

    @property
    def seconds(self) -> tuple[float, float]:
        """All hops: summing and storage at the same time, or one after the other."""
        low = high = 0.0
        for sizing in self.signals.values():
            row = sizing.columns * sizing.item
            kernel = sizing.kernel_seconds(1 / (self.rates.entry_seconds(row) * self.rates.cores))
            storage = sizing.storage_seconds(self.cluster.executors * self.rates.storage)
            low, high = low + sizing.hops * max(kernel, storage), high + sizing.hops * (kernel + storage)
        return low, high

    def words(self) -> str:
        """One sentence."""
        cluster = self.cluster
        return (
            f"{cluster.executors} executors of {cluster.cores} cores with {format_size(self.executor_memory)} for "
            f"Python each ({format_size(cluster.memory)} a task): {self.blocks} blocks, "
            f"{format_size(self.storage)} of shared storage beside the graph"
        )
