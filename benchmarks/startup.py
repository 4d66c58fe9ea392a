"""How long `gamlp` takes to start: its help, and the prediction of one row, beside an empty Python and torch's import.

    python benchmarks/startup.py        # writes docs/results/startup.md

Every command is a process of its own, all take turns, and the best of the rounds counts: what a warm cache gives on a
quiet machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

PAGE = Path(__file__).parents[1] / "docs" / "results" / "startup.md"
GAMLP = ["-m", "gamlp.cli.main"]
LIMITS = {"gamlp --help": 0.25, "gamlp predict, one row": 1.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = contestants(Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.rounds + 1):
            for name, words in commands.items():
                seconds[name].append(timed(words, Path(folder)))
    options.out.write_text(page({name: min(found[1:]) for name, found in seconds.items()}, options.rounds))
    print(f"written to {options.out.name}")


def contestants(folder: Path) -> dict[str, list[str]]:
    """Commands by name; the run that predicts is trained first, on a graph folder."""
    timed([*GAMLP, "generate", "communities", "--nodes", "2000", "--edges", "10000", "--out", "graph"], folder)
    timed([*GAMLP, "train", "graph", "--out", "run", "--set", "training.epochs=2"], folder)
    predict = [*GAMLP, "predict", "run", "--out", "one.csv", "--ids", "7"]
    return {
        "python -c pass": ["-c", "pass"],
        "gamlp --help": [*GAMLP, "--help"],
        "gamlp plan, by recorded rates": [*GAMLP, "plan", "graph", "--no-measure"],
        "python -c 'import torch'": ["-c", "import torch"],
        "gamlp predict, one row": predict,
    }


def timed(words: list[str], folder: Path) -> float:
    begun = time.perf_counter()
    environment = {**os.environ, "GAMLP_PROGRESS": "off"}
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True, env=environment)
    return time.perf_counter() - begun


def page(seconds: dict[str, float], rounds: int) -> str:
    empty = seconds["python -c pass"]
    lines = [
        "# Starting",
        "",
        f"Written by `python benchmarks/startup.py`: {machine.describe()}; {machine.versions()}.",
        f"Wall-clock seconds of whole processes, the best of {rounds} rounds in which all take turns, files in the",
        "page cache. What `gamlp predict` takes is mostly torch's import, less what it puts off (`gamlp.cli.lean`).",
        "",
        "| | seconds | ÷ an empty Python | asked for | |",
        "|---|---|---|---|---|",
    ]
    for name, value in seconds.items():
        limit = LIMITS.get(name)
        asked = "" if limit is None else f"≤ {limit:g} s"
        met = "" if limit is None else "met" if value <= limit else "**missed**"
        lines.append(f"| `{name}` | {value:.2f} | {value / empty:.1f} | {asked} | {met} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
