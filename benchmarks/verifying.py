"""What it costs to compare every file with its checksum before it is read: its share of whole jobs.

    python benchmarks/verifying.py

makes a graph in ogbn-products' shape at a tenth; propagation, training and prediction run in processes of their own,
and the processor's seconds inside of `verify` are taken apart. Files are in the page cache: reading them from disk is
not verifying's cost, since what is verified is read once and what computes finds it there. It writes
docs/results/verifying.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 0.03
PAGE = Path(__file__).parents[1] / "docs" / "results" / "verifying.md"
_JOB = """
import json, time
import torch
from gamlp.cli.main import main
import gamlp.graph.opening, gamlp.io.row_arrays, gamlp.io.verified, gamlp.propagation.store.store, gamlp.run
from gamlp.io import verified

spent, files = 0.0, 0
plain = verified.verify

def timed(place, *rest, **named):
    global spent, files
    begun = time.process_time()
    plain(place, *rest, **named)
    spent, files = spent + time.process_time() - begun, files + 1

for module in (gamlp.graph.opening, gamlp.io.row_arrays, gamlp.propagation.store.store):
    module.verify = timed
begun = time.process_time()
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
seconds = time.process_time() - begun
size = sum(key[3] for key in verified._known)
print("\\n" + json.dumps({"seconds": seconds, "verifying": spent, "files": files, "bytes": size}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=244_903)
    parser.add_argument("--edges", type=int, default=6_185_914)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given)
    given.out.write_text(page(found, given))
    sys.stdout.write(given.out.read_text())


def measure(folder: Path, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Medians of every job."""
    call = ["generate", "communities", "--nodes", str(given.nodes), "--edges", str(given.edges)]
    job(folder, [*call, "--features", "100", "--classes", "47", "--out", "graph"])
    rounds: dict[str, list[dict[str, float]]] = {}
    settings = ("model.hidden=256", f"training.epochs={given.epochs}", "training.batch_size=10000")
    small = [word for setting in settings for word in ("--set", setting)]
    for number in range(given.rounds):
        jobs = {
            "propagate": ["propagate", "graph", "--out", f"hops{number}", "--hops", "5", "--label-hops", "10"],
            "train": ["train", f"hops{number}", "--out", f"run{number}", *small],
            "predict": ["predict", f"run{number}", "--out", "labels.parquet"],
        }
        for name, line in jobs.items():
            settle(folder)
            rounds.setdefault(name, []).append(job(folder, line))
    return {
        name: {key: statistics.median(one[key] for one in every) for key in every[0]} for name, every in rounds.items()
    }


def settle(folder: Path) -> None:
    """As if written a while ago, since files of this moment are verified at every use; and in the page cache."""
    for path in folder.rglob("*.npy"):
        about = path.stat()
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns - 60 * 10**9))
        path.read_bytes()


def job(folder: Path, line: list[str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", _JOB, *line], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def page(found: dict[str, dict[str, float]], given: argparse.Namespace) -> str:
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# What verifying costs",
        "",
        f"`python benchmarks/verifying.py`: {given.nodes:,} nodes, {2 * given.edges:,} entries, 100 features, 47",
        f"classes; 5 hops of features, 10 of labels, {given.epochs} epochs; {cores} cores; medians of {given.rounds}",
        "rounds. Seconds are those of the processor, files are in the page cache: what is verified is read from disk",
        f"once, and what computes finds it there. Expected: at most {MOST:.0%} of every job.",
        "",
        "| job | seconds | of these verifying | share | verified | |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        share = one["verifying"] / one["seconds"]
        verdict = "met" if share <= MOST else "**missed**"
        size = f"{one['bytes'] / 2**20:,.0f} MiB"
        lines.append(f"| {name} | {one['seconds']:.2f} | {one['verifying']:.3f} | {share:.1%} | {size} | {verdict} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
