"""Twelve hops of one graph folder by scipy, torch, DGL or PyG's SIGN, each written as carefully as it can be.

    python benchmarks/hops_of_peers.py scipy GRAPH HOPS

X^(k) = Â X^(k-1), Â = D^(-1/2) (A + I) D^(-1/2). scipy, torch and DGL hold two matrices at a time, and of every hop
copy the rows that train or validate, which is all that training reads. SIGN has no such choice: it keeps every hop of
every row, and normalises without self-loops. All read the same arrays: int32 neighbours, float32 features.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contained import tell
from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.graph.graph import ROLES
from gamlp.io import usable_cores


@dataclass(frozen=True)
class Arrays:
    """A graph in memory: CSR, features, the rows that are asked for, and d^(-1/2) of every node."""

    offsets: Array
    neighbours: Array
    x: Array
    kept: Array
    inverse: Array

    @property
    def count(self) -> int:
        return len(self.x)


def read_arrays(folder: Path) -> Arrays:
    graph = Graph.open(folder)
    blocks, split = graph.relation.blocks, graph.nodes.split
    assert graph.nodes.features is not None and split is not None
    degrees = graph.relation.degrees()
    offsets = np.concatenate([[0], np.cumsum(degrees)])
    neighbours = np.empty(int(offsets[-1]), np.int32)
    at = 0
    for block in blocks:
        neighbours[at : at + block.entries] = block.neighbours
        at += block.entries
    kept = np.flatnonzero((split.roles == ROLES.index("train")) | (split.roles == ROLES.index("valid")))
    x = np.array(graph.nodes.features.read(slice(None)), np.float32)
    return Arrays(offsets, neighbours, x, kept, ((degrees + 1.0) ** -0.5).astype(np.float32))


def _hops(arrays: Arrays, hops: int, step: Callable[[Any], Any], x: Any) -> None:
    """Kept rows of every hop, one after the other."""
    kept = [x[arrays.kept]]
    for hop in range(1, hops + 1):
        x = step(x)
        kept.append(x[arrays.kept])
        # Of the last hop, which any mistake before it would change.
        _tell(f"hop {hop}", **({"mean": float(abs(kept[-1]).mean())} if hop == hops else {}))


def _values(arrays: Arrays) -> Array:
    """Of entry (i, j): d_i^(-1/2) d_j^(-1/2), made without a second array of its size."""
    values = np.take(arrays.inverse, arrays.neighbours)
    for begin in range(0, arrays.count, 1 << 20):
        end = min(arrays.count, begin + (1 << 20))
        own = slice(int(arrays.offsets[begin]), int(arrays.offsets[end]))
        values[own] *= np.repeat(arrays.inverse[begin:end], np.diff(arrays.offsets[begin : end + 1]))
    return values


def by_scipy(arrays: Arrays, hops: int) -> None:
    import scipy.sparse

    matrix = scipy.sparse.csr_matrix(
        (_values(arrays), arrays.neighbours, _narrow(arrays.offsets)), shape=(arrays.count, arrays.count), copy=False
    )
    own = (arrays.inverse**2)[:, None]
    _tell("matrix made")

    def step(x: Array) -> Array:
        found: Array = matrix @ x
        x *= own
        found += x
        return found

    _hops(arrays, hops, step, arrays.x.copy())


def by_torch(arrays: Arrays, hops: int) -> None:
    import torch

    torch.set_num_threads(usable_cores())
    offsets = torch.from_numpy(_narrow(arrays.offsets))
    parts = (offsets, torch.from_numpy(arrays.neighbours), torch.from_numpy(_values(arrays)))
    matrix = torch.sparse_csr_tensor(*parts, size=(arrays.count, arrays.count))
    own = torch.from_numpy(arrays.inverse**2)[:, None]
    _tell("matrix made")

    def step(x: Any) -> Any:
        found = matrix @ x
        x *= own
        found += x
        return found

    _hops(arrays, hops, step, torch.from_numpy(arrays.x))


def by_dgl(arrays: Arrays, hops: int) -> None:
    import dgl
    import torch

    torch.set_num_threads(usable_cores())
    offsets, neighbours = torch.from_numpy(_narrow(arrays.offsets)), torch.from_numpy(arrays.neighbours)
    parts = offsets, neighbours, torch.tensor([], dtype=torch.int32)
    graph = dgl.graph(("csc", parts), num_nodes=arrays.count)
    inverse = torch.from_numpy(arrays.inverse)[:, None]
    _tell("graph made")

    def step(x: Any) -> Any:
        x *= inverse
        found = dgl.ops.copy_u_sum(graph, x)
        found += x
        found *= inverse
        return found

    _hops(arrays, hops, step, torch.from_numpy(arrays.x))


def by_sign(arrays: Arrays, hops: int) -> None:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import SIGN

    torch.set_num_threads(usable_cores())
    edge_index = torch.empty((2, len(arrays.neighbours)), dtype=torch.int64)
    edge_index[0] = torch.from_numpy(np.repeat(np.arange(arrays.count, dtype=np.int32), np.diff(arrays.offsets)))
    edge_index[1] = torch.from_numpy(arrays.neighbours)
    data = Data(x=torch.from_numpy(arrays.x), edge_index=edge_index, num_nodes=arrays.count)
    _tell("edge_index made")
    SIGN(hops)(data)
    _tell(f"hop {hops}")


def _narrow(offsets: Array) -> Array:
    """int32 where that is enough: then scipy and torch copy no neighbours to int64."""
    return offsets.astype(np.int32) if offsets[-1] < 2**31 else offsets


def _tell(step: str, **more: float) -> None:
    tell(step=step, seconds=round(time.perf_counter() - _BEGUN, 1), **more)


PEERS = {"scipy": by_scipy, "torch CSR": by_torch, "DGL": by_dgl, "PyG SIGN": by_sign}
_BEGUN = time.perf_counter()

if __name__ == "__main__":
    read = read_arrays(Path(sys.argv[2]))
    _tell("graph read")
    PEERS[sys.argv[1]](read, int(sys.argv[3]))
