"""Tables of people in three towns, and a command line as it ended."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Call = Callable[[str], "Ended"]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Planted:
    """Tables of people in three towns, who know mostly people of their own; `truth` is everyone's town."""

    edges: Path
    nodes: Path
    truth: dict[str, str]
    known: set[str]


TOWNS = ("Ankara", "Århus", "New York")


def plant(
    folder: Path, count: int = 150, *, seed: int = 0, width: int = 5, prefix: str = "p", known: float = 0.6
) -> Planted:
    """Write nodes.csv and edges.csv into a folder; ids are strings, a share of labels is known."""
    random, width = np.random.default_rng(seed), 5
    centres = 2 * np.random.default_rng(7).normal(size=(3, width))  # the same towns for every seed
    town = random.integers(0, 3, count)
    x = centres[town] + random.normal(size=(count, width))
    ids = [f"{prefix}{number:04d}" for number in random.permutation(count)]
    told = random.random(count) < known
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "label", *(f"f{column}" for column in range(width))])
        for row in range(count):
            table.writerow([ids[row], TOWNS[town[row]] if told[row] else "", *(f"{value:.4f}" for value in x[row])])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["src", "dst"])
        for one in range(count):
            own = np.flatnonzero(town == town[one])
            table.writerows([ids[one], ids[other]] for other in (*random.choice(own, 3), random.integers(count)))
    truth = {ids[row]: TOWNS[town[row]] for row in range(count)}
    return Planted(folder / "edges.csv", folder / "nodes.csv", truth, {ids[r] for r in range(count) if told[r]})
