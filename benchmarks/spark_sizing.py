"""The sizing rules of docs/spark.md worked through for ogbn-papers100M on 8 and 32 executors: arithmetic, no run.

    python benchmarks/spark_sizing.py        # writes docs/results/spark-sizing.md

The rate of the kernel is what benchmarks/spark.py measured on this machine (docs/results/spark.json), for another
number of columns in proportion to the bytes; the rate of storage is an assumption that is told.
"""

from __future__ import annotations

import argparse
import itertools
import json
import textwrap
from pathlib import Path
from typing import Any

from gamlp.io import format_size
from gamlp.propagation.blocks import Sizing, executor_memory

RESULTS = Path(__file__).parents[1] / "docs" / "results"
NODES, EDGES, COLUMNS, KEPT = 111_059_956, 1_615_685_872, 128, 1_546_782  # of the dataset; rows with a label
HOPS, CORES, MEMORY = 6, 4, 4 << 30
STORAGE = 500e6  # bytes a second between an executor and shared storage: an assumption, measure yours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "spark-sizing.md")
    options = parser.parse_args()
    options.out.write_text(page(json.loads((RESULTS / "spark.json").read_text())))
    print(f"written to {options.out.name}")


def page(measured: dict[str, Any]) -> str:
    shape = measured["shapes"]["main"]
    at_64 = 2 * shape["edges"] / measured["contest"]["local"]["cpu"]
    rate = at_64 * shape["features"] / COLUMNS
    plans = [(executors, dtype) for executors in (8, 32) for dtype in ("float32", "float16")]
    columns = [_column(executors, dtype, rate * (1 if dtype == "float32" else 2)) for executors, dtype in plans]
    head = ["", *(f"{executors} executors, {dtype}" for executors, dtype in plans)]
    text = (
        "Written by `python benchmarks/spark_sizing.py` with the formulas of `gamlp.propagation.blocks.sizing`. "
        f"{NODES:,} nodes, {EDGES:,} citations stored in both directions (those that repeat counted twice), {COLUMNS} "
        f"features, {HOPS} hops, the {KEPT:,} labelled rows kept (`--rows labelled`), executors of {CORES} cores, "
        "`--memory 4GiB` a task.",
        f"Rates: a core sums up {rate / 1e6:.1f} M neighbours of {COLUMNS} float32 columns a second (measured by "
        f"benchmarks/spark.py on {shape['features']} columns, in proportion to the bytes; float16 is half the bytes), "
        f"and an executor reads and writes {STORAGE / 1e6:.0f} MB/s of shared storage (assumed). Needed rows are "
        "counted at their most, as if no two neighbours of a block were the same node: real graphs pull less.",
    )
    lines = [
        "# Sizes for ogbn-papers100M on Spark",
        "",
        *itertools.chain.from_iterable([*textwrap.wrap(part, 120), ""] for part in text),
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for name in columns[0]:
        lines.append("| " + " | ".join([name, *(column[name] for column in columns)]) + " |")
    return "\n".join(lines) + "\n"


def _column(executors: int, dtype: str, rate: float) -> dict[str, str]:
    slots = executors * CORES
    sizing = Sizing(NODES, 2 * EDGES, COLUMNS, HOPS, dtype, KEPT, MEMORY, slots)
    kernel, storage = sizing.kernel_seconds(rate), sizing.storage_seconds(executors * STORAGE)
    return {
        "tasks at once": f"{slots}",
        "blocks B, in rounds": f"{sizing.blocks} in {sizing.rounds}",
        "rows of a block, n / B": f"{NODES // sizing.blocks:,}",
        "neighbours of a block, m / B": f"{sizing.entries // sizing.blocks:,}",
        "a block of a hop, n / B · d · b": format_size(sizing.state // sizing.blocks),
        "memory of a task at least": format_size(sizing.task_bytes),
        "memory of an executor for Python": format_size(executor_memory(CORES, MEMORY)),
        "a hop of all nodes, n · d · b": format_size(sizing.state),
        "pulled at a hop, at most": format_size(sizing.pulled),
        "lists of needed rows, once": format_size(sizing.lists),
        "storage while it runs": format_size(sizing.storage),
        "the store, in shards": f"{format_size(sizing.store)} in {sizing.shards}",
        "kernel, seconds a hop": f"{kernel:.0f}",
        "storage, seconds a hop": f"{storage:.0f}",
        "a hop takes": f"{max(kernel, storage):.0f} to {kernel + storage:.0f} s",
        f"{HOPS} hops": f"{HOPS * max(kernel, storage) / 60:.0f} to {HOPS * (kernel + storage) / 60:.0f} min",
        "`gamlp ingest`: three shuffles of edges": format_size(3 * 2 * EDGES * 16),
    }


if __name__ == "__main__":
    main()
