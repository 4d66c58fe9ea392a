"""Label spreading on hops against dense linear algebra, and what a node hears that no label reaches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.models import KnownRows, Shape, ToSolve, build
from gamlp.models.label_spreading import LabelSpreading
from gamlp.progress import silent
from gamlp.recipe import TrainingSettings

CLASSES, NODES, HOPS = 3, 30, 60


def dense(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """D^(-1/2) (A + I) D^(-1/2), one-hot labels of the first 12 nodes, and their hops `[n, 1, L + 1, c]`."""
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((NODES, NODES)) < 0.1, 1)
    adjacency = (upper | upper.T) + np.eye(NODES)
    adjacency[-1] = adjacency[:, -1] = 0
    adjacency[-1, -1] = 1  # alone
    scale = adjacency.sum(1) ** -0.5
    operator = torch.from_numpy(scale[:, None] * adjacency * scale)
    labels = torch.zeros(NODES, CLASSES, dtype=torch.float64)
    labels[torch.arange(12), torch.arange(12) % CLASSES] = 1
    hops = [labels]
    for _ in range(HOPS):
        hops.append(operator @ hops[-1])
    return operator, labels, torch.stack(hops, 1)[:, None]


def solved(
    model: LabelSpreading, y: torch.Tensor, target: torch.Tensor, valid: KnownRows | None = None
) -> dict[str, float]:
    def rank(logits: torch.Tensor) -> tuple[float, ...]:
        assert valid is not None
        return (-float(torch.nn.functional.cross_entropy(logits, valid.target)),)

    known = KnownRows(torch.zeros(len(y), 1, 1, 1), y, target)
    return model.solve(ToSolve(known, valid, TrainingSettings(), 0, rank, silent))


def test_it_is_the_inverse_of_one_less_alpha_operator() -> None:
    """Σ_l (1-α) α^l Âˡ Y = (1-α) (I - α Â)⁻¹ Y, but for what is left beyond the last hop."""
    operator, labels, hops = dense()
    model = LabelSpreading(Shape(1, CLASSES, 0, HOPS), alpha=0.7).double()
    solved(model, hops[:12], torch.arange(12) % CLASSES)
    model.prior.fill_(1e-9)
    spread = 0.3 * torch.linalg.solve(torch.eye(NODES) - 0.7 * operator, labels)
    reached = spread.sum(1) > 1e-6
    wanted = spread[reached] / spread[reached].sum(1, keepdim=True)
    told = torch.softmax(model(torch.zeros(NODES, 1, 1, 1), hops), 1)
    torch.testing.assert_close(told[reached], wanted, atol=1e-6, rtol=0)
    torch.testing.assert_close(told[-1], torch.full((CLASSES,), 1 / CLASSES, dtype=torch.float64))


def test_validation_rows_choose_how_far_labels_spread() -> None:
    _, _, hops = dense()
    near = hops[12:29, 0, 1].argmax(1)
    model = LabelSpreading(Shape(1, CLASSES, 0, HOPS))
    valid = KnownRows(torch.zeros(17, 1, 1, 1), hops[12:29].float(), near)
    told = solved(model, hops[:12].float(), torch.arange(12) % CLASSES, valid)
    assert told["alpha"] <= 0.5 and float(model.alpha) == pytest.approx(told["alpha"])
    weights = model.hop_weights(torch.zeros(2, 1, 1, 1), hops[:2].float())
    assert weights.features is None and weights.labels is not None and weights.first_label_hop == 0
    torch.testing.assert_close(weights.labels.sum(1), torch.ones(2))


def test_many_labels_are_chances_of_every_class() -> None:
    _, _, hops = dense()
    several = hops + hops.roll(1, 3) * 0.5
    target = (several[:12, 0, 0] > 0.4).float()
    model = LabelSpreading(Shape(1, CLASSES, 0, HOPS))
    solved(model, several[:12].float(), target)
    chance = torch.sigmoid(model(torch.zeros(NODES, 1, 1, 1), several.float()))
    assert bool(((chance > 0) & (chance < 1)).all()) and float(chance[:12][target > 0].mean()) > 0.5
    torch.testing.assert_close(chance[-1], target.mean(0), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("shape", "options", "told"),
    [
        (Shape(1, 3, 0, 0), {}, "it reads hops of labels alone: set propagation.label_hops and model.beta above 0"),
        (Shape(1, 3, 0, 2), {"beta": 0.0}, "model.beta above 0"),
        (Shape(1, 3, 0, 2), {"alpha": 1.5}, "alpha of label spreading is a share between 0 and 1, not 1.5"),
    ],
)
def test_what_cannot_be_is_told(shape: Shape, options: dict[str, float], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        build("label-spreading", shape, options)
