"""Â = D̃^(r-1) Ã D̃^(-r) as three diagonal factors around a 0/1 (or weighted) matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Block, Relation
from gamlp.kernel import add_up
from gamlp.propagation.checks import check_neighbours, check_offsets

_CHUNK = 1 << 21  # entries or rows looked at a time


class Operator(BaseModel):
    """r = 0.5 symmetric, 1 transition, 0 reverse transition (row mean); `loops` adds one self-loop a node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    r: float = Field(default=0.5, ge=0.0, le=1.0)
    loops: bool = True


@dataclass(frozen=True)
class Factors:
    """The recursion runs on Z = D_c^(-r) X, so that a hop multiplies nothing on its way in.

    X^(k+1) = D_r^(r-1) Ã D_c^(-r) X^(k)  becomes  Z^(k+1) = step ∘ (Ã Z^(k)), step = D_c^(-r) D_r^(r-1),
    with Z = enter ∘ X and X = leave ∘ Z. D_r are row sums of Ã, D_c column sums (the same when undirected).
    A zero row sum gives a zero row. A zero column sum multiplies nothing that anyone reads, so its factor is 1.
    """

    step: Array
    enter: Array | None  # None: all ones (r = 0)
    leave: Array | None


def factors(relation: Relation, operator: Operator, count: int) -> Factors:
    """Compute the three diagonals in float64, kept as float32 `[count]`."""
    if relation.source != relation.target:
        raise GamlpError(
            f"relation '{relation.name}' joins {relation.source} to {relation.target}",
            hint="propagation runs on one node type; choose a relation inside it",
        )
    row_sums, column_sums = degree_sums(relation, count)
    return factors_of(row_sums, column_sums, operator, directed=relation.directed)


def degree_sums(relation: Relation, count: int) -> tuple[Array, Array]:
    """Sums of the rows and of the columns of A without loops, float64; the same array where edges lead both ways."""
    check_offsets(relation)
    row_sums = _row_sums(relation, count)
    column_sums = _column_sums(relation, count) if relation.directed else row_sums
    if relation.weighted:
        refuse_extremes(row_sums)
        refuse_extremes(column_sums)
    return row_sums, column_sums


def factors_of(row_sums: Array, column_sums: Array, operator: Operator, *, directed: bool) -> Factors:
    """The diagonals of some rows from their sums of Ã without loops."""
    r, loop = operator.r, 1.0 if operator.loops else 0.0
    count = len(row_sums)
    step = np.empty(count, np.float32)
    enter = leave = None
    if r > 0.0:
        enter, leave = np.empty(count, np.float32), np.empty(count, np.float32)
    for begin in range(0, count, _CHUNK):  # in chunks: float64 temporaries stay small beside a large graph
        part = slice(begin, begin + _CHUNK)
        rows, columns = row_sums[part] + loop, column_sums[part] + loop
        if directed:
            step[part] = _power(rows, r - 1.0, empty=0.0) * _power(columns, -r, empty=1.0)
        else:
            step[part] = _power(rows, -1.0, empty=0.0)
        if enter is not None and leave is not None:
            enter[part], leave[part] = _power(columns, -r, empty=1.0), _power(columns, r, empty=1.0)
    return Factors(step, enter, leave)


def refuse_extremes(sums: Array, first: int = 0) -> None:
    """Sums of weights whose inverse float32 cannot hold; `first` is the number of the first node."""
    if (wrong := np.flatnonzero((sums > 0.0) & ((sums < 1e-30) | (sums > 1e30)))).size:
        raise GamlpError(
            f"edge weights of node {first + wrong[0]} add up to {sums[wrong[0]]:.3g}, beyond what float32 can invert",
            hint="rescale the weights",
        )


def _power(sums: Array, exponent: float, *, empty: float) -> Array:
    positive = sums > 0.0
    return np.where(positive, np.power(np.where(positive, sums, 1.0), exponent), empty)


def _row_sums(relation: Relation, count: int) -> Array:
    sums = np.zeros(count)
    for block in relation.blocks:
        sums[block.start : block.stop] = block_row_sums(block)
    return sums


def block_row_sums(block: Block) -> Array:
    """Σ_j w_ij of every row of a block, float64."""
    if block.weights is None:
        return np.asarray(np.subtract(block.offsets[1:], block.offsets[:-1]), np.float64)
    sums = np.zeros(block.stop - block.start)
    for first, last in _row_ranges(block.offsets):
        begin, end = int(block.offsets[first]), int(block.offsets[last])
        rows = np.repeat(np.arange(first, last), np.diff(block.offsets[first : last + 1]))
        weights = np.asarray(block.weights[begin:end], np.float64)
        sums[first:last] = np.bincount(rows - first, weights=weights, minlength=last - first)
    return sums


def _column_sums(relation: Relation, count: int) -> Array:
    sums = np.zeros(count)
    for block in relation.blocks:
        for begin in range(0, len(block.neighbours), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            check_neighbours(block.neighbours[part], count)
            weights = None if block.weights is None else np.asarray(block.weights[part])
            add_up(np.asarray(block.neighbours[part]), weights, sums)
    return sums


def _row_ranges(offsets: Array) -> list[tuple[int, int]]:
    total = int(offsets[-1])
    cuts = np.searchsorted(offsets, np.arange(_CHUNK, total, _CHUNK), side="left")
    edges = np.unique(np.concatenate([[0], cuts, [len(offsets) - 1]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist()))
