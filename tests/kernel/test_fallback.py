"""Without the C++ kernel: the same hops by torch, and one warning."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from gamlp.kernel import BLOCK, HopTask, build_csr, hop, nonzero_rows, scale
from gamlp.kernel.native import native
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Operator, Plan
from tests.conformance import dense

Array = np.ndarray[Any, Any]
WITHOUT = {**os.environ, "GAMLP_NO_KERNEL": "1"}


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=WITHOUT, capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("csr", "hop_task", "dtypes"):
        monkeypatch.setattr(sys.modules[f"gamlp.kernel.{module}"], "native", lambda: None)


@pytest.mark.slow
def test_the_command_line_works_and_warns_once(tmp_path: Path) -> None:
    words = ["-m", "gamlp.cli.main", "propagate", "digits", "--hops", "3", "--label-folds", "2", "--out"]
    ran = run(*words, str(tmp_path / "torch"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("gamlp: warning: gamlp's C++ kernel is absent") and ran.stderr.count("\n") == 1
    subprocess.run([sys.executable, *words, str(tmp_path / "kernel")], check=True, capture_output=True)
    ours, theirs = HopStore.open(tmp_path / "kernel"), HopStore.open(tmp_path / "torch")
    assert set(ours.signals) == set(theirs.signals) == {"features", "labels", "crossfit"}
    for name, signal in ours.signals.items():
        count = signal.entry.count
        assert np.allclose(theirs.signals[name].read(0, count), signal.read(0, count), rtol=1e-5, atol=1e-5), name
    assert theirs.damaged() == []


def test_a_missing_extension_warns_as_the_variable_does() -> None:
    """Where the extension was not built there is no module to import."""
    code = (
        "import sys; sys.modules['gamlp.kernel._native'] = None\n"
        "from gamlp.kernel import instructions\n"
        "print(instructions(), instructions())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GAMLP_NO_KERNEL"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "torch torch\n"
    assert ran.stderr.count("kernel is absent") == 1


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_hops_are_powers_of_the_dense_operator(
    no_kernel: None, tmp_path: Path, dtype: str, weighted: bool, directed: bool
) -> None:
    random = np.random.default_rng(4)
    edges = random.integers(0, 30, (2, 90))
    weights = random.integers(1, 9, 90) / 4 if weighted else None
    x, labels = random.normal(size=(30, 11)).astype(np.float32), random.integers(0, 3, 30)
    split = Split.of(30, train=np.arange(10), valid=np.arange(10, 15), test=np.arange(15, 22))
    graph = Graph.from_arrays(edges, x, labels, weights=weights, directed=directed, split=split)
    plan = Plan(
        features=FeatureSignal(hops=3, operator=Operator(r=0.3), dtype=dtype),
        labels=LabelSignal(hops=2, operator=Operator(r=0.3), dtype=dtype),
        rows="split",
    )
    pairs = [(int(a), int(b)) for a, b in edges.T]
    matrix = dense.operator(
        dense.adjacency(30, pairs, None if weights is None else weights.tolist(), directed=directed), 0.3, True
    )
    first = np.zeros((30, 3))
    first[np.arange(10), labels[:10]] = 1
    found = LocalPropagator(threads=2).propagate(graph, plan, tmp_path / "store").gather(np.arange(22))
    limit = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype] * np.abs(x).max()
    assert np.abs(found.x[:, 0] - dense.hops(matrix, x, 3)[:22]).max() < limit
    assert np.abs(found.y[:, 0] - dense.hops(matrix, first, 2)[:22]).max() < limit


def tasks(storage: str) -> tuple[HopTask, HopTask, HopTask]:
    """All rows of a block, some of them, and rows of which one has 3,000 neighbours and one none."""
    random = np.random.default_rng(5)
    offsets, neighbours, weights = build_csr(
        *random.integers(0, 40, (2, 300)), random.random(300, np.float32), start=10, stop=30, symmetric=True
    )
    src = random.normal(size=(40, 16)).astype(np.float32)
    if storage != "float32":
        bits = np.zeros((40, 16), np.uint16)
        scale(src, "float32", bits, storage)
        src = bits
    factors = random.random(40, np.float32)
    all_rows = HopTask(offsets, neighbours, weights, factors, 10, True, src, np.zeros_like(src), storage)
    rows = np.array([11, 12, 20, 29])
    lengths = [5, 3000, 0, BLOCK, BLOCK - 1, BLOCK + 1, 2 * BLOCK]
    near = [np.sort(random.choice(np.arange(10, 4000), size, False)) for size in lengths]
    long_src = np.zeros((4000, 16), src.dtype)
    scale(random.random((4000, 16), np.float32), "float32", long_src, storage)
    long_rows = HopTask(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(near).astype(np.int32),
        random.random(sum(lengths), np.float32),
        random.random(4000, np.float32),
        0,
        True,
        long_src,
        np.zeros_like(long_src),
        storage,
    )
    return all_rows, replace(all_rows, rows=rows, dst=np.zeros((4, 16), src.dtype)), long_rows


@pytest.mark.skipif(native() is None, reason="the C++ kernel was not built")
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
def test_one_hop_has_the_kernels_bytes(
    monkeypatch: pytest.MonkeyPatch, storage: str, weighted: bool, loops: bool
) -> None:
    """Self-loops in their place among the neighbours, long rows in the same blocks, rows without any entry."""
    for task, count in zip(tasks(storage), (20, 4, 7)):
        task = replace(task, loops=loops, weights=task.weights if weighted else None)
        assert hop(task, 0, count) == 0
        other = replace(task, dst=np.zeros_like(task.dst))
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["gamlp.kernel.hop_task"], "native", lambda: None)
            assert hop(other, 0, count) == 0
        assert task.dst.any()
        assert task.dst.tobytes() == other.dst.tobytes()


def test_a_row_longer_than_blocks_of_blocks_has_the_kernels_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    random, count = np.random.default_rng(1), BLOCK**2 + 3000
    src = random.random((count, 8), np.float32)
    task = HopTask(
        np.array([0, count, count]), np.arange(count, dtype=np.int32), None, None, 0, False, src, np.zeros_like(src)
    )
    hop(task, 0, 2)
    other = replace(task, dst=np.zeros_like(src))
    monkeypatch.setattr(sys.modules["gamlp.kernel.hop_task"], "native", lambda: None)
    hop(other, 0, 2)
    assert task.dst[0].all() and task.dst.tobytes() == other.dst.tobytes()


def test_overflow_is_counted_as_the_kernel_counts_it(no_kernel: None) -> None:
    into = np.zeros((2, 3), np.uint16)
    values = np.array([[7e4, 1.0, -1e9], [65504.0, np.inf, 0.0]], np.float32)
    assert scale(values, "float32", into, "float16") == 3
    assert scale(values, "float32", into, "bfloat16") == 1  # infinity alone


def test_values_that_become_zero_are_counted_as_the_kernel_counts_them(no_kernel: None) -> None:
    into = np.zeros((2, 3), np.uint16)
    values = np.array([[1e-8, 0.0, -1e-9], [1.0, 2e-8, 6e-8]], np.float32)
    by_row, by_column = np.array([0, 1.5e-8], np.float32), np.full(3, 5e-9, np.float32)
    assert scale(values, "float32", into, "float16") == 0
    assert scale(values, "float32", into, "float16", row_floors=by_row) == 3
    assert scale(values, "float32", into, "float16", column_floors=by_column) == 2
    task = tasks("float16")[0]
    tiny = replace(task, factors=np.full(40, 1e-9, np.float32), floors=np.zeros(40, np.float32))
    assert hop(replace(tiny, floors=None), 0, 20) == 0
    assert hop(tiny, 0, 20) > 0


@pytest.mark.slow
def test_read_only_features_are_taken_without_a_second_warning(tmp_path: Path) -> None:
    Graph.from_arrays([[0, 1], [1, 2]], np.eye(3)).save(tmp_path / "graph")
    ran = run("-m", "gamlp.cli.main", "propagate", str(tmp_path / "graph"), "--out", str(tmp_path / "store"))
    assert ran.returncode == 0 and ran.stderr.count("\n") == 1


def test_bits_of_rows_need_no_kernel_and_change_nothing(no_kernel: None) -> None:
    values = np.zeros((19, 16), np.float16)
    values[[2, 18], [3, 15]] = 1
    assert np.flatnonzero(np.unpackbits(nonzero_rows(values), bitorder="little")).tolist() == [2, 18]
    task, _, _ = tasks("float32")
    task.src[::2] = 0
    other = replace(task, dst=np.zeros_like(task.dst), nonzero=nonzero_rows(task.src))
    assert hop(task, 0, 20) == hop(other, 0, 20) == 0
    assert other.dst.tobytes() == task.dst.tobytes()
