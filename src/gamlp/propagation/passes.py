"""Which columns go through the hops together: signals share a pass where they can, blocks where memory demands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gamlp.errors import GamlpError
from gamlp.graph import View
from gamlp.io import format_size
from gamlp.kernel import LANES
from gamlp.propagation.operator import Operator
from gamlp.propagation.signals import Signal, SignalPart

FIXED = 64 << 20  # buffers and bookkeeping that do not grow with the graph
STATES = 2  # matrices: a hop reads one and writes the other
NARROW = 16  # columns of a signal that rides along with another
TILE = 16 * LANES  # columns that the kernel sums in one go
RESIDENT = 3  # where memory and a single pass allow: the last three hops are not spilled to disk and read back


@dataclass(frozen=True)
class Piece:
    """Columns `first..last` of a part, at `at..at+padded` of the state matrix."""

    signal: Signal
    part: SignalPart
    first: int
    last: int
    at: int

    @property
    def width(self) -> int:
        return self.last - self.first

    @property
    def padded(self) -> int:
        return _pad(self.width)

    @property
    def name(self) -> str:
        return f"{self.signal.name}-{self.signal.key}-{self.part.index}-{self.first}-{self.last}"


@dataclass(frozen=True)
class Pass:
    """Pieces in one state matrix, deepest first, so that the columns still moving at hop k are its first ones."""

    operator: Operator
    dtype: str
    pieces: tuple[Piece, ...]
    buffers: int = STATES

    @property
    def depth(self) -> int:
        return self.pieces[0].signal.hops

    @property
    def view(self) -> View:
        view = self.pieces[0].signal.view
        assert view is not None
        return view

    @property
    def width(self) -> int:
        return sum(piece.padded for piece in self.pieces)

    def with_hop(self, hop: int) -> tuple[Piece, ...]:
        """Pieces that have this hop."""
        return tuple(piece for piece in self.pieces if piece.signal.hops >= hop)


def plan_passes(signals: Sequence[Signal], budget: int) -> list[list[Pass]]:
    """Groups of passes; a group's signals are complete after its passes.

    Signals of one view, operator and dtype share a pass where one is narrow and all fit one tile of the kernel: 64 + 16
    columns cost up to 8 % less together than apart. Wider ones gain nothing, and need wider state matrices.
    (Measured by benchmarks/propagation.py, "sharing a pass".)
    """
    alike: dict[tuple[View | None, Operator, str], list[Signal]] = {}
    for signal in signals:
        alike.setdefault((signal.view, signal.operator, signal.dtype), []).append(signal)
    groups = []
    for members in alike.values():
        together: list[list[Signal]] = []
        for signal in sorted(members, key=_columns, reverse=True):
            rides = together and _columns(signal) <= NARROW and sum(map(_columns, [*together[0], signal])) <= TILE
            if rides:
                together[0].append(signal)
            else:
                together.insert(0, [signal])
        groups += [_group(shared, budget) for shared in together]
    return groups


def _group(signals: list[Signal], budget: int) -> list[Pass]:
    operator, dtype, count = signals[0].operator, signals[0].dtype, signals[0].nodes
    row_bytes = max(1, count) * (4 if dtype == "float32" else 2)
    room = budget - FIXED - 20 * count  # factors: three float32, one float64 while they are made
    widest = room // (STATES * row_bytes) // LANES * LANES
    if widest < LANES:
        need = FIXED + 20 * count + STATES * LANES * row_bytes
        raise GamlpError(
            f"a memory budget of {format_size(budget)} is too small for {count:,} nodes",
            hint=f"give --memory {-(-need // 2**20)}MiB or more",
        )
    ordered = sorted(signals, key=lambda signal: -signal.hops)
    total = sum(_columns(signal) for signal in ordered)
    if total <= widest:
        buffers = RESIDENT if RESIDENT * total * row_bytes <= room else STATES
        return [Pass(operator, dtype, tuple(_pieces(ordered, total)), buffers)]
    blocks = -(-total // widest)
    even = min(widest, _pad(-(-total // blocks)))
    passes: list[list[Piece]] = []
    for piece in _pieces(ordered, even):
        if piece.at == 0:
            passes.append([])
        passes[-1].append(piece)
    return [Pass(operator, dtype, tuple(pieces)) for pieces in passes]


def _pieces(signals: list[Signal], widest: int) -> Iterator[Piece]:
    """Cut the signals' columns into pieces that fill matrices of `widest` columns; `at` = 0 begins a new one."""
    at = 0
    for signal in signals:
        for part in signal.parts:
            first = 0
            while first < signal.width:
                if at >= widest:
                    at = 0
                last = min(signal.width, first + widest - at)
                yield Piece(signal, part, first, last, at)
                at += _pad(last - first)
                first = last


def _columns(signal: Signal) -> int:
    return len(signal.parts) * _pad(signal.width)


def _pad(width: int) -> int:
    return -(-width // LANES) * LANES
