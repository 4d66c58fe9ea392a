"""The protocol that every engine follows: local, Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gamlp.graph.graph import Graph
from gamlp.io import Place
from gamlp.progress import Progress, silent
from gamlp.propagation.plan import Plan
from gamlp.propagation.store.store import HopStore


class Engine(Protocol):
    """Runs a plan over a graph into a store; an interrupted run, run again, ends with the same bytes."""

    def run(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore: ...
