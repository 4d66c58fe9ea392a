"""Every engine the suites run with: a name, and how it is made. An engine that is added here must pass them all."""

from __future__ import annotations

from collections.abc import Callable

from gamlp.propagation import Engine, LocalEngine
from gamlp.propagation.passes import FIXED

# Room for eight columns of a small graph: everything else must go through several column blocks.
TINY = FIXED + 20 * 64 + 2 * 64 * 8 * 4

ENGINES: dict[str, Callable[[], Engine]] = {
    "local": lambda: LocalEngine(),
    "local, one thread": lambda: LocalEngine(threads=1),
    "local, five threads": lambda: LocalEngine(threads=5),
    "local, out of core": lambda: LocalEngine(memory=TINY, threads=2),
    "local, checkpoint each hop": lambda: LocalEngine(checkpoint_seconds=0.0),
}
