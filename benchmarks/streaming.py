"""Training and evaluation that read their rows from a store, in processes of their own: memory, time, where it goes.

`python benchmarks/streaming.py JOB '{"store": …}'` is one such process, and prints what it found as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import available_memory
from gamlp.io.memory import anonymous_memory
from gamlp.models import GAMLP, Shape
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Plan
from gamlp.recipe import TrainingSettings
from gamlp.training.batches import Batch, Batches, HopRows
from gamlp.training.loop import Machine, _Run
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.scores import evaluate

CPU = torch.device("cpu")
GROUPS = Path("/sys/fs/cgroup/memory")  # version 1; where there is none, or it may not be written, nothing is limited
PAPERS: dict[str, Any] = {  # of the shipped recipe ogbn-papers100m-jk but for the width
    "attention": "jk", "layers": 6, "jk_layers": 4, "activation": "sigmoid", "attention_dropout": 0.5, "dropout": 0.5,
    "batch_norm": True, "hop_mlp": True, "initial_residual": 0.5, "label_layers": 4,
}  # fmt: skip
PLAIN: dict[str, Any] = {"attention": "recursive", "layers": 4, "label_layers": 4, "dropout": 0.5}
KINDS = {  # of operators, by what their names begin with
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv"),
    "batch norm": ("aten::native_batch_norm",),
    "dropout and ReLU": ("aten::threshold", "aten::random", "aten::clamp", "aten::bernoulli", "ReluMask", "Masked"),
    "copies": ("aten::copy",),
    "Adam": ("aten::_fused_adam",),
}


def large_store(folder: Path, rows: int, *, quick: bool) -> Path:
    """Hops of ogbn-papers100M's shape in float16: K = 12 of 128 features, L = 10 of 172 classes; 7.1 KB a row."""
    features, classes, hops, label_hops = (8, 6, 3, 2) if quick else (128, 172, 12, 10)
    graph, store = folder / f"graph-{rows}", folder / f"store-{rows}"
    if not store.exists():
        communities(graph, nodes=rows, edges=5 * rows, features=features, classes=classes, train=0.8, valid=0.1)
        plan = Plan(
            features=FeatureSignal(hops=hops, dtype="float16"), labels=LabelSignal(hops=label_hops, dtype="float16")
        )
        LocalPropagator().propagate(Graph.open(graph), plan, store)
    return store


def alone(job: str, **asked: Any) -> dict[str, Any]:
    """What a job finds in a process of its own. Nothing of the store is in the page cache when it begins."""
    command = [sys.executable, str(Path(__file__)), job, json.dumps(asked)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{job} of {asked} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


class _Peak:
    """Anonymous memory at its most while a block runs, above what the bare process had."""

    def __enter__(self) -> _Peak:
        self._done, self._base = threading.Event(), anonymous_memory()
        self.bytes = 0
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.bytes = max(self.bytes, anonymous_memory() - self._base)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()


def evaluation_job(asked: dict[str, Any]) -> dict[str, Any]:
    """Score so many rows, in order; where the store has fewer they come again."""
    store = HopStore.open(Path(asked["store"]))
    rows = np.arange(asked["rows"]) % store.manifest.nodes
    model, source = _model_and_rows(store, rows, asked)
    with _Peak() as peak:
        begun = time.perf_counter()
        evaluate(model, Batches(source, asked["batch"], CPU, memory=0))
        seconds = time.perf_counter() - begun
    return {"rows": asked["rows"], "seconds": seconds, "memory": peak.bytes}


def training_job(asked: dict[str, Any]) -> dict[str, Any]:
    """Some steps of an epoch, the rows in memory or read from a store that the page cache holds nothing of."""
    store = HopStore.open(Path(asked["store"]))
    nodes = store.manifest.nodes
    rows = np.arange(min(nodes, asked["steps"] * asked["batch"]) if asked["resident"] else nodes)
    model, source = _model_and_rows(store, rows, asked)
    begun = time.perf_counter()
    for signal in source.signals:  # once a run, before its first epoch: whether the bytes are those that were written
        for index in range(len(signal.entry.shards)):
            signal._checked_shard(index)
    verified = time.perf_counter() - begun
    _forget(Path(asked["store"]))
    with _limited(asked.get("limit")) as limit, _Peak() as peak:
        batches = Batches(source, asked["batch"], CPU, None if asked["resident"] else 0)
        assert batches.resident == asked["resident"], "the rows do not fit into half of the memory that is free"
        settings = TrainingSettings(batch_size=asked["batch"], learning_rate=0.001)
        one = replace(source, rows=source.rows[:1])
        run = _Run(model, one, None, settings, torch.Generator().manual_seed(0), 0, Machine(CPU))
        some = _FirstBatches(batches, asked["steps"])
        run.train = some
        run.train_on(Stretch(0))
    found = {"rows": some.rows, "seconds": some.seconds, "memory": peak.bytes, "limit": limit, "verified": verified}
    return found | (_where(run, batches, asked) if asked.get("where") else {})


class _FirstBatches:
    """Some batches of an epoch, and the time from the first request to the end of the last step."""

    def __init__(self, batches: Batches, steps: int) -> None:
        self.batches, self.steps, self.rows, self.seconds = batches, steps, 0, 0.0
        self.target, self.device, self.held = batches.target, batches.device, batches.held

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        begun = time.perf_counter()
        for batch in itertools.islice(self.batches.epoch(generator), self.steps):
            self.rows += len(batch.rows)
            yield batch
            self.seconds = time.perf_counter() - begun


def _where(run: _Run, batches: Batches, asked: dict[str, Any]) -> dict[str, Any]:
    """Floating-point operations of a step, what the machine's products reach, and which operators its time goes to."""
    steps = _FirstBatches(batches, 1)
    run.train = steps
    with FlopCounterMode(display=False) as counter:
        run.train_on(Stretch(0))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run.train_on(Stretch(0))
    kinds = dict.fromkeys([*KINDS, "others"], 0.0)
    for event in seen.key_averages():
        kind = next((name for name, starts in KINDS.items() if event.key.startswith(starts)), "others")
        kinds[kind] += event.self_cpu_time_total
    a, b = torch.randn(asked["batch"], asked["hidden"]), torch.randn(asked["hidden"], asked["hidden"])
    best = min(_seconds(a, b) for _ in range(10))
    total = sum(kinds.values())
    return {
        "flops_row": counter.get_total_flops() / steps.rows,
        "gflops": 2 * a.shape[0] * b.numel() / best / 1e9,
        "where": {name: value / total for name, value in kinds.items()},
    }


def _seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    begun = time.perf_counter()
    torch.mm(a, b)
    return time.perf_counter() - begun


def _model_and_rows(store: HopStore, rows: Any, asked: dict[str, Any]) -> tuple[GAMLP, HopRows]:
    torch.set_num_threads(asked["threads"])
    torch.manual_seed(0)
    signals = store.manifest.signals
    hops = min(asked.get("hops", 1 << 10), signals["features"].hops)
    label_hops = min(asked.get("label_hops", 1 << 10), signals["labels"].hops)
    assert store.labels is not None
    shape = Shape(signals["features"].width, len(store.labels.classes), hops, label_hops)
    model = GAMLP(shape, hidden=asked["hidden"], **asked["model"])
    return model, HopRows(store, rows, hops, label_hops, chunk=asked.get("chunk", 0))


def _forget(store: Path) -> None:
    """Let the page cache drop the store."""
    for path in store.rglob("*.npy"):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


@contextmanager
def _limited(limit: int | None) -> Iterator[int | None]:
    """Memory of this process and the page cache that it fills, in a control group of its own; None: not limited."""
    group, before = GROUPS / f"gamlp-benchmark-{os.getpid()}", GROUPS / _own_group()
    if limit is None or available_memory() < limit:
        yield None
        return
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        yield None
        return
    try:
        yield limit
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _own_group() -> str:
    lines = Path("/proc/self/cgroup").read_text().splitlines() if Path("/proc/self/cgroup").exists() else []
    return next((line.split(":", 2)[2].lstrip("/") for line in lines if line.split(":")[1] == "memory"), "")


if __name__ == "__main__":
    jobs = {"evaluation": evaluation_job, "training": training_job}
    print(json.dumps(jobs[sys.argv[1]](json.loads(sys.argv[2]))))
