"""How training goes through so many rows: batches, epochs and patience, in steps rather than in passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.graph import Graph

ONE_BATCH = 1_000  # rows that are one batch: few labels are told apart by their number of passes, not of steps
_STEPS = 16  # of an epoch, while batches may grow
_SMALLEST, _LARGEST = 256, 10_000  # rows of a batch


def pace_for(graph: Graph) -> dict[str, Any]:
    """Settings of training for a graph's training rows.

    With one step an epoch, 5,000 rows have learned little after 200 epochs: batches are a sixteenth of the rows, and
    fewer epochs without a better one are waited for.
    """
    rows = training_rows(graph)
    if rows <= ONE_BATCH:
        return {"training.batch_size": _LARGEST, "training.epochs": 300, "training.patience": 40}
    batch = int(np.clip(rows // _STEPS, _SMALLEST, _LARGEST))
    return {"training.batch_size": batch, "training.epochs": 100, "training.patience": 12}


def training_rows(graph: Graph) -> int:
    """How many have a label."""
    labels, split = graph.nodes.labels, graph.nodes.split
    return 0 if labels is None or split is None else int(np.count_nonzero(labels.known_at(split.train)))
