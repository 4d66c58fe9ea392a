"""What propagation takes on one machine: the passes that the engine would run, their memory, their files, the store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import View
from gamlp.io import npy_size
from gamlp.kernel import NUMPY_DTYPES
from gamlp.propagation import CHECKPOINT_SECONDS, Operator, Pass, Plan, Signal, SignalPart, plan_passes
from gamlp.propagation.store import planned_shards
from gamlp.sizing.graph_shape import GraphShape
from gamlp.sizing.rates import Rates

FACTORS, MAKING = 12, 20  # bytes a node: three float32 that stay, and what they take while they are made
PROCESS = 220 << 20  # the interpreter, libraries and buffers beside what a budget counts
_STEP = 64 << 20
_JSON = 400  # bytes of the manifest that a shard and a signal take, about


@dataclass(frozen=True)
class HopSizes:
    """Passes and files of one plan in one budget."""

    shape: GraphShape
    plan: Plan
    budget: int
    signals: tuple[Signal, ...]
    groups: tuple[tuple[Pass, ...], ...]

    @classmethod
    def of(cls, shape: GraphShape, plan: Plan, budget: int) -> HopSizes:
        """As the local engine would do it."""
        signals = signals_of(shape, plan)
        groups = plan_passes(signals, budget)
        return cls(shape, plan, budget, tuple(signals), tuple(tuple(passes) for passes in groups))

    @classmethod
    def of_least(cls, shape: GraphShape, plan: Plan, budget: int) -> HopSizes:
        """In this budget, or where it is too small in the least that is not, in steps of 64 MiB."""
        signals = signals_of(shape, plan)
        while True:
            try:
                groups = plan_passes(signals, budget)
            except GamlpError:
                budget = (budget // _STEP + 1) * _STEP
            else:
                return cls(shape, plan, budget, tuple(signals), tuple(tuple(passes) for passes in groups))

    @property
    def passes(self) -> list[Pass]:
        return [spec for passes in self.groups for spec in passes]

    @property
    def state(self) -> int:
        """Bytes of the largest pass's state matrices."""
        return max((self.state_of(spec) * spec.buffers for spec in self.passes), default=0)

    def state_of(self, spec: Pass) -> int:
        """Bytes of one state matrix."""
        return self.shape.nodes * spec.width * _item(spec.dtype)

    @property
    def memory(self) -> int:
        """Anonymous memory at its most, with that of the process itself."""
        kept = 8 * (self.shape.kept(self.plan) or 0)
        return max(MAKING * self.shape.nodes, FACTORS * self.shape.nodes + self.state) + kept + PROCESS

    @property
    def readings(self) -> int:
        """How often all neighbours are read: every hop of every pass."""
        return sum(spec.depth for spec in self.passes)

    @property
    def store(self) -> int:
        """Bytes of the finished store."""
        return sum(map(self.signal_bytes, self.signals)) + self.shape.target_bytes

    def signal_bytes(self, signal: Signal) -> int:
        """Shards with their headers, and the numbers of the rows that are kept."""
        dtype, last = NUMPY_DTYPES[signal.dtype], (signal.hops + 1, signal.width)
        row = int(np.prod(last)) * _item(signal.dtype)
        rows = self.shape.nodes if signal.rows is None else len(signal.rows)
        shards = planned_shards(rows, row)
        numbers = 0 if signal.rows is None else npy_size((rows,), np.int64)
        return sum(npy_size((one.stop - one.start, *last), dtype) + _JSON for one in shards) + numbers + _JSON

    def slabs_of(self, spec: Pass, alone: bool, slow: bool) -> int:
        """Bytes that a pass leaves on disk until the store is written.

        A pass by itself keeps its last hops in memory; one of several, or a slow one, keeps none there.
        """
        total = 0
        for piece in spec.pieces:
            rows = self.shape.nodes if piece.part.rows is None else len(piece.part.rows)
            hops = piece.signal.hops
            if alone and not slow:
                hops = max(0, min(hops, spec.depth - spec.buffers))
            total += rows * piece.padded * _item(spec.dtype) * hops
        return total

    def slabs(self, rates: Rates | None = None) -> int:
        """Bytes at the fullest moment: slabs of the signals that go together, and one state where a pass is slow.

        Slabs go when the store has their rows, and a state takes the place of the one before.
        """
        return max((self._slabs_of_group(passes, rates) for passes in self.groups), default=0)

    def _slabs_of_group(self, passes: tuple[Pass, ...], rates: Rates | None) -> int:
        total, state = 0, 0
        for spec in passes:
            slow = rates is not None and self.pass_seconds(spec, rates) > CHECKPOINT_SECONDS
            total += self.slabs_of(spec, len(passes) == 1, slow)
            if slow and any(piece.part.rows is not None for piece in spec.pieces):
                state = max(state, self.state_of(spec))
        return total + state

    @property
    def views(self) -> int:
        """Bytes of edges that are stored again while it runs: those of a view against them."""
        turned = {signal.view.name for signal in self.signals if signal.view is not None and signal.view.turned}
        return len(turned) * self.shape.relation_bytes

    @property
    def fits_in_cache(self) -> int:
        """Memory beside the state in which the system keeps the neighbours between hops."""
        return self.shape.relation_bytes

    def pass_seconds(self, spec: Pass, rates: Rates, cached: bool = True) -> float:
        """First values, then hops: each as long as the slowest of summing, reading neighbours and spilling."""
        item, nodes = _item(spec.dtype), self.shape.nodes
        seconds = nodes * spec.width * 4 / rates.memory + self.shape.feature_bytes / rates.read
        for hop in range(1, spec.depth + 1):
            pieces = spec.with_hop(hop)
            width = pieces[-1].at + pieces[-1].padded
            rows = pieces[0].part.rows
            last = hop == spec.depth and rows is not None and all(piece.part.rows is rows for piece in pieces)
            share = len(rows) / max(1, nodes) if last and rows is not None else 1.0
            entries = share * (self.shape.entries + (nodes if spec.operator.loops else 0))
            summing = entries * rates.entry_seconds(width * item) + share * nodes * width * item / rates.memory
            seconds += max(summing, 0 if cached else self.shape.neighbour_bytes / rates.read)
        return seconds

    def seconds(self, rates: Rates, free_memory: int) -> float:
        """All passes and the store; neighbours are read again at every hop where they do not stay in memory."""
        cached = free_memory >= self.memory + self.fits_in_cache
        hops = sum(self.pass_seconds(spec, rates, cached) for spec in self.passes)
        slabs = sum(self._slabs_of_group(passes, rates) for passes in self.groups)
        spilling = max(0.0, slabs / rates.write - hops)  # beside the hops, by a thread of its own
        return hops + spilling + slabs / rates.read + self.store / rates.write + self.shape.feature_bytes / rates.read


def signals_of(shape: GraphShape, plan: Plan) -> list[Signal]:
    """The plan's signals over a graph of this shape: widths, hops and numbers of rows, without values."""
    kept = shape.kept(plan)
    rows = None if kept is None or kept == shape.nodes else _numbers(kept)
    directions = {"in": ("",), "out": ("out",), "both": ("in", "out")}[plan.directions]
    found: list[Signal] = []
    for name in directions:
        direction = None if not name else "out" if name == "out" else "in"
        view = View(name, ("edge",), ("edge",), ("node",), (0, shape.nodes), direction)  # type: ignore[arg-type]
        if plan.features is not None and shape.features:
            for signal, operator in plan.features.names.items():
                one = (SignalPart(0, _NOTHING, rows),)
                settings = (plan.features.hops, shape.features, operator, plan.features.dtype)
                found.append(_signal(view.called(signal), settings, rows, one, view))
        if plan.labels is not None and shape.classes:
            settings = (plan.labels.hops, shape.classes, plan.labels.operator, plan.labels.dtype)
            found.append(_signal(view.called("labels"), settings, rows, (SignalPart(0, _NOTHING, rows),), view))
            if plan.labels.folds > 1:
                train = shape.rows.get("train", 0)
                sizes = [len(part) for part in np.array_split(_numbers(train), plan.labels.folds)]
                parts = tuple(SignalPart(i, _NOTHING, _numbers(n), _numbers(n)) for i, n in enumerate(sizes))
                found.append(_signal(view.called("crossfit"), settings, _numbers(train), parts, view))
    if not found:
        raise GamlpError("there is nothing to propagate", hint="give --features, or --classes and --label-hops")
    return found


def _signal(
    name: str,
    settings: tuple[int, int, Operator, str],
    rows: Array | None,
    parts: tuple[SignalPart, ...],
    view: View,
) -> Signal:
    hops, width, operator, dtype = settings
    return Signal(name, "", {}, hops, width, operator, dtype, rows, parts, view)


class _Nothing:
    """First values that nobody reads."""

    def read(self, rows: object, columns: slice) -> Array:
        raise NotImplementedError


_NOTHING = _Nothing()


def _numbers(count: int) -> Array:
    """As many row numbers, in no memory: sizes ask for their number alone."""
    return np.broadcast_to(np.int64(0), (count,))


def _item(dtype: str) -> int:
    return np.dtype(NUMPY_DTYPES[dtype]).itemsize
