"""Boosted trees as tensors: LightGBM's text → a module of torch's own operations, with the same answers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.models import LightGBM

_MISSING_IS_ZERO = 1  # of decision_type, bits 2 and 3: a zero goes where missing values go
_NUMBERS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


class TreesOnHops(nn.Module):
    """Every row goes down all trees at once, a level at a time; leaves lead to themselves.

    A feature is float32 and a threshold is float64, so x ≤ t just where x ≤ the largest float32 that is at most t: no
    row goes another way. Leaves are added up in float64, as LightGBM does.
    """

    def __init__(self, model: LightGBM) -> None:
        super().__init__()
        self.columns, self.classes = model.columns, model.shape.classes
        texts = model.texts()
        outputs = model.outputs if len(texts) == 1 else len(texts)
        self.outputs = outputs
        found = _Nodes()
        for number, text in enumerate(texts):
            for place, tree in enumerate(text.split("\nTree=")[1:]):
                found.add(tree, place % outputs if len(texts) == 1 else number)
        self.depth = found.depth
        self.roots: Tensor
        self.feature: Tensor
        self.threshold: Tensor
        self.left: Tensor
        self.right: Tensor
        self.value: Tensor
        self.of_output: Tensor
        self.register_buffer("roots", torch.tensor(found.roots, dtype=torch.int64))
        self.register_buffer("feature", torch.from_numpy(np.concatenate(found.feature)))
        self.register_buffer("threshold", torch.from_numpy(np.concatenate(found.threshold)))
        self.register_buffer("left", torch.from_numpy(np.concatenate(found.left)))
        self.register_buffer("right", torch.from_numpy(np.concatenate(found.right)))
        self.register_buffer("value", torch.from_numpy(np.concatenate(found.value)))
        hot = torch.zeros(len(found.roots), outputs, dtype=torch.float64)
        hot[torch.arange(len(found.roots)), torch.tensor(found.output)] = 1
        self.register_buffer("of_output", hot)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        table = self.columns.of(x, y)
        at = self.roots.expand(x.shape[0], -1)
        for _ in range(self.depth):
            goes_left = table.gather(1, self.feature[at]) <= self.threshold[at]
            at = torch.where(goes_left, self.left[at], self.right[at])
        logits = self.value[at] @ self.of_output
        if self.outputs == 1 < self.classes:  # of two classes: half against the first, half for the second
            logits = torch.cat([-logits / 2, logits / 2], 1)
        return logits.to(x.dtype)


class _Nodes:
    """Splits and leaves of all trees, one after the other."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.output: list[int] = []
        self.feature: list[Array] = []
        self.threshold: list[Array] = []
        self.left: list[Array] = []
        self.right: list[Array] = []
        self.value: list[Array] = []
        self.depth, self._count = 0, 0

    def add(self, text: str, output: int) -> None:
        said = dict(line.split("=", 1) for line in text.split("\n")[1:] if "=" in line)
        values = np.array(said["leaf_value"].split(" "), np.float64)
        leaves, first = len(values), self._count
        splits = leaves - 1
        columns = {name: np.array(said[name].split(" ") if splits else [], np.float64) for name in _NUMBERS}
        if ((columns["decision_type"].astype(np.int64) >> 2 & 3) == _MISSING_IS_ZERO).any():
            raise GamlpError(
                "trees that take zeros for missing values cannot be written as tensors",
                hint="train with LightGBM of this gamlp",
            )
        own = np.arange(splits, splits + leaves)

        def ends(name: str) -> Array:
            """Places of children: splits as they are numbered, leaves, whose numbers are below zero, after them."""
            child = columns[name].astype(np.int64)
            return np.concatenate([np.where(child >= 0, child, splits + ~child), own]) + first

        self.roots.append(first)
        self.output.append(output)
        self.left.append(ends("left_child"))
        self.right.append(ends("right_child"))
        self.feature.append(np.concatenate([columns["split_feature"].astype(np.int64), np.zeros(leaves, np.int64)]))
        self.threshold.append(np.concatenate([_at_most(columns["threshold"]), np.zeros(leaves, np.float32)]))
        self.value.append(np.concatenate([np.zeros(splits), values]))
        self.depth = max(self.depth, _depth(self.left[-1] - first, self.right[-1] - first, splits))
        self._count += splits + leaves


def _at_most(values: Array) -> Array:
    """The largest float32 that is no more than each."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


def _depth(left: Array, right: Array, splits: int) -> int:
    """Steps to the farthest leaf; children come after their parents."""
    steps = np.zeros(max(1, len(left)), np.int64)
    for place in range(splits):
        steps[left[place]] = steps[right[place]] = steps[place] + 1
    return int(steps.max())


def with_trees(model: nn.Module) -> nn.Module:
    """The model with every LightGBM in it, itself or a member of a blend, as tensors."""
    if isinstance(model, LightGBM):
        return TreesOnHops(model).eval() if len(model.ends) else model
    for name, part in model.named_children():
        replaced = with_trees(part)
        if replaced is not part:
            setattr(model, name, replaced)
    return model
