"""A model as one recorded list of operations: a few rows are answered three times as fast, since Python is left out.

What a recording cannot hold (a model that draws, or goes by the number of rows) shows where both are asked about the
same rows, as many as 1 to 64: the model itself is used then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.jit import optimized_execution  # type: ignore[attr-defined]

from gamlp.models import Shape
from gamlp.training import to_probabilities

Answer = Callable[[Tensor, Tensor | None], Tensor]  # x, y → logits
_TRIED = (1, 2, 7, 64)  # rows
_MOST = 1e-6  # that a probability may differ


def traced(model: nn.Module, shape: Shape, labels: bool, multi_label: bool) -> Answer:
    """The model in inference, recorded where that gives the same answers. `labels`: it reads hops of labels too."""
    generator = torch.Generator().manual_seed(0)

    def rows(count: int) -> tuple[Tensor, ...]:
        x = torch.randn((count, shape.channels, shape.hops + 1, shape.features), generator=generator)
        if not labels:
            return (x,)
        views = max(1, len(shape.label_views))
        return x, torch.rand((count, views, shape.label_hops + 1, shape.classes), generator=generator)

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes that become constants: they are looked at below
            recorded = torch.jit.trace(_Given(model, labels), rows(3), check_trace=False)  # type: ignore[no-untyped-call]
        answer = _recorded(recorded, labels)
        for count in _TRIED:
            given = rows(count)
            found = [answer(*given, *(() if labels else (None,))), model(*given, *(() if labels else (None,)))]
            one, other = (to_probabilities(logits.detach(), multi_label) for logits in found)
            if not bool(((one - other).abs() <= _MOST).all()):
                return model
    except Exception:  # whatever a model of somebody's own does that cannot be recorded
        return model
    return answer


class _Given(nn.Module):
    """The model with as many inputs as it has: a recording takes tensors alone."""

    def __init__(self, model: nn.Module, labels: bool) -> None:
        super().__init__()
        self.model, self.labels = model, labels

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        found: Tensor = self.model(x, y if self.labels else None)
        return found


def _recorded(recorded: Callable[..., Tensor], labels: bool) -> Answer:
    def answer(x: Tensor, y: Tensor | None) -> Tensor:
        # Compiling anew for every number of rows would take tens of milliseconds, again and again.
        with torch.inference_mode(), optimized_execution(False):
            return recorded(x, y) if labels else recorded(x)

    return answer
