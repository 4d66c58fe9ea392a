"""What a trained model says of rows without labels that it is sure of, in a folder: the next stage learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gamlp.arrays import Array
from gamlp.graph import Features, Graph
from gamlp.io import GrowingArray, Place, atomic_folder, map_array, save_array
from gamlp.models import Blend
from gamlp.progress import Progress, silent
from gamlp.training.batches import UnlabelledRows, read_batches
from gamlp.training.scores import to_probabilities
from gamlp.training.unlabelled import as_distributions, confidence

_ROWS, _SAID = "rows.npy", "said.npy"


class SaidRows:
    """`[n, c]` of all nodes: what was said of some rows (`numbers`, ascending), zero elsewhere; no zeros are held."""

    def __init__(self, numbers: Array, said: Array, nodes: int) -> None:
        self.numbers, self._said = numbers, said
        self.shape, self.dtype = (nodes, *said.shape[1:]), said.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """With its zeros: for an engine whose machines read the whole of it from a file."""
        return self[:] if dtype is None else self[:].astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        at = np.minimum(np.searchsorted(self.numbers, wanted), max(0, len(self.numbers) - 1))
        found = np.zeros((len(wanted), self.shape[1]), self.dtype)
        if len(self.numbers):
            there = np.flatnonzero(np.asarray(self.numbers[at]) == wanted)
            found[there] = self._said[at[there]]
        return found[:, columns]


@torch.no_grad()
def write_teacher(
    folder: Path,
    model: nn.Module,
    rows: UnlabelledRows,
    *,
    multi_label: bool,
    reliable: float,
    device: torch.device,
    progress: Progress = silent,
) -> None:
    """Probabilities of the rows whose likeliest label has at least `reliable`; a folder that is there stays.

    They are the model's own, not calibrated: a temperature that validation labels gave would let them in.
    """
    if folder.exists():
        return
    model = (model.uncalibrated() if isinstance(model, Blend) else model).to(device).eval()
    with atomic_folder(folder) as new:
        said = GrowingArray(new / _SAID, rows.classes, np.float32)
        sure: list[Array] = []
        for part, x, y in read_batches(rows, device=device):
            found = to_probabilities(model(x, y), multi_label).float()
            kept = (confidence(as_distributions(found, multi_label)) >= reliable).cpu().numpy()
            said.append(found.cpu().numpy()[kept])
            sure.append(rows.rows[part][kept])
            progress("teacher", part.stop, len(rows), "rows")
        said.finish()
        save_array(new / _ROWS, np.concatenate(sure))


def read_teacher(folder: str | Path, nodes: int) -> SaidRows:
    """What was said of reliable rows, mapped."""
    place = Place.of(folder)
    numbers, said = (map_array((place / name).local_copy()) for name in (_ROWS, _SAID))
    return SaidRows(numbers, said, nodes)


def with_said(graph: Graph, said: Any) -> Graph:
    """The graph, with what was said of its nodes in the place of their features: `LabelSignal.soft` reads it there."""
    return graph.with_features(**{graph.target: Features(said)})
