"""Logistic regression on hops against scikit-learn, its own equations, and tables of awkward shapes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gamlp.errors import GamlpError
from gamlp.models import KnownRows, Part, Shape, ToSolve, build
from gamlp.models.logistic import Logistic, LogisticLabels
from gamlp.progress import silent
from gamlp.recipe import TrainingSettings

Array = np.ndarray[Any, Any]
PLAIN = TrainingSettings()


def planted(rows: int, shape: Shape, *, many: bool = False, seed: int = 0, scale: float = 1.0) -> KnownRows:
    random = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(rows, shape.channels, shape.hops + 1, shape.features, generator=random)
    for number, part in enumerate(shape.parts):
        x[:, number, :, part.width :] = 0
    teacher = torch.randn(x[0].numel(), shape.classes, generator=torch.Generator().manual_seed(99))
    told = x.flatten(1) @ teacher / (scale * x[0].numel() ** 0.5)
    told += 0.7 * torch.randn(told.shape, generator=random)
    target = (told > 0.3).float() if many else told.argmax(1)
    return KnownRows(x, None, target)


def solved(model: Logistic, train: KnownRows, settings: TrainingSettings = PLAIN, **more: Any) -> dict[str, float]:
    valid: KnownRows | None = more.get("valid")

    def rank(logits: Tensor) -> tuple[float, ...]:
        assert valid is not None
        return (-float(torch.nn.functional.cross_entropy(logits, valid.target)),)

    with torch.no_grad():
        return model.solve(ToSolve(train, valid, settings, 0, rank, silent))


def of_sklearn(table: Array, target: Array, c: float, **more: Any) -> LogisticRegression:
    return LogisticRegression(C=c, tol=1e-8, max_iter=20_000, **more).fit(table, target)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("rows", "c"), [(300, 1.0), (300, 100.0), (20, 0.01), (20, 30.0)])
def test_probabilities_are_those_of_scikit_learn(classes: int, rows: int, c: float) -> None:
    """More rows than columns (18), and fewer, where the weights are sought in the span of the rows."""
    shape = Shape(features=9 if rows > 20 else 40, classes=classes, hops=1)
    train, other = planted(rows, shape), planted(50, shape, seed=1)
    model = Logistic(shape, C=c, scale="none")
    solved(model, train)
    known = of_sklearn(train.x.flatten(1).double().numpy(), train.target.numpy(), c)
    told = torch.softmax(model(other.x), 1).detach().numpy()
    np.testing.assert_allclose(told, known.predict_proba(other.x.flatten(1).double().numpy()), atol=1e-4)


def test_balanced_classes_and_standardised_columns_are_those_of_scikit_learn() -> None:
    shape = Shape(features=5, classes=3, hops=1)
    train, other = planted(200, shape, scale=30.0), planted(50, shape, seed=1, scale=30.0)
    train.x[:, 0, 1, 2] = 7.0  # a column that tells nothing
    train.x[:, 0, 0] += 1000.0
    other.x[:, 0, 0] += 1000.0
    model = Logistic(shape, C=0.1, scale="columns")
    solved(model, train, TrainingSettings(class_weights="balanced"))
    table = train.x.flatten(1).double().numpy()
    mean, scale = table.mean(0), np.where(table.std(0) > 0, table.std(0), 1)
    known = of_sklearn((table - mean) / scale, train.target.numpy(), 0.1, class_weight="balanced")
    wanted = known.predict_proba((other.x.flatten(1).double().numpy() - mean) / scale)
    np.testing.assert_allclose(torch.softmax(model(other.x), 1).detach().numpy(), wanted, atol=1e-4)


def test_a_hop_is_scaled_as_a_whole() -> None:
    """A hop that is a hundred times smaller weighs as much; within a hop columns keep their proportions."""
    shape = Shape(features=5, classes=3, hops=1)
    train, other = planted(200, shape), planted(50, shape, seed=1)
    small = [KnownRows(rows.x * torch.tensor([1.0, 0.01])[:, None], None, rows.target) for rows in (train, other)]
    told = []
    for learned, asked in ((train, other), small):
        model = Logistic(shape, C=0.01, scale="hops")
        solved(model, learned)
        told.append(model(asked.x))
    torch.testing.assert_close(told[0], told[1], atol=1e-4, rtol=0)
    table = train.x.double().numpy()
    scale = np.sqrt(table.reshape(200, 2, 5).var(0).mean(1))[None, :, None]
    known = of_sklearn((table[:, 0] / scale).reshape(200, -1), train.target.numpy(), 0.01)
    wanted = known.predict_proba((other.x.double().numpy()[:, 0] / scale).reshape(50, -1))
    np.testing.assert_allclose(torch.softmax(told[0], 1).detach().numpy(), wanted, atol=1e-4)


def test_many_labels_are_a_regression_a_class() -> None:
    shape = Shape(features=6, classes=3, hops=1)
    train, other = planted(120, shape, many=True), planted(40, shape, seed=1)
    model = Logistic(shape, C=2.0, scale="none")
    solved(model, train)
    table, told = train.x.flatten(1).double().numpy(), torch.sigmoid(model(other.x)).detach().numpy()
    for column in range(3):
        known = of_sklearn(table, train.target[:, column].numpy(), 2.0)
        wanted = known.predict_proba(other.x.flatten(1).double().numpy())[:, 1]
        np.testing.assert_allclose(told[:, column], wanted, atol=1e-4)


@pytest.mark.parametrize(("rows", "features"), [(400, 6), (30, 200), (3500, 1600)], ids=["tall", "wide", "large"])
def test_the_slope_of_the_penalised_loss_is_zero(rows: int, features: int) -> None:
    """∇ of mean loss + ‖W‖² / (2 C n), also where float32 and a diagonal curvature must do."""
    shape = Shape(features=features, classes=3, hops=1)
    train = planted(rows, shape)
    model = Logistic(shape, C=0.3, scale="none")
    solved(model, train)
    weight = model.linear.weight.detach().double().requires_grad_()
    bias = model.linear.bias.detach().double().requires_grad_()
    logits = train.x.flatten(1).double() @ weight.T + bias
    loss = torch.nn.functional.cross_entropy(logits, train.target) + weight.square().sum() / (2 * 0.3 * rows)
    loss.backward()
    assert weight.grad is not None and bias.grad is not None
    assert float(weight.grad.abs().max()) < 1e-4 and float(bias.grad.abs().max()) < 1e-4


def test_validation_rows_choose_the_strength_and_test_rows_are_none() -> None:
    """With labels that are mostly noise a strong penalty is chosen, with clean ones of many columns a weak one."""
    shape = Shape(features=40, classes=2, hops=0)
    noisy = planted(60, shape)
    random = torch.Generator().manual_seed(5)
    flipped = torch.where(torch.rand(60, generator=random) < 0.4, 1 - noisy.target, noisy.target)
    model = Logistic(shape)
    told = solved(model, KnownRows(noisy.x, None, flipped), valid=planted(200, shape, seed=1))
    assert told["C"] <= 0.1
    easy = Shape(features=3, classes=2, hops=0)
    clean = planted(400, easy)
    assert solved(Logistic(easy), clean, valid=clean)["C"] >= 10


def test_without_validation_rows_c_is_one() -> None:
    assert solved(Logistic(Shape(3, 2, 1)), planted(30, Shape(3, 2, 1)))["C"] == 1


def test_x0_is_read_once_and_padding_not_at_all() -> None:
    parts = (Part("a", "paper", 4), Part("b", "paper", 4), Part("b", "author", 3))
    model = Logistic(Shape(4, 3, 2, channels=3, parts=parts))
    assert model.columns.count == 4 * 3 + 4 * 2 + 3 * 3
    assert Logistic(Shape(4, 3, 2, channels=2)).columns.count == 4 * 3 + 4 * 2


def test_hop_weights_are_shares_of_what_moves_the_logits() -> None:
    shape = Shape(features=3, classes=2, hops=2)
    model = Logistic(shape)
    train = planted(50, shape)
    solved(model, train)
    with torch.no_grad():
        model.linear.weight[:, 6:] = 0
    weights = model.hop_weights(train.x).features
    assert weights is not None and float(weights[:, 2].abs().max()) == 0
    torch.testing.assert_close(weights.sum(1), torch.ones(50))
    assert model.branches(train.x).each_hop is not None


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_awkward_tables_have_finite_answers(rows: int) -> None:
    """Rows that are all alike, columns that are all zero, a class that nobody has."""
    shape = Shape(features=5, classes=3, hops=1)
    x = torch.ones(rows, 1, 2, 5)
    x[:, 0, 1] = 0
    target = torch.arange(rows) % 2
    for scale in ("hops", "columns", "none"):
        model = Logistic(shape, scale=scale)
        solved(model, KnownRows(x, None, target), valid=KnownRows(x, None, target))
        assert bool(model(x).isfinite().all())


@pytest.mark.parametrize("options", [{"C": 0}, {"C": "many"}, {"C": -1.0}, {"scale": "often"}])
def test_options_that_cannot_be_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(GamlpError, match=r"model 'logistic' cannot be made: (C|scale) "):
        build("logistic", Shape(3, 2, 1), options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "shape", "seconds"),
    [
        (140, Shape(1433, 7, 2), 2.0),
        (5000, Shape(7, 2, 2), 1.0),
        (9000, Shape(500, 5, 2), 15.0),
    ],
    ids=["few rows", "few columns", "many of both"],
)
def test_the_whole_path_is_fast(rows: int, shape: Shape, seconds: float) -> None:
    """On one core; twice what is wanted, since the machine may be busy."""
    torch.set_num_threads(1)
    train, valid = planted(rows, shape), planted(500, shape, seed=1)
    begun = time.process_time()
    solved(Logistic(shape), train, valid=valid)
    assert time.process_time() - begun < 2 * seconds


def test_hops_of_labels_are_shares_and_their_sum_and_nothing_heard_is_zero() -> None:
    """Against scikit-learn on columns put together by hand; branches add up to the logits."""
    shape = Shape(features=4, classes=3, hops=1, label_hops=2)
    train, other = planted(200, shape), planted(40, shape, seed=1)
    random = torch.Generator().manual_seed(5)
    heard = [torch.rand(rows, 1, 3, 3, generator=random) for rows in (200, 40)]
    heard[1][3, 0, 1] = 0  # a node that hears of no label
    model = LogisticLabels(shape, C=1.0, scale="none")
    solved(model, KnownRows(train.x, heard[0], train.target))

    def by_hand(x: Tensor, y: Tensor) -> Array:
        totals = [y[:, 0, hop].sum(1, keepdim=True) for hop in (1, 2)]
        shares = [torch.nan_to_num(y[:, 0, hop] / total) for hop, total in zip((1, 2), totals)]
        parts = [x.flatten(1), shares[0], totals[0], shares[1], totals[1]]
        return torch.cat(parts, 1).double().numpy()

    known = of_sklearn(by_hand(train.x, heard[0]), train.target.numpy(), 1.0)
    told = torch.softmax(model(other.x, heard[1]), 1).detach().numpy()
    np.testing.assert_allclose(told, known.predict_proba(by_hand(other.x, heard[1])), atol=1e-4)
    branches = model.branches(other.x, heard[1])
    assert branches.labels is not None
    torch.testing.assert_close(branches.features + branches.labels, model(other.x, heard[1]), atol=1e-5, rtol=1e-5)
    weights = model.hop_weights(other.x, heard[1])
    assert weights.labels is not None and weights.labels.shape == (40, 2)
    torch.testing.assert_close(weights.labels.sum(1), torch.ones(40))


@pytest.mark.parametrize("scale", ["none", "hops", "columns", "auto"])
def test_labels_are_scaled_with_every_scale(scale: str) -> None:
    shape = Shape(features=4, classes=3, hops=1, label_hops=2)
    train = planted(60, shape)
    known = KnownRows(train.x, torch.rand(60, 1, 3, 3, generator=torch.Generator().manual_seed(2)), train.target)
    model = LogisticLabels(shape, C=None if scale == "auto" else 1.0, scale=scale)
    solved(model, known, valid=known)
    assert len(model.columns.block) == model.columns.count == 2 * 4 + 2 * 4
    assert (model(known.x, known.y).argmax(1) == known.target).float().mean() > 0.5
