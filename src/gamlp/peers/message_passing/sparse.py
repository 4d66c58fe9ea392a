"""Sparse matrices that messages are passed with: products by CSR, backwards by a transpose that is made once.

torch's own gradient of (CSR · dense) builds the transpose at every step: seven times the product itself (500,000
entries, width 64). Here it is sorted once for a graph and only its values are put in order.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.kernel import LANES, HopTask, hop, instructions
from gamlp.peers.message_passing.dropping import Among, dropped
from gamlp.peers.tensors import GraphTensors

_WIDE, _FEW_THREADS = 16, 2  # columns from which on, and threads up to which, gamlp's loop is no slower than torch's


@dataclass(frozen=True)
class Pattern:
    """Where a matrix has entries, by rows; `columns` int32, ascending within a row."""

    shape: tuple[int, int]
    offsets: Tensor
    columns: Tensor

    @property
    def entries(self) -> int:
        return len(self.columns)

    @cached_property
    def transposed(self) -> tuple[Pattern, Array]:
        """Of the other side, and the order in which the entries stand there."""
        numbers = np.arange(self.entries, dtype=np.int32)
        other = scipy.sparse.csr_matrix((numbers, self.columns.numpy(), self.offsets.numpy()), self.shape).tocsc()
        offsets, columns = torch.from_numpy(other.indptr), torch.from_numpy(other.indices)
        return Pattern((self.shape[1], self.shape[0]), offsets, columns), other.data.astype(np.int64)

    @cached_property
    def lengths(self) -> Tensor:
        """Entries of every row, int64."""
        return self.offsets.diff().long()

    @cached_property
    def rows(self) -> Tensor:
        """Row of every entry, int32."""
        return torch.repeat_interleave(torch.arange(self.shape[0], dtype=torch.int32), self.lengths)

    @cached_property
    def _places(self) -> Array:
        return self.columns.numpy().astype(np.int64)

    def by_row(self, values: Tensor) -> Tensor:
        """Of values of rows `[rows, h]`, that of every entry's row. numpy's takes a fifth of torch's time."""
        return torch.from_numpy(np.repeat(values.numpy(), self.lengths.numpy(), axis=0))

    def by_column(self, values: Tensor) -> Tensor:
        """Of values of columns `[columns, h]`, that of every entry's column."""
        return taken(values, self._places)

    @cached_property
    def targets(self) -> Matrix:
        """[entries, rows]: T a gives every entry its row's value, and Tᵀ e adds up the entries of every row."""
        return self._incidence(self.rows, self.shape[0])

    @cached_property
    def sources(self) -> Matrix:
        """[entries, columns]: S a gives every entry its column's value."""
        return self._incidence(self.columns, self.shape[1])

    def _incidence(self, ends: Tensor, nodes: int) -> Matrix:
        offsets = torch.arange(self.entries + 1, dtype=torch.int32)
        return Matrix(Pattern((self.entries, nodes), offsets, ends), torch.ones(self.entries))

    @cached_property
    def _csr(self) -> tuple[Array, Array]:
        """Offsets and columns as gamlp's kernel reads them."""
        return self.offsets.numpy().astype(np.int64), self.columns.numpy()

    def product(self, values: Tensor, dense: Tensor) -> Tensor:
        """The matrix of these values times dense `[columns, d]`.

        gamlp's own loop takes half the time of torch's where rows are wide (500,000 entries, width 64, one thread);
        it has one thread, so that it is no match for many of torch's.
        """
        width = dense.shape[1]
        suits = width >= _WIDE and width % LANES == 0 and self.entries and torch.get_num_threads() <= _FEW_THREADS
        if not suits or {dense.dtype, values.dtype} != {torch.float32} or instructions() == "torch":
            return self.filled(values) @ dense.contiguous()
        offsets, columns = self._csr
        found = np.empty((self.shape[0], width), np.float32)
        source = dense.detach().contiguous().numpy()
        task = HopTask(offsets, columns, values.detach().contiguous().numpy(), None, 0, False, source, found)
        hop(task, 0, self.shape[0])
        return torch.from_numpy(found)

    def filled(self, values: Tensor) -> Tensor:
        """As torch's CSR."""
        _hear_warning()
        return torch.sparse_csr_tensor(self.offsets, self.columns, values, self.shape, check_invariants=False)


@cache
def _hear_warning() -> None:
    """torch warns of its first CSR alone: it is made here, so that no product has to set up filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        places, none = torch.zeros(2, dtype=torch.int64), torch.zeros(0)
        torch.sparse_csr_tensor(places, none.long(), none, (1, 1), check_invariants=False)


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix without gradient of its own; `times` has one for what it is multiplied with."""

    pattern: Pattern
    values: Tensor
    _kept: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @property
    def turned(self) -> Tensor:
        """The values in the transpose's order."""
        if "turned" not in self._kept:
            self._kept["turned"] = taken(self.values, self.pattern.transposed[1])
        return self._kept["turned"]

    @property
    def transposed(self) -> Matrix:
        other, _ = self.pattern.transposed
        return Matrix(other, self.turned)

    def times(self, dense: Tensor) -> Tensor:
        """M · dense `[columns, d]`."""
        found: Tensor = _Times.apply(dense, self)  # type: ignore[no-untyped-call]
        return found

    def dropped(self, share: float, training: bool, among: Among | None = None) -> Matrix:
        """Dropout on what is not zero."""
        if not training or not share:
            return self
        return replace(self, values=dropped(self.values, share, training, among), _kept={})


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, dense: Tensor, matrix: Matrix) -> Tensor:
        context.matrix = matrix
        return matrix.pattern.product(matrix.values, dense)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        matrix: Matrix = context.matrix
        other, _ = matrix.pattern.transposed
        return other.product(matrix.turned, gradient), None


def taken(values: Tensor, places: Array) -> Tensor:
    """values[places] by rows, without gradient. numpy's takes a third of torch's time."""
    return torch.from_numpy(values.numpy().take(places, axis=0))


def from_triples(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Matrix:
    """Entries in any order; several in one place are added up."""
    triples = scipy.sparse.coo_matrix((values.numpy(), (rows.numpy(), columns.numpy())), shape)
    return _of_scipy(triples.tocsr())


def _of_scipy(matrix: Any) -> Matrix:
    matrix.sort_indices()
    offsets, columns = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    pattern = Pattern((int(matrix.shape[0]), int(matrix.shape[1])), offsets, columns)
    return Matrix(pattern, torch.from_numpy(matrix.data.astype(np.float32)))


def features_of(tensors: GraphTensors) -> Tensor | Matrix:
    """x of the graph: dense, or as a sparse matrix, made once."""
    if tensors.x.layout != torch.sparse_csr:
        return tensors.x
    if "features" not in tensors.kept:
        tensors.kept["features"] = sparse(tensors.x)
    found: Matrix = tensors.kept["features"]
    return found


def sparse(x: Tensor) -> Tensor | Matrix:
    """torch's CSR as a sparse matrix; a dense tensor as it is."""
    if x.layout != torch.sparse_csr:
        return x
    pattern = Pattern((x.shape[0], x.shape[1]), x.crow_indices().int(), x.col_indices().int())
    return Matrix(pattern, x.values())


def adjacency(tensors: GraphTensors, kind: str) -> Matrix:
    """A of the graph, row i = what node i hears, made once.

    `symmetric`: D^-1/2 (A + I) D^-1/2, D the row sums of A + I; `mean`: D^-1 A; `loops`: A + I; `plain`: A.
    """
    key = f"adjacency {kind}"
    if key not in tensors.kept:
        tensors.kept[key] = _adjacency(tensors, kind)
    found: Matrix = tensors.kept[key]
    return found


def _adjacency(tensors: GraphTensors, kind: str) -> Matrix:
    source, target = tensors.edges
    weights = torch.ones(tensors.edges.shape[1]) if tensors.weights is None else tensors.weights
    if kind in ("symmetric", "loops"):
        own = torch.arange(tensors.nodes)
        source, target = torch.cat([source, own]), torch.cat([target, own])
        weights = torch.cat([weights, torch.ones(tensors.nodes)])
    matrix = from_triples(target, source, weights, (tensors.nodes, tensors.nodes))
    if kind in ("plain", "loops"):
        return matrix
    degrees = matrix.pattern.targets.transposed.times(matrix.values[:, None]).ravel()
    power = -0.5 if kind == "symmetric" else -1.0
    scale = torch.where(degrees > 0, degrees.abs().pow(power), 0.0)
    values = matrix.values * matrix.pattern.targets.times(scale[:, None]).ravel()
    if kind == "symmetric":
        values = values * matrix.pattern.sources.times(scale[:, None]).ravel()
    return Matrix(matrix.pattern, values)
