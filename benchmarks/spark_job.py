"""One contestant on one graph, in a process of its own: a JSON line for every hop, then one of the whole.

    python spark_job.py KIND GRAPH WORK BLOCKS HOPS

All compute X^(k+1) = D̃⁻¹ Ã X^(k), the mean over a node and its neighbours, on two executors of one core.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.graph import Graph
from gamlp.io import Workers
from gamlp.progress import Progress
from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Operator, Plan
from gamlp.spark.engine import LIGHT_JAVA, SparkPropagator
from gamlp.spark.sessions import SparkSettings, session
from spark_usage import Usage, usage

MEAN = Operator(r=0.0)
SETTINGS = SparkSettings(
    "local-cluster[2,1,1024]",
    {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
)


def tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


@dataclass(frozen=True)
class Measured(SparkPropagator):
    """The engine as it is; what its stages cost is told."""

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        with super().workers() as workers:

            def tasks(
                work: Any, numbers: Sequence[int], stage: str, progress: Progress, together: int = 1
            ) -> list[dict[str, Any]]:
                before = usage()
                results = workers.tasks(work, numbers, stage, progress, together)
                moved = {name: sum(result.get(name, 0) for result in results) for name in ("read", "written")}
                tell(stage=stage, **usage().since(before), **moved)
                return results

            yield Workers(tasks, workers.slots)


def ours(graph: Graph, work: Path, blocks: int, hops: int) -> list[float]:
    plan = Plan(features=FeatureSignal(hops=hops, operator=MEAN))
    return _some(Measured(blocks, settings=SETTINGS).propagate(graph, plan, work / "store"))


def local(graph: Graph, work: Path, blocks: int, hops: int) -> list[float]:
    """The local engine with two threads; a hop ends where the next one is first heard of."""
    plan = Plan(features=FeatureSignal(hops=hops, operator=MEAN))
    last: tuple[str, Usage] | None = None

    def hear(stage: str, done: float, total: float | None = None, unit: str = "", note: str = "") -> None:
        nonlocal last
        if stage == "all hops" or (last is not None and last[0] == stage):
            return
        now = usage()
        if last is not None:
            tell(stage=last[0], **now.since(last[1]))
        last = (stage, now)

    return _some(LocalPropagator(threads=2).propagate(graph, plan, work / "store", hear))


def shuffled(graph: Graph, work: Path, blocks: int, hops: int, *, packed: bool) -> list[float]:
    from spark_shuffle import Shuffle

    with session(SETTINGS.with_defaults(LIGHT_JAVA)) as spark:  # as the engine does
        shuffle = Shuffle.prepared(spark, graph, work, blocks, MEAN, packed)
        _hops(hops, shuffle.hop)
        return [float(value) for value in shuffle.state(hops, 0)[:3, :4].ravel()]


def naive(graph: Graph, work: Path, blocks: int, hops: int) -> list[float]:
    from spark_naive import Joins

    with session(SETTINGS) as spark:
        joins = Joins.prepared(spark, graph, work, blocks)
        _hops(hops, joins.hop)
        return joins.some(hops)


def _hops(count: int, hop: Callable[[int], dict[str, int]]) -> None:
    for k in range(1, count + 1):
        before = usage()
        moved = hop(k)
        tell(stage=f"hop {k} of {count}", **usage().since(before), **moved)


def _some(store: HopStore) -> list[float]:
    """A few values of the last hop: all contestants must agree on them."""
    hops = store.gather(np.arange(3))
    assert hops.x is not None
    return [float(value) for value in np.asarray(hops.x)[:, 0, -1, :4].ravel()]


KINDS: dict[str, Callable[[Graph, Path, int, int], list[float]]] = {
    "ours": ours,
    "local": local,
    "shuffle of rows": lambda *job: shuffled(*job, packed=False),
    "shuffle of packed rows": lambda *job: shuffled(*job, packed=True),
    "naive": naive,
}


if __name__ == "__main__":
    kind, folder, place, number, depth = sys.argv[1:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun = time.perf_counter()
    opened = Graph.open(folder)
    values = KINDS[kind](opened, Path(place), int(number), int(depth))
    tell(values=values, wall=time.perf_counter() - begun)
