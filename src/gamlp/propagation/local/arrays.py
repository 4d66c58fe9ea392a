"""Hops held in memory, for graphs small enough and for people who live in Python."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.io import parallel_map, usable_cores
from gamlp.kernel import scale
from gamlp.progress import silent
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.local.hops import PassRun
from gamlp.propagation.local.slabs import Resident, allocate
from gamlp.propagation.operator import factors
from gamlp.propagation.passes import STATES, Pass, Piece
from gamlp.propagation.plan import FeatureSignal
from gamlp.propagation.signals import Signal, feature_signal

_STEP = 1 << 14


def hops_in_memory(graph: Graph, plan: FeatureSignal, threads: int | None = None) -> list[Array]:
    """[X^(0), …, X^(K)], each `[n, d]`; float16 as numpy's own, bfloat16 as the uint16 of its bits.

    >>> graph = Graph.from_arrays([[0, 1], [1, 2]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> [round(float(value), 3) for value in hops_in_memory(graph, FeatureSignal(hops=1))[1][0]]
    [0.5, 0.408, 0.0]
    """
    threads = threads or usable_cores()
    count = graph.nodes.count
    signal = feature_signal(graph, plan, None, None)
    piece = Piece(signal, signal.parts[0], 0, signal.width, 0)
    diagonal = factors(graph.relation, plan.operator, count)
    # As many matrices as hops: hop K is written where hop 0 was, and nothing is spilled.
    spec = Pass(plan.operator, plan.dtype, (piece,), buffers=max(plan.hops, STATES))
    with tempfile.TemporaryDirectory() as nowhere:
        run = PassRun(
            graph.relation, count, diagonal, spec, Path(nowhere), threads, silent, "", keep_all=False,
            checkpoint_seconds=float("inf"),  # nothing is spilled, however long it takes
        )  # fmt: skip
        slabs = run.run() if plan.hops else {}
    down = run.half_factors(piece)
    floors = run.column_floors(piece)
    hops = [_first(signal, count, threads, floors)]
    for k in range(1, plan.hops + 1):
        slab = slabs[piece.name, k]
        assert isinstance(slab, Resident)
        values = slab.values[:, : signal.width]

        def leave(begin: int, values: Array = values) -> int:
            part = slice(begin, begin + _STEP)
            factor = None if diagonal.leave is None else diagonal.leave[part]
            return scale(
                values[part],
                plan.dtype,
                values[part],
                plan.dtype,
                row_factors=factor,
                column_factors=down,
                column_floors=floors,
            )

        if diagonal.leave is not None or down is not None:
            lost = sum(parallel_map(threads, leave, range(0, count, _STEP)))
            refuse_lost(lost, f"features at hop {k}", plan.dtype)
        hops.append(values)
    return hops


def _first(signal: Signal, count: int, threads: int, floors: Array | None) -> Array:
    """X^(0) in the storage type."""
    read = signal.parts[0].first.read
    if signal.dtype == "float32":
        return read(slice(None), slice(None))
    first = allocate(count, signal.width, signal.dtype)

    def fill(begin: int) -> int:
        part = slice(begin, begin + _STEP)
        return scale(read(part, slice(None)), "float32", first[part], signal.dtype, column_floors=floors)

    refuse_lost(sum(parallel_map(threads, fill, range(0, count, _STEP))), "features at hop 0", signal.dtype)
    return first
