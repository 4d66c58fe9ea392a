"""The sizing rules of docs/spark.md worked through for two graphs on 32 and 256 executors: arithmetic, no run.

    python benchmarks/spark_sizing.py        # writes docs/results/spark-sizing.md

The rate of the kernel is what benchmarks/spark.py measured on this machine (docs/results/spark.json), for another
number of columns in proportion to the bytes; what storage does is an assumption that is told.
"""

from __future__ import annotations

import argparse
import itertools
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamlp.io import format_size
from gamlp.propagation.blocks import Sizing, executor_memory
from gamlp.sizing import GraphShape, ingest_shuffled

RESULTS = Path(__file__).parents[1] / "docs" / "results"
HOPS, CORES, MEMORY, EXECUTORS = 6, 4, 4 << 30, (32, 256)
COLUMNS = 128
STORAGE = 500e6  # bytes a second between an executor and shared storage: an assumption, measure yours
REQUESTS = 300.0  # a second that a task makes: ten at a time, each answered after 30 ms; an assumption too


@dataclass(frozen=True)
class Shape:
    """A graph: nodes, stored neighbours, rows that are kept."""

    name: str
    nodes: int
    entries: int
    kept: int
    about: str


SHAPES = (
    Shape(
        "ogbn-papers100M", 111_059_956, 2 * 1_615_685_872, 1_546_782,
        "111,059,956 nodes, 1,615,685,872 citations stored in both directions (those that repeat counted twice), the "
        "1,546,782 labelled rows kept (`--rows labelled`)",
    ),
    Shape(
        "Ten billion edges", 1_000_000_000, 20_000_000_000, 10_000_000,
        "a billion nodes, ten billion edges stored in both directions, ten million rows kept",
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "spark-sizing.md")
    options = parser.parse_args()
    options.out.write_text(page(json.loads((RESULTS / "spark.json").read_text())))
    print(f"written to {options.out.name}")


def page(measured: dict[str, Any]) -> str:
    shape = measured["shapes"]["large"]  # its state is larger than caches
    at_64 = 2 * shape["edges"] / max(found["local"]["cpu"] for found in measured["blocks"].values())
    rate = at_64 * shape["features"] / COLUMNS
    text = (
        "Written by `python benchmarks/spark_sizing.py` with the formulas of `gamlp.propagation.blocks.sizing`: "
        f"{COLUMNS} features, {HOPS} hops, executors of {CORES} cores, `--memory 4GiB` a task.",
        f"Rates: a core sums up {rate / 1e6:.1f} M neighbours of {COLUMNS} float32 columns a second (measured by "
        f"benchmarks/spark.py on {shape['features']} columns, in proportion to the bytes; float16 is half the bytes). "
        f"Assumed: an executor reads and writes {STORAGE / 1e6:.0f} MB/s of shared storage, and a task makes "
        f"{REQUESTS:.0f} requests a second behind a URL. Needed rows are counted at their most, as if no two "
        "neighbours of a block were the same node, and they lie anywhere: real graphs pull less. All hops are counted "
        "alike, though the last one computes the kept rows alone.",
        "Behind a URL a task reads ranges, through gaps of up to 256 KiB, or parcels that other tasks wrote for it, "
        "whichever costs less (docs/spark.md). What whole files and what ranges alone would read is beside.",
    )
    lines = ["# Sizes of large graphs on Spark", ""]
    lines += itertools.chain.from_iterable([*textwrap.wrap(part, 120), ""] for part in text)
    for each in SHAPES:
        lines += [f"## {each.name}", "", *textwrap.wrap(f"Here {each.about}.", 120), "", *_table(each, rate), ""]
    return "\n".join(lines[:-1]) + "\n"


def _table(shape: Shape, rate: float) -> list[str]:
    plans = [(executors, dtype) for executors in EXECUTORS for dtype in ("float32", "float16")]
    columns = [_column(shape, executors, dtype, rate * (1 if dtype == "float32" else 2)) for executors, dtype in plans]
    head = ["", *(f"{executors} executors, {dtype}" for executors, dtype in plans)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join([name, *(column[name] for column in columns)]) + " |" for name in columns[0]]


def _column(shape: Shape, executors: int, dtype: str, rate: float) -> dict[str, str]:
    slots = executors * CORES
    sizing = Sizing(shape.nodes, shape.entries, COLUMNS, HOPS, dtype, shape.kept, MEMORY, slots)
    kernel, storage = sizing.kernel_seconds(rate), sizing.storage_seconds(executors * STORAGE)
    moved = ingest_shuffled(GraphShape(shape.nodes, shape.entries, COLUMNS, 0))
    remote, there = sizing.remote, sizing.remote_seconds(executors * STORAGE, slots * REQUESTS)
    return {
        "tasks at once": f"{slots}",
        "blocks B, in rounds": f"{sizing.blocks} in {sizing.rounds}",
        "rows of a block, n / B": f"{shape.nodes // sizing.blocks:,}",
        "neighbours of a block, m / B": f"{sizing.entries // sizing.blocks:,}",
        "a block of a hop, n / B · d · b": format_size(sizing.state // sizing.blocks),
        "memory of a task at least": format_size(sizing.task_bytes),
        "memory of an executor for Python": format_size(executor_memory(CORES, MEMORY)),
        "a hop of all nodes, n · d · b": format_size(sizing.state),
        "pulled at a hop, at most": format_size(sizing.pulled),
        "behind a URL: read at a hop": format_size(remote.read),
        "… written as parcels": format_size(remote.sent),
        "… requests": f"{remote.requests:,}",
        "… ranges alone would read": format_size(remote.ranges),
        "… whole files would be": format_size(remote.whole),
        "lists of needed rows, once": format_size(sizing.lists),
        "storage while it runs": format_size(sizing.storage),
        "… with parcels of two hops": format_size(sizing.storage + 2 * remote.sent),
        "the store, in shards": f"{format_size(sizing.store)} in {sizing.shards}",
        "kernel, seconds a hop": f"{kernel:.1f}",
        "storage, seconds a hop": f"{storage:.0f}",
        "… behind a URL": f"{there:.0f}",
        "a hop takes": f"{max(kernel, storage):.0f} to {kernel + storage:.0f} s",
        f"{HOPS} hops": f"{HOPS * max(kernel, storage) / 60:.0f} to {HOPS * (kernel + storage) / 60:.0f} min",
        f"{HOPS} hops behind a URL": f"{HOPS * max(kernel, there) / 60:.0f} to {HOPS * (kernel + there) / 60:.0f} min",
        "`gamlp ingest`: shuffled once, columns and entries": format_size(moved["columns"] + moved["entries"]),
        "… and ids of edges": format_size(moved["ids"]),
    }


if __name__ == "__main__":
    main()
