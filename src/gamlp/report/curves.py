"""Training curves: a line for every seed, of not more points than a screen shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MOST_POINTS = 400  # of one line
MOST_ON_PAGE = 12_000  # of all seeds together
_LINES = ("loss", "valid_loss", "valid_score")


def curves_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """{epoch, loss, valid_loss, valid_score} by seed; of long trainings every `step`-th epoch, and the last."""
    by_seed: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_seed.setdefault(int(line["seed"]), []).append(line)
    if not by_seed:
        return None
    longest = max(len(some) for some in by_seed.values())
    most = max(2, min(MOST_POINTS, MOST_ON_PAGE // len(by_seed)))
    step = -(-longest // most)
    found = []
    for seed, some in sorted(by_seed.items()):
        kept = [line for index, line in enumerate(some) if index % step == 0 or index == len(some) - 1]
        names = [name for name in _LINES if any(line.get(name) is not None for line in kept)]
        columns = {name: [line.get(name) for line in kept] for name in names}
        found.append({"seed": seed, "epoch": [int(line["epoch"]) for line in kept], **columns})
    return {"step": step, "seeds": found}
