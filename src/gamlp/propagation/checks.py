"""A damaged graph file ends in a sentence, never in a read outside an array.

Opening a graph reads its manifest alone, so the first pass over the arrays looks at them: offsets when factors are
computed, neighbours right before the kernel reads the same range.
"""

from __future__ import annotations

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Block, Relation

_CHUNK = 1 << 21
_HINT = "verify the graph with gamlp info, and build it again"


def check_offsets(relation: Relation) -> None:
    """Refuse offsets that do not ascend from 0 to the number of neighbours."""
    for block in relation.blocks:
        check_block(block, relation.name)


def check_block(block: Block, relation: str) -> None:
    """The same of one block."""
    if not _ascend(block):
        raise GamlpError(f"relation '{relation}' is damaged: its offsets do not ascend", hint=_HINT)


def check_neighbours(neighbours: Array, count: int) -> None:
    """Refuse neighbours that are not nodes."""
    if len(neighbours) and int(neighbours.view(np.uint32).max()) >= count:  # a negative one is huge
        wrong = neighbours[(neighbours < 0) | (neighbours >= count)][0]
        raise GamlpError(f"the graph is damaged: neighbour {wrong} is not one of {count:,} nodes", hint=_HINT)


def _ascend(block: Block) -> bool:
    offsets = block.offsets
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(block.neighbours):
        return False
    parts = (offsets[begin : begin + _CHUNK + 1] for begin in range(0, len(offsets) - 1, _CHUNK))
    return all(bool((part[1:] >= part[:-1]).all()) for part in parts)
