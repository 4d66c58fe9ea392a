"""Propagation on Spark against a shuffle, naive joins and the local engine, all in one run, as ratios.

    python benchmarks/spark.py               # a million edges a block, and a hundred million entries in all; half an
                                             # hour on two idle cores
    python benchmarks/spark.py --quick       # small: does it run? its figures mean nothing

Writes a page and JSON (--out). Every contestant runs in a process of its own with two executors of one core; what
counts is CPU seconds, of Java and Python together, a hop: the median over hops after the first two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import spark_page
from gamlp.graph.datasets.synthetic.homogeneous import communities
from gamlp.io import Place
from machine import describe, versions
from spark_usage import Peaks

HERE = Path(__file__).parent
WARM = 2  # hops at the beginning, while Java compiles, that are told apart
FULL = {
    "main": {"nodes": 200_000, "edges": 8_000_000, "features": 64},  # a million edges a block, stored both ways
    "small": {"nodes": 10_000, "edges": 50_000, "features": 32},
    "growth": {"nodes": 50_000, "edges": 1_000_000, "features": 64},
    "large": {"nodes": 1_000_000, "edges": 50_000_000, "features": 64},
}
QUICK = {
    "main": {"nodes": 4_000, "edges": 20_000, "features": 16},
    "small": {"nodes": 500, "edges": 2_000, "features": 8},
    "growth": {"nodes": 1_000, "edges": 5_000, "features": 16},
    "large": {"nodes": 5_000, "edges": 50_000, "features": 16},
}
PARTS = ("contest", "naive", "growth", "blocks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--rounds", type=int, default=2, help="Rounds in which the contestants take turns.")
    parser.add_argument("--hops", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="Small graphs: only to see that it runs.")
    parser.add_argument("--work", type=Path, help="Folder for graphs and stores (default: a temporary one).")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "results" / "spark.json")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="gamlp-bench-", dir=options.work))
    try:
        results = run(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(spark_page.page(results))
    print(f"written to {options.out} and {options.out.with_suffix('.md').name}")


def _without_folders(words: list[str]) -> list[str]:
    """What was asked for, without where it was put."""
    folders = ("--work", "--out")
    return [word for before, word in pairwise(["", *words]) if word not in folders and before not in folders]


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    shapes = QUICK if options.quick else FULL
    command = " ".join(["python benchmarks/spark.py", *_without_folders(sys.argv[1:])])
    results: dict[str, Any] = {
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe(),
        "versions": f"{versions()}, pyspark {version('pyspark')}",
        "quick": options.quick,
        "shapes": shapes,
    }
    bench = Bench(work, options.hops)
    if "contest" in options.parts:
        kinds = ("local", "ours", "shuffle of rows", "shuffle of packed rows")
        results["contest"] = bench.contest("main", shapes["main"], kinds, options.rounds)
        results["writing"] = bench.writing(shapes["main"]["nodes"] * shapes["main"]["features"] * 4)
    if "naive" in options.parts:
        results["naive"] = bench.contest("small", shapes["small"], ("local", "ours", "naive"), 1)
    if "growth" in options.parts:
        results["growth"] = {}
        for times in (1, 2, 4):
            shape = {**shapes["growth"]} | {name: shapes["growth"][name] * times for name in ("nodes", "edges")}
            results["growth"][str(times)] = bench.contest(f"growth-{times}", shape, ("ours",), 1)["ours"]
    if "blocks" in options.parts:
        results["blocks"] = {
            str(blocks): bench.contest("large", shapes["large"], ("local", "ours"), 1, blocks) for blocks in (4, 8, 16)
        }
    return results


class Bench:
    """Graphs are made once; a job is a process, its figures what it told and what its memory was."""

    def __init__(self, work: Path, hops: int) -> None:
        self.work, self.hops = work, hops

    def contest(
        self, name: str, shape: dict[str, int], kinds: tuple[str, ...], rounds: int, blocks: int = 8
    ) -> dict[str, Any]:
        """All kinds on one graph, taking turns; they must agree in what they compute."""
        graph = self.work / name
        if not graph.exists():
            communities(graph, **shape, classes=10)
        jobs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind in kinds:
                jobs[kind].append(self._job(kind, graph, blocks))
                _say(name, kind, blocks, jobs[kind][-1])
        expected = jobs[kinds[0]][0]["values"]
        for kind in kinds:
            for job in jobs[kind]:
                assert np.allclose(job["values"], expected, rtol=1e-3, atol=1e-4), f"{kind} computes something else"
        return {kind: _together(found) for kind, found in jobs.items()}

    def writing(self, size: int, files: int = 8) -> float:
        """Processor seconds of putting so many bytes into new files, as a hop does; the median of all hops.

        Files stay until the end, as states do: on a virtual machine memory that is used for the first time is dear.
        """
        place, content, found = Path(tempfile.mkdtemp(dir=self.work)), np.ones(size // files, np.uint8), []
        for hop in range(self.hops):
            before = time.process_time()
            for number in range(files):
                Place.of(place / f"{hop}-{number}").put(content.data)
            found.append(time.process_time() - before)
        shutil.rmtree(place)
        return statistics.median(found)

    def _job(self, kind: str, graph: Path, blocks: int) -> dict[str, Any]:
        place = Path(tempfile.mkdtemp(dir=self.work))
        command = [
            sys.executable,
            str(HERE / "spark_job.py"),
            kind,
            str(graph),
            str(place),
            str(blocks),
            str(self.hops),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), "TMPDIR": str(place)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            with Peaks(process) as peaks:
                told = [json.loads(line) for line in process.stdout if line.startswith("{")]
        shutil.rmtree(place, ignore_errors=True)
        if process.returncode or "values" not in told[-1]:
            raise RuntimeError(f"{kind} failed")
        hops = [stage for stage in told if stage.get("stage", "").startswith("hop ")]
        # The local engine hears of its last hop's end together with the writing: that one is not counted for anybody.
        return {
            "first": hops[0]["cpu"],
            "hops": hops[WARM : self.hops - 1],
            "other": {stage["stage"]: stage["cpu"] for stage in told[:-1] if not stage["stage"].startswith("hop ")},
            "memory": peaks.bytes,
            "wall of all": told[-1]["wall"],
            "values": told[-1]["values"],
        }


def _together(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the hops of all rounds; the minimum beside; memory at its most."""
    hops = [hop for job in jobs for hop in job["hops"]]
    names = [name for name in ("cpu", "wall", "called read", "called written", "read", "written") if name in hops[0]]
    return {
        **{name: statistics.median(hop[name] for hop in hops) for name in names},
        "least cpu": min(hop["cpu"] for hop in hops),
        "by role": {role: statistics.median(hop["by role"][role] for hop in hops) for role in hops[0]["by role"]},
        "first": statistics.median(job["first"] for job in jobs),
        "other": {name: statistics.median(job["other"][name] for job in jobs) for name in jobs[0]["other"]},
        "memory": {role: max(job["memory"][role] for job in jobs) for role in jobs[0]["memory"]},
        "wall of all": statistics.median(job["wall of all"] for job in jobs),
    }


def _say(name: str, kind: str, blocks: int, job: dict[str, Any]) -> None:
    cpu = statistics.median(hop["cpu"] for hop in job["hops"])
    print(
        f"{name}, {blocks} blocks, {kind}: {cpu:.2f} CPU seconds a hop, {job['wall of all']:.0f} s in all", flush=True
    )


if __name__ == "__main__":
    main()
