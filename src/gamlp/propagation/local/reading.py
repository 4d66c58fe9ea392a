"""Whether a large state is read neighbour by neighbour or window by window: whichever is faster on this machine.

The bytes are the same, so ranges of a pass are the measurement: not of its first hop, in which the system finds memory
for what is written, and that takes longer than the sums. Windows were 1.7 times as fast on a processor
that knows 2,048 pages, and 0.7 times on one that knows 4,096 (benchmarks/tried.py, part `windows`).
"""

from __future__ import annotations

import threading

TRIES = 8  # ranges a way: the first of a thread touches memory of its own, and the fastest counts


class Reading:
    """Gives every range of rows the `window_bits` to read with: in turns, until it is known which takes less time."""

    def __init__(self, window_bits: int) -> None:
        self._ways = (0, window_bits) if window_bits else (0,)
        self._paces: dict[int, list[float]] = {way: [] for way in self._ways}
        self._given = 0
        self._lock = threading.Lock()

    @property
    def decided(self) -> int | None:
        """What all further ranges are given; None: not known yet."""
        if len(self._ways) == 1:
            return 0
        if any(len(paces) < TRIES for paces in self._paces.values()):
            return None
        return min(self._ways, key=lambda way: min(self._paces[way]))

    def take(self) -> int:
        """For the next range."""
        with self._lock:
            decided = self.decided
            if decided is not None:
                return decided
            self._given += 1
            return self._ways[self._given % len(self._ways)]

    def took(self, way: int, entries: int, seconds: float) -> None:
        """What a range cost; one without entries tells nothing."""
        with self._lock:
            if entries and len(self._paces[way]) < TRIES:
                self._paces[way].append(seconds / entries)
