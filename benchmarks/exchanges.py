"""Rows that training learns from a second, with 1, 2 and 4 processes, by each exchange of gradients.

    python benchmarks/exchanges.py              # a quarter of an hour, on a quiet machine
    python benchmarks/exchanges.py --quick      # small: that everything works

All-reduce, a parameter server, and one whose weights lie in two slices take turns; the best round of each counts. An
epoch is timed from the line of one to the line of another, so that nobody's start is counted. What was measured is kept
after every contestant, and the same command goes on; --fresh forgets what there was. It writes
docs/results/exchanges.json and a page beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import Place, usable_cores, write_text
from gamlp.recipe import Recipe
from gamlp.run import Resources
from gamlp.run.preparation import prepare
from gamlp.training.ranks.job import TrainingJob
from gamlp.training.ranks.launch import Result, launch_processes
from gamlp.training.rows import Prepared
from gamlp.training.server import launch_served
from machine import describe, versions

OUT = Path(__file__).parents[1] / "docs" / "results" / "exchanges.json"
PROCESSES = (1, 2, 4)
EXCHANGES: dict[str, dict[str, Any]] = {
    "all-reduce": {"training.exchange": "all-reduce"},
    "server": {"training.exchange": "server"},
    "server, 2 slices": {"training.exchange": "server", "training.servers": 2},
}


@dataclass(frozen=True)
class Size:
    rows: int = 100_000
    edges: int = 500_000
    features: int = 100
    classes: int = 47
    hops: int = 5
    hidden: int = 256
    batch: int = 5_000
    epochs: int = 4


QUICK = Size(rows=1_200, edges=5_000, features=8, classes=4, hops=2, hidden=16, batch=100, epochs=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Small: that it works, not how fast it is.")
    parser.add_argument("--rounds", type=int, default=2, help="Of every contestant; they take turns.")
    parser.add_argument("--fresh", action="store_true", help="Forget what was measured before.")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    size = QUICK if options.quick else Size()
    results = found_before(options.out, size, fresh=options.fresh)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gamlp-exchanges-") as folder:
        for number in range(options.rounds):
            for exchange, changes in EXCHANGES.items():
                prepared: Prepared | None = None
                for processes in PROCESSES:
                    rates = results["rates"].setdefault(exchange, {}).setdefault(str(processes), [])
                    if len(rates) > number:
                        continue
                    prepared = prepared or rows_of(size, changes, Path(folder))
                    rates.append(rate_of(prepared, processes, size, Path(folder)))
                    print(f"{exchange:<20}{processes} processes {rates[-1]:12,.0f} rows/s", flush=True)
                    write_text(options.out, json.dumps(results, indent=1))
    write_text(options.out.with_suffix(".md"), page(results))
    print(f"all is measured; written to {options.out} and {options.out.with_suffix('.md').name}")


def found_before(out: Path, size: Size, *, fresh: bool) -> dict[str, Any]:
    """Of an earlier go where it was the same work on the same machine."""
    about = {"machine": describe(), "versions": versions(), "size": asdict(size)}
    before = json.loads(out.read_text()) if out.exists() and not fresh else {}
    if any(before.get(name) != value for name, value in about.items()):
        before = {"rates": {}}
    return before | about | {"date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}


def rows_of(size: Size, changes: dict[str, Any], folder: Path) -> Prepared:
    graph = folder / "graph"
    if not graph.exists():
        communities(
            graph, nodes=size.rows, edges=size.edges, features=size.features, classes=size.classes, train=0.98,
            valid=0.01,
        )  # fmt: skip
    recipe = Recipe.of(
        {
            "propagation": {"hops": size.hops},
            "model": {"hidden": size.hidden, "beta": 0.0},
            "training": {"epochs": size.epochs, "batch_size": size.batch, "patience": 0},
        }
    )
    return prepare(Graph.open(graph), recipe.changed(changes), folder / "hops", resources=Resources(device="cpu"))


def rate_of(prepared: Prepared, processes: int, size: Size, folder: Path) -> float:
    """Training rows a second, from the end of the first epoch to the end of the last."""
    place = Path(tempfile.mkdtemp(dir=folder))
    job = TrainingJob.of(
        prepared, 0, place / "checkpoint", Place.of(place), device="cpu", threads=max(1, usable_cores() // processes)
    )
    ended: list[float] = []
    served = prepared.recipe.training.exchange == "server"
    launch: Callable[..., Result] = launch_served if served else launch_processes
    launch(job, processes, log=place / "log", observe=lambda _: ended.append(time.monotonic()))
    assert len(ended) == size.epochs
    return len(prepared.train) * (size.epochs - 1) / (ended[-1] - ended[0])


def page(results: dict[str, Any]) -> str:
    size, best = results["size"], {}
    for exchange, by_processes in results["rates"].items():
        best[exchange] = {int(processes): max(rates) for processes, rates in by_processes.items()}
    one = best["all-reduce"][1]
    rows = [
        f"| {exchange} | "
        + " | ".join(f"{found[count]:,.0f} ({found[count] / one:.2f}×)" for count in PROCESSES)
        + " |"
        for exchange, found in best.items()
    ]
    heads = " | ".join(f"{count} process{'es' if count > 1 else ''}" for count in PROCESSES)
    return "\n".join(
        [
            "# How fast training is by each exchange",
            "",
            f"Written by `python benchmarks/exchanges.py` on {results['date']}: {results['machine']}; "
            f"{results['versions']}. Load of the machine when it began: {results['load']}.",
            "",
            f"Training rows a second of GAMLP over {size['hops']} hops of {size['features']} features, "
            f"{size['hidden']} hidden, {size['rows']:,} nodes, batches of {size['batch']:,}; "
            "in brackets, times one process.",
            "",
            f"| exchange | {heads} |",
            "|---|" + "---:|" * len(PROCESSES),
            *rows,
            "",
            "Processes share this machine's cores: more of them than cores can only cost. What a server is for is in "
            "[training](../training.md#a-parameter-server).",
            "",
        ]
    )


if __name__ == "__main__":
    main()
