"""Peers that pass messages: an epoch of each beside the same at an earlier revision, and where its time goes.

    python benchmarks/slow_peers.py --before 4b94635c --data-dir FOLDER

unpacks the earlier sources into a folder of their own (git archive) and trains every peer there and here, by its
recipe, in turns, each time in a process of its own on one thread. Seconds are the processor's, so that other work
beside it counts little; an epoch is the quickest of several. It writes docs/results/slow-peers.md. The built kernel
is this revision's in both: message passing hardly uses it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PEERS = ("gcn", "gat", "jk-net", "resgcn", "appnp", "ap-gcn", "unimp", "graphsage", "deepergcn")
DATASETS = ("amazon-photo", "pubmed")
SLOWEST, ENOUGH = 5, 1.5  # of so many the ratio must be this, or its page says why
TOLD = 4  # operations of a profile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="4b94635c", help="A revision whose peers are slower.")
    parser.add_argument("--data-dir", type=Path, help="Folder of the datasets' files.")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="Small: that it works, not how fast it is.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "slow-peers.json")
    parser.add_argument("--alone", nargs=4, metavar=("SOURCES", "DATASET", "PEER", "EPOCHS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        sources, dataset, peer, epochs = options.alone
        print(json.dumps(alone(Path(sources), dataset, peer, int(epochs), options.data_dir)))
        return
    datasets, peers = (("karate",), PEERS[:2]) if options.quick else (DATASETS, PEERS)
    with tempfile.TemporaryDirectory() as folder:
        before = unpacked(options.before, Path(folder))
        found = measured(before, datasets, peers, options)
    write(found, options)


def unpacked(revision: str, folder: Path) -> Path:
    """The package's sources at that revision, with the kernel that is built now."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    from gamlp.kernel import _native

    shutil.copy(_native.__file__, folder / "src" / "gamlp" / "kernel")
    return folder / "src"


def measured(before: Path, datasets: tuple[str, ...], peers: tuple[str, ...], options: Any) -> list[dict[str, Any]]:
    """A line for each peer on each dataset: processor seconds of an epoch before and now, and the profile of now."""
    found = []
    for dataset in datasets:
        for peer in peers:
            best: dict[str, float] = {}
            profile: list[tuple[str, float]] = []
            for _ in range(options.rounds):
                for name, sources in (("before", before), ("now", ROOT / "src")):
                    command = [sys.executable, __file__, "--alone", str(sources), dataset, peer, str(options.epochs)]
                    command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
                    ended = subprocess.run(command, check=True, capture_output=True, text=True)
                    told = json.loads(ended.stdout.splitlines()[-1])
                    best[name] = min(told["epoch"], best.get(name, told["epoch"]))
                    profile = told["profile"]
            print(f"{peer} on {dataset}: {best['before']:.3f} s before, {best['now']:.3f} s now", flush=True)
            found.append({"peer": peer, "dataset": dataset, **best, "profile": profile})
    return found


def alone(sources: Path, dataset: str, peer: str, epochs: int, data_dir: Path | None) -> dict[str, Any]:
    """In this process: the quickest epoch of the peer of these sources, and the operations that take most of one."""
    if sources != ROOT / "src":  # the installed package finds its modules by a list of files: without it, the folder's
        sys.meta_path = [one for one in sys.meta_path if "editable" not in type(one).__module__]
        sys.path.insert(0, str(sources))
    import torch
    from torch.profiler import ProfilerActivity, profile

    import gamlp
    from gamlp.graph.datasets import load
    from gamlp.peers import Task, Workspace, recipe_for, run
    from gamlp.run import Resources

    assert Path(gamlp.__file__).is_relative_to(sources), gamlp.__file__
    torch.set_num_threads(1)
    task = Task(load(dataset, data_dir))

    def train(count: int) -> list[float]:
        ends: list[float] = []
        recipe = recipe_for(peer, dataset).changed({"training.epochs": count, "training.patience": 0})
        with tempfile.TemporaryDirectory() as folder:
            place = Workspace(
                Path(folder), Resources(threads=1, device="cpu"), observe=lambda _: ends.append(time.process_time())
            )
            run(task, recipe, 0, place)
        return [end - begun for begun, end in itertools.pairwise(ends)]

    quickest = min(train(epochs))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        train(2)
    taken = sorted(seen.key_averages(), key=lambda one: -one.self_cpu_time_total)
    whole = sum(one.self_cpu_time_total for one in taken)
    return {"epoch": quickest, "profile": [(one.key, one.self_cpu_time_total / whole) for one in taken[:TOLD]]}


def write(found: list[dict[str, Any]], options: Any) -> None:
    from gamlp.io import write_json, write_text
    from machine import describe, versions

    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"machine": describe(), "versions": versions(), "date": time.strftime("%Y-%m-%d"), "before": options.before}
    write_json(options.out, {**about, "peers": found})
    write_text(options.out.with_suffix(".md"), page(about, found))


def page(about: dict[str, str], found: list[dict[str, Any]]) -> str:
    """A table a dataset, the slowest of before first."""
    parts = [
        "# Epochs of peers that pass messages",
        f"`python benchmarks/slow_peers.py --before {about['before']}`, {about['date']}, {about['machine']}; "
        f"{about['versions']}.\nProcessor seconds of the quickest epoch with its validation, on one thread, by the "
        f"recipes of the set; *before* is revision {about['before']}, in turns with this one.",
    ]
    for dataset in dict.fromkeys(one["dataset"] for one in found):
        own = sorted((one for one in found if one["dataset"] == dataset), key=lambda one: -one["before"])
        heads = "| peer | before, s | now, s | times as fast | | most of its time now |"
        lines = [heads, "|---|---:|---:|---:|---|---|"]
        for place, one in enumerate(own):
            ratio = one["before"] / one["now"]
            told = "" if place >= SLOWEST else "met" if ratio >= ENOUGH else f"under {ENOUGH:g}"
            profile = ", ".join(f"`{name}` {100 * share:.0f} %" for name, share in one["profile"])
            seconds = f"{one['before']:.3f} | {one['now']:.3f} | {ratio:.2f}"
            lines.append(f"| {one['peer']} | {seconds} | {told} | {profile} |")
        parts += [f"## {dataset}", "\n".join(lines)]
    parts.append(
        "Where most of the time goes into products of matrices (`mm`, `addmm`, `_sparse_mm`), it is the arithmetic of\n"
        "the method by its own settings: what could be saved is the rest."
    )
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
