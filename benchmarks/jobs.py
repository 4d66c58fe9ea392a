"""Whole jobs in processes of their own: open the graph folder, propagate, write the store, verify it."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamlp.graph import Graph
from machine import disk_seconds

_JOB = """
import json, sys, time
from pathlib import Path
from gamlp.graph import Graph
from gamlp.io.memory import anonymous_memory
from gamlp.propagation import FeatureSignal, LocalPropagator, Plan

graph, store, memory, dtype = sys.argv[1:]
base = anonymous_memory()
begun = time.perf_counter()
plan = Plan(features=FeatureSignal(hops=5, dtype=dtype))
found = LocalPropagator(memory=int(memory) or None).propagate(Graph.open(graph), plan, Path(store))
written = time.perf_counter() - begun
assert found.damaged() == []
seconds = time.perf_counter() - begun
size = sum(file.bytes for _, file in found.files())
print(json.dumps({"seconds": seconds, "written": written, "base": base, "bytes": size}))
"""


@dataclass(frozen=True)
class Job:
    """What a process did: seconds with and without verification, peak RssAnon, RssAnon after imports, bytes written."""

    seconds: float
    written: float
    peak: int
    base: int
    bytes: int


def run_job(graph: Path, store: Path, memory: int = 0, dtype: str = "float32") -> Job:
    """Run one job and sample its anonymous memory."""
    shutil.rmtree(store, ignore_errors=True)
    command = [sys.executable, "-c", _JOB, str(graph), str(store), str(memory), dtype]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output, peak = watched(process)
    shutil.rmtree(store, ignore_errors=True)
    if process.returncode:
        raise SystemExit(f"the job on {graph} failed")
    return Job(peak=peak, **json.loads(output))


def watched(process: subprocess.Popen[str]) -> tuple[str, int]:
    """What a process printed, and the most anonymous memory it held."""
    peak = [0]
    sampler = threading.Thread(target=_sample, args=(process, peak))
    sampler.start()
    output, _ = process.communicate()
    sampler.join()
    return output, peak[0]


def _sample(process: subprocess.Popen[str], peak: list[int]) -> None:
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            line = next((line for line in status.read_text().splitlines() if line.startswith("RssAnon")), None)
        except OSError:
            return
        if line:
            peak[0] = max(peak[0], int(line.split()[1]) * 1024)
        time.sleep(0.005)


def whole_job(graph: Graph, work: Path, hop: dict[str, Any], repetitions: int) -> dict[str, Any]:
    """Against the kernel's own time and that of as many bytes to the disk and back; then in a quarter of the memory."""
    assert graph.folder is not None and graph.nodes.features is not None
    matrix = graph.nodes.count * graph.nodes.features.width * 4
    structure = graph.relation.entries * 4 + (graph.nodes.count + 1) * 8
    limit = structure + 3 * matrix + 350 * 10**6
    quarter = limit // 4
    kernel = 5 * hop["seconds"]["ours, float32"]
    run_job(graph.folder, work / "store")  # brings the graph into the page cache, as after ingest
    plain, tight, disk = [], [], []
    for _ in range(repetitions):
        disk.append(disk_seconds(work, 6 * matrix))
        plain.append(run_job(graph.folder, work / "store"))
        tight.append(run_job(graph.folder, work / "store", memory=quarter))
    seconds, in_quarter = (statistics.median(job.seconds for job in jobs) for jobs in (plain, tight))
    written = statistics.median(job.written for job in plain)
    write, read = (statistics.median(times) for times in zip(*disk))
    found = {
        "job": seconds,
        "job, without verifying": written,
        "kernel, 5 hops": kernel,
        "writing as many bytes": write,
        "reading as many bytes": read,
        "job in a quarter of the memory": in_quarter,
    }
    ratios = {
        "written / (kernel + write)": written / (kernel + write),
        "job / (kernel + write)": seconds / (kernel + write),
        "job / (kernel + write + read)": seconds / (kernel + write + read),
        "quarter / whole memory": in_quarter / seconds,
        "peak / limit": max(job.peak for job in plain) / limit,
        "quarter: peak / (budget + 300 MB)": max(job.peak for job in tight) / (quarter + 300 * 10**6),
    }
    memory = {
        "limit": limit,
        "peak": max(job.peak for job in plain),
        "quarter": quarter,
        "peak in a quarter": max(job.peak for job in tight),
    }
    print("-- the whole job, K = 5, float32 (medians)")
    for name, value in found.items():
        print(f"   {name:<34}{value:9.2f} s")
    for name, value in memory.items():
        print(f"   {name:<34}{value / 1e6:9.0f} MB")
    for name, value in ratios.items():
        print(f"   {name:<34}{value:9.2f} x")
    return {"seconds": found, "memory": memory, "ratios": ratios}
