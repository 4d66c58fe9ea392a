"""Recorded models answer as the models themselves do, or are not used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamlp.models import GAMLP, Shape
from gamlp.serve.traced import traced


@pytest.mark.parametrize("attention", ["recursive", "jk"])
@pytest.mark.parametrize("labels", [False, True])
def test_a_recording_gives_the_same_logits(attention: Any, labels: bool) -> None:
    torch.manual_seed(0)
    shape = Shape(5, 3, 4, 2 if labels else 0)
    model = GAMLP(
        shape, hidden=8, attention=attention, beta=1.0 if labels else 0.0, batch_norm=True, hop_mlp=True
    ).eval()
    answer = traced(model, shape, labels=labels, multi_label=False)
    assert answer is not model, "it can be recorded"
    for count in (1, 3, 20, 100):
        x = torch.randn(count, 1, 5, 5)
        y = torch.rand(count, 1, 3, 3) if labels else None
        with torch.no_grad():
            torch.testing.assert_close(answer(x, y), model(x, y), rtol=1e-6, atol=1e-6)


class _ByCount(nn.Module):
    """Answers by how many rows it is asked about: no recording holds that."""

    def forward(self, x: Tensor, y: Tensor | None) -> Tensor:
        return x[:, 0, 0, :3] * (1 if len(x) == 3 else 2)


class _Raises(nn.Module):
    def forward(self, x: Tensor, y: Tensor | None) -> Tensor:
        raise RuntimeError("not here")


@pytest.mark.parametrize("model", [_ByCount(), _Raises()])
def test_what_cannot_be_recorded_is_asked_itself(model: nn.Module) -> None:
    assert traced(model, Shape(5, 3, 4, 0), labels=False, multi_label=False) is model
