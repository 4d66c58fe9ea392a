"""How a state is read: whichever way is faster on this machine.

Neighbour by neighbour, fetched into the second cache, or into all and further ahead; or, of a large state, window by
window. The bytes are the same, so ranges of a pass are the measurement: not of its first hop, in which the system finds
memory for what is written, and that takes longer than the sums. Windows were 1.7 times as fast on a processor that
knows 2,048 pages, and 0.7 times on one that knows 4,096; of two processors with AVX-512 one is faster with the second
cache, the other with all (benchmarks/tried.py).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

TRIES = 8  # ranges a way: the first of a thread touches memory of its own, and the fastest counts


@dataclass(frozen=True)
class Way:
    """`window_bits` and `near` of a HopTask."""

    window_bits: int = 0
    near: bool = False


PLAIN = Way()


class Reading:
    """Gives every range of rows the way to read: in turns, until it is known which takes less time.

    `window_bits` are those of a large state, 0 of others.
    """

    def __init__(self, window_bits: int) -> None:
        self._ways = (PLAIN, Way(near=True), *([Way(window_bits)] if window_bits else []))
        self._paces: dict[Way, list[float]] = {way: [] for way in self._ways}
        self._given = 0
        self._lock = threading.Lock()

    @property
    def large(self) -> bool:
        """Whether windows are among the ways."""
        return any(way.window_bits for way in self._ways)

    @property
    def decided(self) -> Way | None:
        """What all further ranges are given; None: not known yet."""
        if any(len(paces) < TRIES for paces in self._paces.values()):
            return None
        return min(self._ways, key=lambda way: min(self._paces[way]))

    def take(self) -> Way:
        """For the next range."""
        with self._lock:
            decided = self.decided
            if decided is not None:
                return decided
            self._given += 1
            return self._ways[self._given % len(self._ways)]

    def took(self, way: Way, entries: int, seconds: float) -> None:
        """What a range cost; one without entries tells nothing."""
        with self._lock:
            if entries and len(self._paces[way]) < TRIES:
                self._paces[way].append(seconds / entries)
