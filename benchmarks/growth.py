"""How cost grows: the same kind of graph with 1, 2, 4 and 8 times the edges."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import contest
from gamlp.graph import Graph
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.propagation.passes import RESIDENT
from jobs import run_job
from machine import best, disk_seconds

# Even the smallest has state matrices eight times the size of a large cache: what is compared is memory.
NODES, EDGES, FEATURES = 1_000_000, 7_500_000, 64
HOPS = 5  # of jobs.run_job


def with_edges(work: Path, repetitions: int) -> dict[str, Any]:
    """Seconds and bytes of anonymous memory (above the bare process) an edge; flat is linear."""
    found: dict[int, dict[str, float]] = {}
    print(f"\n== growth: {NODES:,} nodes and {EDGES:,} edges times 1, 2, 4, 8; {FEATURES} features, K = {HOPS}")
    for times in (1, 2, 4, 8):
        folder = work / f"growth-{times}"
        communities(folder, nodes=NODES * times, edges=EDGES * times, features=FEATURES, classes=20)
        run_job(folder, work / "store")
        jobs = [run_job(folder, work / "store") for _ in range(repetitions)]
        seconds = min(job.written for job in jobs)
        memory = max(job.peak - job.base for job in jobs)
        # Where it goes: the loops alone, in memory; as many bytes to the same disk and from it (all hops once, those
        # that are spilled before they are laid out by node twice); what is left.
        kernel = HOPS * best(contest.OurHop(Graph.open(folder), "float32"), 2)
        write, read = disk_seconds(work, jobs[0].bytes)
        spilled = (HOPS - RESIDENT) / (HOPS + 1)
        write, read = write * (1 + spilled), read * spilled
        shutil.rmtree(folder)
        parts = {"kernel": kernel, "write": write, "read": read, "rest": seconds - kernel - write - read}
        found[times] = {
            "seconds": seconds,
            "memory": memory,
            "ns an edge": seconds / (EDGES * times) * 1e9,
            "bytes an edge": memory / (EDGES * times),
            **{f"{name}, ns an edge": part / (EDGES * times) * 1e9 for name, part in parts.items()},
        }
        print(f"   x{times}: {', '.join(f'{name} {value:.4g}' for name, value in found[times].items())}")
    spread = {
        key: max(values[key] for values in found.values()) / min(values[key] for values in found.values()) - 1
        for key in ("ns an edge", "bytes an edge")
    }
    print(f"   spread: time {spread['ns an edge']:.0%}, memory {spread['bytes an edge']:.0%}")
    return {"sizes": {str(times): values for times, values in found.items()}, "spread": spread}
