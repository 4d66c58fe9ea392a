"""Kernels side by side: one hop, and from COO arrays to five hops in memory."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import SIGN

from gamlp.arrays import Array
from gamlp.graph import Features, Graph
from gamlp.io import even_ranges, parallel_map, usable_cores
from gamlp.kernel import LANES, HopTask, hop, scale
from gamlp.propagation import FeatureSignal, Operator, allocate, factors, hops_in_memory
from loops import missed_rows
from machine import best, last_cache, reader

warnings.filterwarnings("ignore", message=".*[Ss]parse.*")


def rounds_of(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Each contestant's best; they take turns, so that a slow minute of the machine hits all."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            begun = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begun)
    return {name: min(found) for name, found in times.items()}


def one_hop(graph: Graph, rounds: int) -> dict[str, Any]:
    """Â X with Â = D^(-1/2) (A + I) D^(-1/2) for all."""
    x = np.array(graph.nodes.features.read(slice(None)))  # in memory, not mapped
    torch.set_num_threads(usable_cores())
    matrix = _normalised(graph)
    as_torch = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
    )
    dense = torch.from_numpy(x)
    full, half = OurHop(graph, "float32"), OurHop(graph, "float16")
    for one, close in ((full, 1e-4), (half, 2e-2)):  # a contestant that does nothing is fast
        one()
        assert np.allclose(one.rows(1000), matrix[:1000] @ x, rtol=close, atol=close)
    matter = _matter(graph)
    found = rounds_of(
        {
            "ours, float32": full,
            "ours, float16": half,
            "torch CSR": lambda: as_torch @ dense,
            "scipy": lambda: matrix @ x,
            "reading 1 GiB": reader(),
        },
        rounds,
    )
    found.pop("reading 1 GiB")
    ratios = {
        "torch CSR / ours": found["torch CSR"] / found["ours, float32"],
        "scipy / ours": found["scipy"] / found["ours, float32"],
        "torch CSR / ours float16": found["torch CSR"] / found["ours, float16"],
    }
    show("one hop", found, ratios)
    return {"seconds": found, "ratios": ratios, "moved": {dtype: matter[dtype] for dtype in ("float32", "float16")}}


def set_bounds(hop: dict[str, Any], bandwidth: float) -> None:
    """The bound of a hop by the fastest reading of the whole run, whatever was read beside this contest."""
    for dtype, moved in hop["moved"].items():
        seconds = hop["seconds"][f"bound, {dtype}"] = moved["bytes"] / bandwidth
        name = "ours / bound" if dtype == "float32" else f"ours / bound {dtype}"
        hop["ratios"][name] = hop["seconds"][f"ours, {dtype}"] / seconds


def _matter(graph: Graph) -> dict[str, dict[str, float]]:
    """What a hop must bring from memory: ids and offsets once, sums once, and the rows that a cache has not.

    Rows of neighbours are counted in whole lines, where they are not among those that were read last and fill the
    largest cache; distinct rows are what a cache without end would miss, gathered rows what none would.
    """
    n, entries, width = graph.nodes.count, graph.relation.entries, graph.nodes.features.width
    neighbours = np.ascontiguousarray(np.concatenate([block.neighbours for block in graph.relation.blocks]))
    distinct = int(np.count_nonzero(np.bincount(neighbours, minlength=n)))
    found = {}
    for dtype, size in (("float32", 4), ("float16", 2)):
        row = -(-width // 8) * 8 * size
        lines = -(-row // 64) * 64
        missed = missed_rows(neighbours, last_cache() // lines)
        found[dtype] = {
            "gathered": entries * lines,
            "missed": missed * lines,
            "distinct": distinct * lines,
            "bytes": missed * lines + 4 * entries + 8 * n + n * row,
        }
    return found


def sharing(graph: Graph, rounds: int) -> dict[str, float]:
    """A hop of two signals apart and together, state matrices in memory; the engine shares the first pair alone."""
    found = rounds_of({str(columns): _hop_of(graph, columns) for columns in (16, 48, 64, 80, 112)}, rounds)
    ratios = {
        f"{wide} + {narrow} columns, apart / together": (found[str(wide)] + found[str(narrow)])
        / found[str(wide + narrow)]
        for wide, narrow in ((64, 16), (64, 48))
    }
    show("sharing a pass", {}, ratios)
    return ratios


def from_coo(graph: Graph, hops: int, rounds: int) -> dict[str, Any]:
    """The same COO arrays in memory → CSR → all hops in memory; no self-loops, as SIGN has it."""
    edge_index = np.concatenate([np.stack([row, other]) for row, other, _ in graph.relation.edges()], axis=1)
    edge_index = np.ascontiguousarray(
        edge_index[:, np.random.default_rng(0).permutation(edge_index.shape[1])], np.int64
    )
    x = np.array(graph.nodes.features.read(slice(None)))  # in memory, not mapped
    data = Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edge_index), num_nodes=len(x))

    def hops_from_coo(dtype: str) -> Callable[[], object]:
        plan = FeatureSignal(hops=hops, operator=Operator(loops=False), dtype=dtype)
        # The arrays hold both directions already, as PyG has it: nothing is to be reversed.
        return lambda: hops_in_memory(Graph.from_arrays(edge_index, x, directed=True), plan)

    found = rounds_of(
        {
            "ours, float32": hops_from_coo("float32"),
            "ours, float16": hops_from_coo("float16"),
            "PyG SIGN": lambda: SIGN(hops)(data.clone()),
        },
        rounds,
    )
    ratios = {
        "SIGN / ours": found["PyG SIGN"] / found["ours, float32"],
        "SIGN / ours float16": found["PyG SIGN"] / found["ours, float16"],
    }
    show(f"COO to {hops} hops in memory", found, ratios)
    return {"seconds": found, "ratios": ratios}


def show(title: str, seconds: dict[str, float], ratios: dict[str, float]) -> None:
    """A small table: contestants by seconds, then ratios."""
    print(f"-- {title}")
    for name, value in seconds.items():
        print(f"   {name:<28}{value:9.3f} s")
    for name, value in ratios.items():
        print(f"   {name:<28}{value:9.2f} x")


def _normalised(graph: Graph) -> scipy.sparse.csr_matrix:
    n = graph.nodes.count
    blocks = graph.relation.blocks
    offsets = np.concatenate([[0], *(np.diff(block.offsets) for block in blocks)]).cumsum()
    neighbours = np.concatenate([block.neighbours for block in blocks])
    plain = scipy.sparse.csr_matrix((np.ones(len(neighbours), np.float32), neighbours, offsets), shape=(n, n))
    plain = (plain + scipy.sparse.identity(n, np.float32, "csr")).tocsr()
    inverse = scipy.sparse.diags(np.asarray(plain.sum(1)).ravel() ** -0.5).astype(np.float32)
    return (inverse @ plain @ inverse).tocsr().astype(np.float32)


def _hop_of(graph: Graph, columns: int) -> Callable[[], object]:
    random = np.random.default_rng(0)
    x = random.random((graph.nodes.count, columns), dtype=np.float32)
    nodes = replace(graph.nodes, features=Features(x))
    return OurHop(replace(graph, node_types={graph.target: nodes}), "float32")


class OurHop:
    """One hop of all rows by all cores, states in memory: the kernel as the engine calls it, and nothing else."""

    def __init__(self, graph: Graph, dtype: str) -> None:
        features, cores = graph.nodes.features, usable_cores()
        self.width = features.width
        self.factors = factors(graph.relation, Operator(), graph.nodes.count)
        src, self.dst = (allocate(graph.nodes.count, -(-self.width // LANES) * LANES, dtype) for _ in range(2))
        scale(
            np.array(features.read(slice(None))),
            "float32",
            src[:, : self.width],
            dtype,
            row_factors=self.factors.enter,
        )
        self.dst[:] = 0
        self.parts = []
        for block in graph.relation.blocks:
            offsets, neighbours = np.asarray(block.offsets), np.asarray(block.neighbours)
            task = HopTask(offsets, neighbours, None, self.factors.step, block.start, True, src, self.dst, dtype)
            count = max(cores, min(len(neighbours) // 100_000, 64 * cores))
            self.parts += [(task, *limits) for limits in even_ranges(offsets, count)]
        ways = {near: [(replace(task, near=near), *limits) for task, *limits in self.parts] for near in (False, True)}
        seconds = {}
        for near, self.parts in ways.items():  # the engine compares them too, by ranges of its second hop
            self()
            seconds[near] = best(self, 2)
        self.parts = ways[min(seconds, key=lambda near: seconds[near])]

    def __call__(self) -> None:
        for lost in parallel_map(usable_cores(), lambda part: hop(*part), self.parts):
            assert lost == 0

    def rows(self, count: int) -> Array:
        """The first rows of X^(1)."""
        return np.asarray(self.dst[:count, : self.width] * self.factors.leave[:count, None], np.float32)
