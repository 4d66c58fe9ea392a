"""Speed of training against its peers and its bound, all in one run, as ratios.

    python benchmarks/training.py --out docs/results/training.json      # an hour; the page lies beside it
    python benchmarks/training.py --minutes 4                           # so long at most; the same again goes on
    python benchmarks/training.py --quick                               # small: that everything works

Prints tables and writes JSON and a page to benchmarks/results (or --out). Every figure is measured by this command:
whole epochs through the package's own loop, all contestants taking turns, and the best round of each counts. What was
measured is kept after every epoch; --parts measures some parts alone, --fresh forgets what there was.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import streaming
import training_record
import training_shuffle
from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import keep_freed_memory, usable_cores, write_text
from gamlp.models import GAMLP, Shape
from gamlp.models.attention import RecursiveAttention
from gamlp.models.sgc import SGC
from gamlp.models.sign import SIGN
from gamlp.propagation import FeatureSignal, HopStore, LabelSignal, LocalPropagator, Plan
from gamlp.recipe import ConsistencySettings, TrainingSettings
from gamlp.training.batches import Batches, HopRows, UnlabelledRows
from gamlp.training.loop import Machine, _Run
from gamlp.training.ranks.exchange import Stretch
from gamlp.training.unlabelled import Beside
from machine import describe, versions
from written_out import (
    InLists,
    LastHop,
    PlainJK,
    PlainRecursive,
    Sizes,
    Work,
    list_epoch,
    plain_epoch,
    plain_mlp,
    products,
)

CPU = torch.device("cpu")
PASSES = training_record.PASSES
PLAIN = ("plain", "written out", "in lists")  # contestants in names: they have the allocator as it is
PARTS = ("labels", "published", "loading", "evaluation", "wide", "shuffling", "hops")


class OutOfTime(Exception):
    """So many minutes were asked for, and they are over."""


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
    label_hops: int = 10
    dropout: float = 0.5
    list_rows: int = 60_000  # of contests with the label branch, which are of steps
    large_rows: int = 600_000  # of the store of ogbn-papers100M's shape
    large_batch: int = 5_000
    steps: int = 12
    evaluated: tuple[int, ...] = (50_000, 200_000, 1_000_000)
    widths: tuple[int, int] = (256, 1280)
    limit: int | None = 3 << 30

    @property
    def batches(self) -> int:
        return -(-self.rows // self.batch)


QUICK = Size(
    rows=2_000, edges=8_000, features=16, classes=5, hidden=32, layers=3, batch=500, hops=(2, 3), label_hops=2,
    list_rows=1_000, large_rows=3_000, large_batch=200, steps=2, evaluated=(500, 2_000, 4_000), widths=(8, 16),
    limit=None,
)  # fmt: skip


class Rounds:
    """Contestants take turns, so that a slow minute of the machine hits all. What was measured is kept at once."""

    def __init__(self, count: int, clock: Callable[[], float], results: dict[str, Any], keep: Callable[[], None]):
        self.count, self.clock, self.results, self.keep = count, clock, results, keep
        self.until = float("inf")

    def of(self, part: str, work: dict[str, Work], kept: tuple[str, ...], calls: int = 1) -> None:
        """Seconds of every round; `kept` have memory kept, as the loop has it; of several calls the best counts."""
        times: dict[str, list[float]] = self.results["times"].setdefault(part, {})
        for number in range(self.count):
            for name, do in work.items():
                found = times.setdefault(name, [])
                if len(found) > number:
                    continue
                self.check_time()
                with keep_freed_memory() if name in kept else nullcontext():
                    found.append(min(self._seconds(do) for _ in range(calls)))
                print(f"   {part}: {name:<40}{found[-1]:9.3f}", flush=True)
                self.keep()

    def whole(self, part: str, names: Iterable[str]) -> bool:
        """Whether nothing is left to do."""
        times = self.results["times"].get(part, {})
        return all(len(times.get(name, ())) >= self.count for name in names)

    def once(self, part: str, name: str, do: Callable[[], Any]) -> Any:
        """What was found before, or is found now."""
        found = self.results.setdefault(part, {})
        if name not in found:
            self.check_time()
            found[name] = do()
            print(f"   {part}: {name}: {found[name]}", flush=True)
            self.keep()
        return found[name]

    def check_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime

    def _seconds(self, do: Work) -> float:
        begun = self.clock()
        do()
        return self.clock() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Small: that it works, not how fast it is.")
    parser.add_argument("--rounds", type=int, default=2, help="Epochs of every contestant; they take turns.")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rows", type=int, help="Other than 200,000.")
    parser.add_argument("--processor-time", action="store_true", help="For a busy machine, with --threads 1.")
    parser.add_argument("--work", type=Path, help="Folder for graphs and stores; removed at the end unless given.")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"Some of {', '.join(PARTS)}.")
    parser.add_argument("--minutes", type=float, help="Stop after so many; the same command goes on.")
    parser.add_argument("--fresh", action="store_true", help="Forget what was measured before.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "training.json")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="gamlp-bench-"))
    torch.set_num_threads(options.threads)
    size = QUICK if options.quick else Size()
    try:
        run(replace(size, rows=options.rows or size.rows), options, work)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


def run(size: Size, options: argparse.Namespace, work: Path) -> None:
    results = _results(size, options)
    command = "python benchmarks/training.py" + (" --quick" if options.quick else "")

    def keep() -> None:
        write_text(options.out, json.dumps(results, indent=1))
        write_text(options.out.with_suffix(".md"), training_record.page(results, command))

    rounds = Rounds(options.rounds, time.process_time if options.processor_time else time.perf_counter, results, keep)
    if options.minutes:
        rounds.until = time.monotonic() + 60 * options.minutes
    print(f"{results['machine']}; {results['versions']}; {results['threads']} threads")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    asked = options.parts.split(",")
    try:
        for part in (part for part in PARTS if part in asked):
            DO[part](size, work, rounds)
        print("all is measured")
    except OutOfTime:
        print("time is over; the same command goes on")
    keep()
    print(f"written to {options.out} and {options.out.with_suffix('.md').name}")


def _results(size: Size, options: argparse.Namespace) -> dict[str, Any]:
    """Those of an earlier go where they are of the same sizes, with what tells them from others."""
    about = {
        "machine": describe(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "size": json.loads(json.dumps(asdict(size))),
        "quick": options.quick,
        "clock": "processor" if options.processor_time else "wall-clock",
    }
    before = json.loads(options.out.read_text()) if options.out.exists() and not options.fresh else {}
    if any(before.get(name) != value for name, value in about.items()):
        before = {"times": {}}
    return before | about | {"date": time.strftime("%Y-%m-%d"), "rounds": options.rounds}


def labels(size: Size, work: Path, rounds: Rounds, published: bool = False) -> None:
    """Epochs with the label branch, ours beside hops in lists; `published`: with all that ogbn-products is run with."""
    hops, part = size.hops[0], "published" if published else "labels"
    names = [f"GAMLP({kind}){how}" for kind in ("R", "JK") for how in ("", ", hops in lists")]
    if rounds.whole(part, names):
        return
    store = _store(size, work)
    rows = HopRows(store, np.arange(min(size.rows, size.list_rows)), hops, size.label_hops)
    batches = Batches(rows, size.batch, CPU)
    assert batches.resident and batches._y is not None, "the rows do not fit into half of the memory that is free"
    sizes = Sizes(size.features, size.classes, hops, size.label_hops, size.hidden, size.layers, 4)
    options: dict[str, Any] = {"hidden": size.hidden, "layers": size.layers, "dropout": size.dropout, "label_layers": 4}
    if published:
        options |= {"batch_norm": True, "hop_mlp": True, "residual": True, "initial_residual": 0.5}
        options["input_dropout"] = 0.2
    contestants: dict[str, Work] = {}
    for name, kind in (("R", "recursive"), ("JK", "jk")):
        ours = GAMLP(Shape(size.features, size.classes, hops, size.label_hops), attention=kind, **options)
        theirs = InLists(sizes, kind, size.dropout, published=published)
        contestants[f"GAMLP({name})"] = _epoch(ours, batches, size)
        contestants[f"GAMLP({name}), hops in lists"] = list_epoch(
            theirs, batches._x[:, 0], batches._y[:, 0], batches.target, size.batch
        )
    rounds.of(part, contestants, tuple(name for name in contestants if "in lists" not in name))


def published(size: Size, work: Path, rounds: Rounds) -> None:
    labels(size, work, rounds, published=True)


def loading(size: Size, work: Path, rounds: Rounds) -> None:
    """Some steps of an epoch: rows in memory, and from a store that the page cache holds nothing of."""
    common = {"threads": torch.get_num_threads(), "batch": size.large_batch, "hidden": size.widths[0]}
    kinds = (("JK, as published for ogbn-papers100M", streaming.PAPERS, 1), ("R, plain", streaming.PLAIN, 3))
    for number, (name, model, times) in itertools.product(range(rounds.count), kinds):
        for how in ("in memory", "from the store, rows shuffled", "from the store, chunks of 64 shuffled"):
            asked = common | {"model": model, "resident": how == "in memory", "steps": times * size.steps}
            asked |= {"chunk": 64 if "chunks" in how else 0, "limit": None if how == "in memory" else size.limit}
            do = functools.partial(_alone, size, work, "training", **asked)
            rounds.once("loading", f"{name}: {how}: {number}", do)


def evaluation(size: Size, work: Path, rounds: Rounds) -> None:
    """Memory of evaluation from the store, of few rows and of many."""
    for rows in size.evaluated:
        asked = {"threads": torch.get_num_threads(), "batch": size.large_batch, "rows": rows, "hidden": size.widths[0]}
        asked["model"] = streaming.PLAIN
        rounds.once("evaluation", str(rows), lambda asked=asked: _alone(size, work, "evaluation", **asked))


def wide(size: Size, work: Path, rounds: Rounds) -> None:
    """Steps at the published width, from the store."""
    asked = {"threads": torch.get_num_threads(), "batch": size.large_batch, "steps": 6, "hidden": size.widths[1]}
    asked |= {"resident": False, "chunk": 64, "limit": None if size.limit is None else 2 * size.limit, "where": True}
    rounds.once("wide", "JK", lambda: _alone(size, work, "training", model=streaming.PAPERS, **asked))


def shuffling(size: Size, work: Path, rounds: Rounds) -> None:
    """Accuracy by the way of shuffling."""
    quick = bool(rounds.results["quick"])
    seeds = 1 if quick else 5
    for name in ("digits", "communities"):
        rounds.once("shuffling", name, lambda n=name: training_shuffle.accuracies(n, seeds, quick=quick))


def _alone(size: Size, work: Path, job: str, **asked: Any) -> dict[str, Any]:
    store = streaming.large_store(work, size.large_rows, quick=size.large_rows < 100_000)
    return streaming.alone(job, store=str(store), **asked)


def contests(size: Size, work: Path, rounds: Rounds) -> None:
    """Without labels: attention alone, whole epochs of every model and their bounds."""
    for hops in size.hops:
        attention_alone(size, hops, rounds)
        if not rounds.whole(f"K = {hops}", training_record.CONTESTANTS):
            epochs(size, _store(size, work), hops, rounds)


def attention_alone(size: Size, hops: int, rounds: Rounds) -> None:
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
    rounds.of(f"attention, K = {hops}", work, kept=("ours", "written out, memory kept"), calls=5)


def epochs(size: Size, store: HopStore, hops: int, rounds: Rounds) -> None:
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
    assert set(contestants) == set(training_record.CONTESTANTS)
    kept = tuple(name for name in contestants if not any(word in name for word in PLAIN))
    rounds.of(f"K = {hops}", contestants, kept)


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
    return lambda: run.train_on(Stretch(0))


def _store(size: Size, work: Path) -> HopStore:
    graph, store = work / "graph", work / "store"
    if not store.exists():
        communities(graph, nodes=size.rows, edges=size.edges, features=size.features, classes=size.classes)
        plan = Plan(features=FeatureSignal(hops=max(size.hops)), labels=LabelSignal(hops=size.label_hops))
        LocalPropagator().propagate(Graph.open(graph), plan, store)
    return HopStore.open(store)


DO: dict[str, Callable[[Size, Path, Rounds], None]] = {
    "labels": labels,
    "published": published,
    "loading": loading,
    "evaluation": evaluation,
    "wide": wide,
    "shuffling": shuffling,
    "hops": contests,
}


if __name__ == "__main__":
    main()
