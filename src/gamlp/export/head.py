"""A bundle's model as one module of torch's own operations, hops → probabilities and logits: what all formats hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.export.trees import with_trees
from gamlp.models import Shape, labels_used
from gamlp.training import Bundle, to_probabilities

OUTPUTS = ("probabilities", "logits")
TOLERANCE = 1e-5
_ROWS = (1, 2, 33)  # of the batches that a file is compared on: none may be the one it was written with
_WRITTEN_WITH = 7
_USUAL = 50.0  # of the largest logit: float32 has five digits after the point for what is larger
_SMALLEST = 1e-6

Answer = Callable[..., tuple[Array, Array]]  # of x and, where labels are read, y: probabilities and logits


class Head(nn.Module):
    """`probabilities[b, c]` and `logits[b, c]` of x `[b, channel, hop, d]` and, where labels are read, y."""

    def __init__(self, model: nn.Module, temperature: float, multi_label: bool) -> None:
        super().__init__()
        self.model, self.temperature, self.multi_label = model, temperature, multi_label

    def forward(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor]:
        logits = self.model(x, y) / self.temperature
        return to_probabilities(logits, self.multi_label), logits


def head_of(bundle: Bundle) -> Head:
    """What is written down: trees as tensors, and the division by the temperature within."""
    plain = replace(bundle, temperature=1.0).model()
    return Head(with_trees(plain), bundle.temperature, bundle.multi_label).eval()


def reads_labels(bundle: Bundle) -> bool:
    """Whether the model has an input y."""
    return labels_used(bundle.recipe)


def input_names(bundle: Bundle) -> tuple[str, ...]:
    return ("x", "y") if reads_labels(bundle) else ("x",)


def shapes_of(bundle: Bundle) -> dict[str, tuple[int, ...]]:
    """Of each input, without the batch."""
    shape: Shape = bundle.shape
    found: dict[str, tuple[int, ...]] = {"x": (shape.channels, shape.hops + 1, shape.features)}
    if reads_labels(bundle):
        found["y"] = (max(1, len(shape.label_views)), shape.label_hops + 1, shape.classes)
    return found


def random_hops(bundle: Bundle, rows: int, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, ...]:
    """x, and y where labels are read: of some rows, whom no label reaches, all zero."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for name, shape in shapes_of(bundle).items():
        values = torch.randn(rows, *shape, generator=random) * scale
        if name == "y":
            values = torch.rand(rows, *shape, generator=random)
            values[1::3] = 0
        found.append(values)
    return tuple(found)


def example(bundle: Bundle) -> tuple[Tensor, ...]:
    """The batch that operations are written down with."""
    return random_hops(bundle, _WRITTEN_WITH)


def largest_difference(bundle: Bundle, answer: Answer) -> float:
    """Between what a file answers and what the bundle does, on random hops of several sizes and batches.

    Of logits in units of the largest one of the batch, where that is above one; of probabilities as they are, unless
    logits are larger than usual: rounding alone then moves them, and so they are taken in that unit too.
    """
    largest = 0.0
    for hops, logits in _asked(bundle):
        said = answer(*hops)
        true = to_probabilities(logits, bundle.multi_label).numpy(), logits.numpy()
        unit = max(1.0, float(np.abs(true[1]).max(initial=0.0)))
        for name, one, other, size in zip(OUTPUTS, said, true, (unit if unit > _USUAL else 1.0, unit), strict=True):
            if one.shape != other.shape:
                raise GamlpError(f"{name} of the file are {one.shape} where {other.shape} are expected")
            with np.errstate(invalid="ignore"):
                apart = np.where(one == other, 0.0, np.abs(one.astype(np.float64) - other)) / size
            largest = max(largest, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)))
    return largest


@torch.no_grad()
def _asked(bundle: Bundle) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
    """Hops and the bundle's logits, at a scale that gives usual logits, a tenth of it, and ten times as much."""
    model = bundle.model()

    def asked(rows: int, seed: int, scale: float) -> tuple[tuple[Tensor, ...], Tensor]:
        hops = random_hops(bundle, rows, seed, scale)
        return hops, model(*hops) if len(hops) > 1 else model(hops[0], None)

    usual = 1.0  # features of some graphs are much smaller, and a network that reads them is as much steeper
    while usual > _SMALLEST and float(asked(_ROWS[-1], 0, usual)[1].abs().max()) > _USUAL:
        usual /= 10
    for number, scale in enumerate((0.1 * usual, usual, 10 * usual), start=1):
        for rows in _ROWS:
            yield asked(rows, number, scale)


def check_agrees(bundle: Bundle, answer: Answer, what: str, tolerance: float = TOLERANCE) -> float:
    """The largest difference; a file that differs by more than `tolerance` is refused."""
    found = largest_difference(bundle, answer)
    if not found <= tolerance:
        raise GamlpError(
            f"{what} differs from the run by {found:.1g}, more than {tolerance:g}, and is not left behind",
            hint="use gamlp export --to mlflow, which keeps the run itself",
        )
    return found


def metadata_of(bundle: Bundle) -> dict[str, str]:
    """What every file says of itself, as texts: JSON where it is more than one."""
    about: dict[str, Any] = {
        "classes": list(bundle.classes),
        "class_type": bundle.class_type,
        "multi_label": bundle.multi_label,
        "positive": bundle.positive,
        "temperature": bundle.temperature,
        "inputs": {name: ["batch", *shape] for name, shape in shapes_of(bundle).items()},
        "channels": [{"view": one.view, "node_type": one.node_type, "width": one.width} for one in bundle.shape.parts],
        "label_views": list(bundle.shape.label_views),
    }
    found = {f"gamlp.{name}": json.dumps(value) for name, value in about.items()}
    found["gamlp.recipe"] = bundle.recipe.to_yaml()
    found["gamlp.version"] = version("gamlp")
    found["gamlp.trained_with"] = bundle.made_with
    return found


def cannot_hold(bundle: Bundle, what: str, error: Exception) -> GamlpError:
    """That a format has no form for a model, in one sentence."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return GamlpError(
        f"{what} cannot hold model '{bundle.recipe.model.name}' ({first[:200].rstrip('. ')})",
        hint="use gamlp export --to mlflow, which keeps the run itself",
    )
