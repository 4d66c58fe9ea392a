"""Every engine the suites run with: a name, and how it is made. An engine that is added here must pass them all."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gamlp.io import Workers
from gamlp.progress import Progress
from gamlp.propagation import LocalPropagator, Propagator
from gamlp.propagation.blocks import BlockPropagator
from gamlp.propagation.passes import FIXED

# Room for eight columns of a small graph: everything else must go through several column blocks.
TINY = FIXED + 20 * 64 + 2 * 64 * 8 * 4


@dataclass(frozen=True)
class BlocksHere(BlockPropagator):
    """The tasks of the Spark engine, each shipped and answered as Spark does it, in this process and in any order."""

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        yield Workers(one_after_the_other, 3)


def one_after_the_other(
    work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, progress: Progress, together: int = 1
) -> list[dict[str, Any]]:
    """Every task sent and answered as Spark does it, the last first."""
    results = {}
    for number in sorted(numbers, key=lambda number: -number):
        results[number] = json.loads(json.dumps(pickle.loads(pickle.dumps(work))(number)))
    return [results[number] for number in numbers]


ENGINES: dict[str, Callable[[], Propagator]] = {
    "local": lambda: LocalPropagator(),
    "local, one thread": lambda: LocalPropagator(threads=1),
    "local, five threads": lambda: LocalPropagator(threads=5),
    "local, out of core": lambda: LocalPropagator(memory=TINY, threads=2),
    "local, checkpoint each hop": lambda: LocalPropagator(checkpoint_seconds=0.0),
    "blocks": lambda: BlocksHere(),
    "blocks, little memory": lambda: BlocksHere(memory=6000),  # needed rows come some sources at a time
}
