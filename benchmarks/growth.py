"""How cost grows: the same kind of graph with 1, 2, 4 and 8 times the edges."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gamlp.graph.datasets.synthetic.homogeneous import communities
from jobs import run_job

# Even the smallest has state matrices eight times the size of a large cache: what is compared is memory.
NODES, EDGES, FEATURES = 1_000_000, 7_500_000, 64


def with_edges(work: Path, repetitions: int) -> dict[str, Any]:
    """Seconds and bytes of anonymous memory (above the bare process) an edge; flat is linear."""
    found: dict[int, dict[str, float]] = {}
    print(f"\n== growth: {NODES:,} nodes and {EDGES:,} edges times 1, 2, 4, 8; {FEATURES} features, K = 5")
    for times in (1, 2, 4, 8):
        folder = work / f"growth-{times}"
        communities(folder, nodes=NODES * times, edges=EDGES * times, features=FEATURES, classes=20)
        run_job(folder, work / "store")
        jobs = [run_job(folder, work / "store") for _ in range(repetitions)]
        shutil.rmtree(folder)
        best = min(job.written for job in jobs)
        memory = max(job.peak - job.base for job in jobs)
        found[times] = {
            "seconds": best,
            "memory": memory,
            "ns an edge": best / (EDGES * times) * 1e9,
            "bytes an edge": memory / (EDGES * times),
        }
        values = found[times]
        print(
            f"   x{times}: {best:7.2f} s, {memory / 1e6:7.0f} MB; "
            f"{values['ns an edge']:6.0f} ns and {values['bytes an edge']:5.0f} bytes an edge"
        )
    spread = {
        key: max(values[key] for values in found.values()) / min(values[key] for values in found.values()) - 1
        for key in ("ns an edge", "bytes an edge")
    }
    print(f"   spread: time {spread['ns an edge']:.0%}, memory {spread['bytes an edge']:.0%}")
    return {"sizes": {str(times): values for times, values in found.items()}, "spread": spread}
