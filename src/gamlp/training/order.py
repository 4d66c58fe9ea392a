"""In which order an epoch takes its rows: by chance, row by row or by chunks that a disk reads at once."""

from __future__ import annotations

import torch
from torch import Tensor

WINDOW = 32_768  # rows that are shuffled together where chunks of rows are; a batch at least


def parts_of(count: int, size: int, generator: torch.Generator | None, chunk: int = 0) -> tuple[list[Tensor], bool]:
    """Positions of the rows of each batch of an epoch, and whether they are in order."""
    in_order = generator is None or count <= size  # the order of one batch changes nothing
    order = torch.arange(count) if in_order or generator is None else shuffled(count, size, generator, chunk)
    parts = list(torch.split(order, size))
    if len(parts) > 1 and len(parts[-1]) == 1 < size:  # batch norm has no variance of one row
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts, in_order


def shuffled(count: int, size: int, generator: torch.Generator, chunk: int = 0) -> Tensor:
    """All positions in an order by chance; with `chunk`, chunks of so many, and then rows within windows of batches.

    A chunk is read from a disk at once. Its rows fall into the batches of one window, or of two.
    """
    if not chunk:
        return torch.randperm(count, generator=generator)
    starts = torch.randperm(-(-count // chunk), generator=generator) * chunk
    order = (starts[:, None] + torch.arange(chunk)).flatten()
    windows = torch.split(order[order < count], batches_of_a_window(size) * size)
    return torch.cat([window[torch.randperm(len(window), generator=generator)] for window in windows])


def batches_of_a_window(size: int) -> int:
    """Batches of so many rows whose rows are shuffled together where chunks are."""
    return max(1, WINDOW // size)


def draw_seed(generator: torch.Generator) -> int:
    """A number for the rows of one part in one epoch: their batches may then be asked for in any order."""
    return int(torch.randint(1 << 62, (1,), generator=generator))
