"""Speed of training against its peers and its bound, all in one run, as ratios.

    python benchmarks/training.py           # 200,000 rows, K = 5 and 12: minutes
    python benchmarks/training.py --quick   # a small run that only shows that everything works

Prints tables and writes JSON and a page to benchmarks/results (or --out). Every figure is measured in this run: whole
epochs through the package's own loop, all contestants taking turns, and the best round of each counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import streaming
import training_record
from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import keep_freed_memory, usable_cores
from gamlp.models import GAMLP, Shape
from gamlp.models.attention import RecursiveAttention
from gamlp.models.sgc import SGC
from gamlp.models.sign import SIGN
from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Plan
from gamlp.recipe import ConsistencySettings, TrainingSettings
from gamlp.training.batches import Batches, HopRows, UnlabelledRows
from gamlp.training.checkpoint import TrainingState
from gamlp.training.loop import Machine, _Run
from gamlp.training.unlabelled import Beside
from machine import describe, versions
from written_out import LastHop, PlainJK, PlainRecursive, Work, plain_epoch, plain_mlp, products

CPU = torch.device("cpu")
PASSES = training_record.PASSES
PLAIN = ("plain", "written out")  # contestants in names: they have the allocator as it is


@dataclass(frozen=True)
class Size:
    rows: int = 200_000
    edges: int = 1_000_000
    features: int = 100
    classes: int = 47
    hidden: int = 512
    layers: int = 4
    batch: int = 10_000
    hops: tuple[int, ...] = (5, 12)
    dropout: float = 0.5

    @property
    def batches(self) -> int:
        return -(-self.rows // self.batch)


@dataclass(frozen=True)
class Rounds:
    """Contestants take turns, so that a slow minute of the machine hits all."""

    count: int
    clock: Callable[[], float]

    def of(self, work: dict[str, Work], kept: tuple[str, ...], calls: int = 1) -> dict[str, list[float]]:
        """Best and median seconds; `kept` have memory kept, as the loop has it; of several calls the best counts."""
        times: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(self.count):
            for name, do in work.items():
                with keep_freed_memory() if name in kept else nullcontext():
                    times[name].append(min(self._seconds(do) for _ in range(calls)))
        return {name: [min(found), statistics.median(found)] for name, found in times.items()}

    def _seconds(self, do: Work) -> float:
        begun = self.clock()
        do()
        return self.clock() - begun


QUICK = Size(rows=2_000, edges=8_000, features=16, classes=5, hidden=32, layers=3, batch=500, hops=(2, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Small: that it works, not how fast it is.")
    parser.add_argument("--rounds", type=int, default=3, help="Epochs of every contestant; they take turns.")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rows", type=int, help="Other than 200,000.")
    parser.add_argument("--processor-time", action="store_true", help="For a busy machine, with --threads 1.")
    parser.add_argument("--work", type=Path, help="Folder for graph and store; removed at the end unless given.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "training.json")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="gamlp-bench-"))
    torch.set_num_threads(options.threads)
    size = QUICK if options.quick else Size()
    try:
        results = run(replace(size, rows=options.rows or size.rows), options, work)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1))
    page = training_record.page(results, "python benchmarks/training.py" + (" --quick" if options.quick else ""))
    options.out.with_suffix(".md").write_text(page)
    print(f"\nwritten to {options.out} and {options.out.with_suffix('.md').name}")


def run(size: Size, options: argparse.Namespace, work: Path) -> dict[str, Any]:
    rounds = Rounds(options.rounds, time.process_time if options.processor_time else time.perf_counter)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "size": asdict(size),
        "quick": options.quick,
        "rounds": options.rounds,
        "clock": "processor" if options.processor_time else "wall-clock",
        "hops": {},
    }
    print(f"{results['machine']}; {results['versions']}; {results['threads']} threads")
    store = _store(size, work)
    for hops in size.hops:
        print(f"\n== K = {hops}: {size.rows:,} rows, {size.features} features, batches of {size.batch:,}")
        found = {"attention": attention_alone(size, hops, rounds), "epochs": epochs(size, store, hops, rounds)}
        found["ratios"] = training_record.ratios(found)
        results["hops"][str(hops)] = found
        training_record.show(found, last=hops == size.hops[-1])
    results["evaluation"] = streaming.evaluation(
        store.folder,
        size.hops[-1],
        size.rows,
        hidden=size.hidden,
        layers=size.layers,
        batch=size.batch,
        threads=torch.get_num_threads(),
    )
    print(f"\nevaluation from the store: four times the rows, {results['evaluation']['growth']:.2f} times the memory")
    return results


def attention_alone(size: Size, hops: int, rounds: Rounds) -> dict[str, list[float]]:
    """Forwards and backwards of one batch, the gradient of the mixture given; all vectors the same."""
    torch.manual_seed(0)
    x, grad = torch.randn(size.batch, hops + 1, size.features), torch.randn(size.batch, size.features)
    ours, plain = RecursiveAttention(size.features, "leaky_relu", 0.0), PlainRecursive(size.features)
    with torch.no_grad():
        plain.score.weight.copy_(ours.vectors.t().reshape(1, -1))
    torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-5)
    work: dict[str, Work] = {
        "ours": lambda: ours(x).backward(grad),
        "written out": lambda: plain(x).backward(grad),
        "written out, memory kept": lambda: plain(x).backward(grad),
    }
    return rounds.of(work, kept=("ours", "written out, memory kept"), calls=5)


def epochs(size: Size, store: HopStore, hops: int, rounds: Rounds) -> dict[str, list[float]]:
    """Whole epochs: ours through the package's loop, on rows that are held in memory."""
    rows = HopRows(store, np.arange(size.rows), hops)
    batches = Batches(rows, size.batch, CPU)
    assert batches.resident, "the rows do not fit into half of the memory that is free"
    streamed = Batches(rows, size.batch, CPU, memory=0)
    shape = Shape(size.features, size.classes, hops)
    options: dict[str, Any] = {"hidden": size.hidden, "layers": size.layers, "dropout": size.dropout}
    recursive = GAMLP(shape, attention="recursive", beta=0, **options)
    mlp = (size.hidden, size.classes, size.layers, size.dropout)

    def plain(first: nn.Module) -> Work:
        model = nn.Sequential(first, plain_mlp(size.features, *mlp))
        return plain_epoch(model, batches._x[:, 0], batches.target, size.batch)

    products_of = {"rows": size.batch, "hidden": size.hidden, "batches": size.batches}
    shuffle = torch.Generator().manual_seed(0)
    contestants: dict[str, Work] = {
        "GAMLP(R)": _epoch(recursive, batches, size),
        "GAMLP(JK)": _epoch(GAMLP(shape, attention="jk", beta=0, **options), batches, size),
        "SGC": _epoch(SGC(shape, **options), batches, size),
        "SIGN": _epoch(SIGN(shape, **options), batches, size),
        "GAMLP(R), rows from the store": _epoch(recursive, streamed, size),
        "GAMLP(R) + SCR": _epoch(recursive, batches, size, ConsistencySettings(passes=PASSES)),
        "GAMLP(R) + SCR-m": _epoch(recursive, batches, size, ConsistencySettings(teacher="average", passes=1)),
        "GAMLP(R) written out": plain(PlainRecursive(size.features)),
        "GAMLP(JK) written out": plain(PlainJK(size.features, hops, size.hidden, size.dropout)),
        "SGC, plain PyTorch": plain(LastHop()),
        "products of the output MLP": products(
            inputs=size.features, outputs=size.classes, layers=size.layers, **products_of
        ),
        "products of JK's reference": products(
            inputs=hops * size.features, outputs=size.hidden, layers=2, **products_of
        ),
        "loading": lambda: [None for _ in batches.epoch(shuffle)],
    }
    kept = tuple(name for name in contestants if not any(word in name for word in PLAIN))
    return rounds.of(contestants, kept)


def _epoch(model: nn.Module, batches: Batches, size: Size, consistency: ConsistencySettings | None = None) -> Work:
    """An epoch of the package's own loop. Its rows are shared by all models, so that they are held once.

    With consistency, every step reads as many rows without labels as labelled ones.
    """
    source = batches.source
    one = HopRows(source.store, source.rows[:1], source.hops)
    beside = Beside(UnlabelledRows(source.store, source.rows, source.hops), consistency) if consistency else None
    settings = TrainingSettings(batch_size=size.batch, learning_rate=0.001)
    run = _Run(model, one, None, settings, torch.Generator().manual_seed(0), 0, Machine(CPU), beside)
    run.train = batches
    return lambda: run._epoch(TrainingState())


def _store(size: Size, work: Path) -> HopStore:
    graph, store = work / "graph", work / "store"
    if not store.exists():
        communities(graph, nodes=size.rows, edges=size.edges, features=size.features, classes=size.classes)
        LocalPropagator().propagate(Graph.open(graph), Plan(features=FeatureSignal(hops=max(size.hops))), store)
    return HopStore.open(store)


if __name__ == "__main__":
    main()
