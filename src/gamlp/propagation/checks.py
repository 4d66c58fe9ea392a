"""Damaged graph files and values that a storage type cannot hold end in a sentence.

Opening a graph reads its manifest alone, so the first pass over the arrays looks at them: offsets when factors are
computed, neighbours right before the kernel reads the same range. The kernel counts the values that it could not store.
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


def refuse_lost(lost: int, what: str, dtype: str) -> None:
    """An error if values were lost on their way into storage; `what` says which, as in "features at hop 2"."""
    if not lost:
        return
    if dtype == "float32":
        raise GamlpError(
            f"{lost} values of {what} are not finite, or larger than float32 holds",
            hint="scale the features (scaling standard, row or l2) or the edge weights",
        )
    if dtype == "bfloat16":
        raise GamlpError(
            f"{lost} values of {what} are not finite, or larger than bfloat16 holds", hint="use --dtype float32"
        )
    raise GamlpError(
        f"{lost} values of {what} are beyond what float16 holds: it makes them infinite or zero",
        hint="use --dtype bfloat16 or float32",
    )
