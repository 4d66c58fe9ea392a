"""Damaged graph files and values that a storage type cannot hold end in a sentence.

Arrays of a folder are looked at when they are first read. Those that are in memory, or behind a URL, are looked at
here: offsets when factors are computed, neighbours right before the kernel reads the same range. The kernel counts the
values that it could not store.
"""

from __future__ import annotations

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import DAMAGED_HINT, Block, Relation, ascend, stray_neighbour


def check_offsets(relation: Relation) -> None:
    """Refuse offsets that do not ascend from 0 to the number of neighbours."""
    for block in relation.blocks:
        check_block(block, relation.name)


def check_block(block: Block, relation: str) -> None:
    """The same of one block."""
    if not ascend(block.offsets, block.entries):
        raise GamlpError(f"relation '{relation}' is damaged: its offsets do not ascend", hint=DAMAGED_HINT)


def check_neighbours(neighbours: Array, count: int) -> None:
    """Refuse neighbours that are not nodes."""
    if (wrong := stray_neighbour(neighbours, count)) is not None:
        raise GamlpError(f"the graph is damaged: neighbour {wrong} is not one of {count:,} nodes", hint=DAMAGED_HINT)


def refuse_lost(lost: int, what: str, dtype: str) -> None:
    """An error if values were lost on their way into storage; `what` says which, as in "features at hop 2"."""
    if not lost:
        return
    of = f"{lost} value of {what} is" if lost == 1 else f"{lost} values of {what} are"
    if dtype == "float32":
        raise GamlpError(
            f"{of} not finite, or larger than float32 holds",
            hint="scale features: gamlp train --set propagation.scaling=standard; or rescale the edge weights",
        )
    if dtype == "bfloat16":
        raise GamlpError(
            f"{of} not finite, or larger than bfloat16 holds",
            hint="use another type: gamlp train --set propagation.dtype=float32",
        )
    raise GamlpError(
        f"{of} beyond what float16 holds, which makes it infinite or zero",
        hint="use another type: gamlp train --set propagation.dtype=bfloat16 or float32",
    )
