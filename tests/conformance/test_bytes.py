"""Same bytes: any engine setting, any number of threads or column blocks, killed and resumed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gamlp.graph import Graph, Split
from gamlp.kernel import BLOCK
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Operator, Plan, Propagator
from gamlp.propagation.passes import FIXED
from tests.conformance.engines import ENGINES, BlocksHere


def fingerprints(store: Path) -> dict[str, str]:
    """Every file of a store but its lock."""
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """64 nodes fit the tiny budget of the suites eight columns at a time."""
    rng = np.random.default_rng(1)
    split = Split.of(64, train=np.arange(20), valid=np.arange(20, 30), test=np.arange(30, 50))
    made = Graph.from_arrays(
        rng.integers(0, 64, (2, 300)), rng.normal(size=(64, 37)), rng.integers(0, 6, 64), split=split
    )
    return made.save(tmp_path_factory.mktemp("graph") / "graph")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", ["all", "split"])
@pytest.mark.parametrize("operator", [Operator(r=0.5), Operator(r=0.2)], ids=["same operator", "two operators"])
def test_all_settings_write_the_same_bytes(
    graph: Graph, tmp_path: Path, dtype: str, rows: str, operator: Operator
) -> None:
    plan = Plan(
        features=FeatureSignal(hops=5, dtype=dtype),
        labels=LabelSignal(hops=7, dtype=dtype, folds=3, operator=operator),
        rows=rows,
    )
    found = {}
    for index, make in enumerate(ENGINES.values()):
        make().propagate(graph, plan, tmp_path / str(index))
        found[index] = fingerprints(tmp_path / str(index))
    assert len(found[0]) >= 6
    assert all(prints == found[0] for prints in found.values())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_rows_longer_than_a_block_are_the_same_bytes_in_every_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weighted: bool, dtype: str
) -> None:
    """A hub in the middle of 300 nodes: sources that come some at a time, columns, threads and torch end alike."""
    rng, count = np.random.default_rng(5), 300
    assert count > 2 * BLOCK
    hub = np.stack([np.full(count, 150), np.arange(count)])
    edges = np.concatenate([hub, rng.integers(0, count, (2, 900))], 1)
    weights = rng.uniform(0.1, 3, edges.shape[1]).astype(np.float32) if weighted else None
    graph = Graph.from_arrays(edges, rng.normal(size=(count, 21)), weights=weights).save(tmp_path / "graph")
    plan = Plan(features=FeatureSignal(hops=3, dtype=dtype))
    out_of_core = FIXED + 20 * count + 2 * count * 8 * 4
    engines: list[Propagator] = [
        LocalPropagator(threads=1),
        LocalPropagator(threads=5),
        LocalPropagator(memory=out_of_core, threads=2),
        BlocksHere(),
        BlocksHere(memory=20_000),
    ]
    for index, engine in enumerate(engines):
        engine.propagate(graph, plan, tmp_path / str(index))
    for module in ("csr", "hop_task", "dtypes"):
        monkeypatch.setattr(sys.modules[f"gamlp.kernel.{module}"], "native", lambda: None)
    LocalPropagator(threads=2).propagate(graph, plan, tmp_path / "torch")
    first = fingerprints(tmp_path / "0")
    assert all(fingerprints(tmp_path / name) == first for name in ["1", "2", "3", "4", "torch"])


_RUN = """
import sys
from pathlib import Path
from gamlp.graph import Graph
from gamlp.propagation import *
graph, store, memory, rows = sys.argv[1:]
plan = Plan(features=FeatureSignal(hops=6), labels=LabelSignal(hops=4), rows=rows)
print("ready", flush=True)
engine = LocalPropagator(memory=int(memory) or None, threads=2, checkpoint_seconds=0.0)
engine.propagate(Graph.open(graph), plan, Path(store))
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["all", pytest.param("split", marks=pytest.mark.long)])
@pytest.mark.parametrize("columns", [None, 40], ids=["in memory", "out of core"])
def test_killed_at_random_moments_a_run_resumes_to_the_same_bytes(
    tmp_path: Path, rows: str, columns: int | None
) -> None:
    count = 60_000
    rng = np.random.default_rng(2)
    split = Split.of(count, train=np.arange(9000), valid=np.arange(9000, 20_000), test=np.arange(20_000, 50_000))
    graph = Graph.from_arrays(
        rng.integers(0, count, (2, 400_000)),
        rng.normal(size=(count, 100)).astype(np.float32),
        rng.integers(0, 7, count),
        split=split,
    ).save(tmp_path / "graph")
    memory = 0 if columns is None else (64 << 20) + 20 * count + 2 * count * 4 * columns
    plan = Plan(features=FeatureSignal(hops=6), labels=LabelSignal(hops=4), rows=rows)
    began = time.monotonic()
    LocalPropagator(memory=memory or None, threads=2).propagate(graph, plan, tmp_path / "unbroken")
    whole = time.monotonic() - began
    moments = random.Random(3)
    killed = 0
    for _ in range(4):
        command = [sys.executable, "-c", _RUN, str(tmp_path / "graph"), str(tmp_path / "broken"), str(memory), rows]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, whole))
        if done := process.poll() is not None:  # quicker than the measured run: earlier from now on
            whole /= 4
        else:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        process.stdout.close()
        if done:
            shutil.rmtree(tmp_path / "broken")
    assert killed > 0
    LocalPropagator(memory=memory or None, threads=2).propagate(graph, plan, tmp_path / "broken")
    assert fingerprints(tmp_path / "broken") == fingerprints(tmp_path / "unbroken")
    assert HopStore.open(tmp_path / "broken").damaged() == []


def test_a_resumed_run_does_not_begin_anew(tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after hop 4 of 6 with all rows kept, the second run computes hops 5 and 6 alone."""
    import gamlp.propagation.local.hops as moving

    plan = Plan(features=FeatureSignal(hops=6))
    original = moving.PassRun._sum_rows
    computed: list[int] = []

    def stop_after_four(self: moving.PassRun, k: int, *rest: object) -> None:
        if len(computed) == 4:
            raise KeyboardInterrupt
        computed.append(k)
        original(self, k, *rest)

    monkeypatch.setattr(moving.PassRun, "_sum_rows", stop_after_four)
    engine = LocalPropagator(checkpoint_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        engine.propagate(graph, plan, tmp_path / "store")
    again: list[int] = []

    def note(self: moving.PassRun, k: int, *rest: object) -> None:
        again.append(k)
        original(self, k, *rest)

    monkeypatch.setattr(moving.PassRun, "_sum_rows", note)
    engine.propagate(graph, plan, tmp_path / "store")
    assert computed == [1, 2, 3, 4]
    assert again == [5, 6]
