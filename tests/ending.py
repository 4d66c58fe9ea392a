"""Processes that tests start end with the tests, however those end."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def with_parent(number: int = signal.SIGTERM) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends this signal when the parent is gone, even by SIGKILL (Linux alone has it)."""
    system = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

    def ask() -> None:
        if system is not None:
            system.prctl(_PR_SET_PDEATHSIG, int(number))

    return ask
