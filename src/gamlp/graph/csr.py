"""Edge list → Block."""

from __future__ import annotations

from typing import Any

from gamlp.arrays import Array
from gamlp.graph.graph import Block
from gamlp.kernel import build_csr


def csr_block(targets: Array, sources: Array, weights: Array | None, *, start: int, stop: int, **options: Any) -> Block:
    """The rows start..stop of a relation from its edges; see `gamlp.kernel.build_csr`."""
    offsets, neighbours, merged = build_csr(targets, sources, weights, start=start, stop=stop, **options)
    return Block(start, stop, offsets, neighbours, merged)
