"""LightGBM on hops against LightGBM on columns that were put together by hand; texts that are none are refused."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gamlp.errors import GamlpError, MissingExtra
from gamlp.models import KnownRows, Shape, ToSolve, build, labels_used
from gamlp.models.boosting import LightGBM
from gamlp.progress import silent
from gamlp.recipe import Recipe, TrainingSettings
from gamlp.training import plan_of
from tests.conformance.models import hops

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: gamlp[boost]")
SHAPE = Shape(features=4, classes=3, hops=2, label_hops=2)
QUICK: dict[str, Any] = {"num_iterations": 12, "min_data_in_leaf": 3, "num_leaves": 5}


def planted(rows: int = 120, seed: int = 0, *, many: bool = False, classes: int = 3) -> KnownRows:
    x, y = hops(SHAPE, rows, seed)
    told = x[:, 0, 0, :classes] + x[:, 0, 2, :classes] + 2 * y[:, 0, 1, :classes]
    return KnownRows(x, y, (told > 1).float() if many else told.argmax(1))


def solved(model: LightGBM, train: KnownRows, valid: KnownRows | None = None, **settings: Any) -> dict[str, float]:
    torch.set_num_threads(1)
    given = TrainingSettings(**settings)
    return model.solve(ToSolve(train, valid, given, 3, lambda logits: (0.0,), silent))


def by_hand(rows: KnownRows, labels: bool) -> Tensor:
    """Hop after hop of features, then Y^(1) and Y^(2)."""
    parts = [rows.x[:, 0, hop] for hop in range(3)]
    assert rows.y is not None
    for hop in (1, 2) if labels else ():
        total = rows.y[:, 0, hop].sum(1, keepdim=True)
        parts += [rows.y[:, 0, hop] / total, total]
    return torch.cat(parts, 1)


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "features"])
def test_logits_are_those_of_a_booster_on_columns_made_by_hand(labels: bool) -> None:
    train, other = planted(), planted(40, 1)
    model = LightGBM(SHAPE, beta=float(labels), **QUICK)
    solved(model, train)
    parameters = {
        "objective": "multiclass", "num_class": 3, "num_leaves": 5, "min_data_in_leaf": 3, "lambda_l2": 1.0,
        "learning_rate": 0.1, "seed": 3, "deterministic": True, "force_row_wise": True, "num_threads": 1,
        "verbosity": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(by_hand(train, labels).numpy(), train.target.numpy())
    known = lightgbm.train(parameters, data, 12)
    wanted = known.predict(by_hand(other, labels).numpy(), raw_score=True)
    np.testing.assert_allclose(model(other.x, other.y).numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_two_classes_and_many_labels_have_their_own_boosters() -> None:
    two = Shape(4, 2, 2, 2)
    train = planted(classes=2)
    assert train.y is not None
    model = LightGBM(two, beta=0, **QUICK)
    solved(model, KnownRows(train.x, None, train.target))
    chance = torch.softmax(model(train.x), 1)
    assert float((chance.argmax(1) == train.target).float().mean()) > 0.9 and len(model.ends) == 1
    many = planted(many=True)
    model = LightGBM(SHAPE, **QUICK)
    solved(model, many)
    right = (model(many.x, many.y) > 0) == (many.target > 0.5)
    assert float(right.float().mean()) > 0.85 and len(model.ends) == 3


def test_validation_rows_say_when_to_stop() -> None:
    noise = planted(100)
    shuffled = KnownRows(
        noise.x, noise.y, noise.target[torch.randperm(100, generator=torch.Generator().manual_seed(0))]
    )
    told = solved(LightGBM(SHAPE, **(QUICK | {"num_iterations": 200})), shuffled, planted(100, 7))
    assert told["rounds"] < 20


def test_balanced_rows_weigh_rare_classes_more() -> None:
    train = planted(300)
    rare = KnownRows(train.x, train.y, torch.where(torch.arange(300) < 290, 0, train.target.clamp(max=1)))
    plain, balanced = (LightGBM(Shape(4, 2, 2, 2), beta=0, **QUICK) for _ in range(2))
    solved(plain, rare)
    solved(balanced, rare, class_weights="balanced")
    assert float(torch.softmax(balanced(rare.x), 1)[:, 1].mean()) > float(torch.softmax(plain(rare.x), 1)[:, 1].mean())


def test_the_state_is_texts_of_any_length_without_parameters_of_the_machine() -> None:
    train = planted()
    model, other = LightGBM(SHAPE, **QUICK), LightGBM(SHAPE, **QUICK)
    solved(model, train)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(train.x, train.y), other(train.x, train.y))
    text = bytes(model.text.tolist()).decode()
    assert "num_threads" not in text and "tree_sizes" not in text and text.endswith("end of trees\n")


def test_hop_weights_are_shares_of_gain() -> None:
    train = planted()
    model = LightGBM(SHAPE, **QUICK)
    solved(model, train)
    told = model.hop_weights(train.x, train.y)
    assert told.features is not None and told.labels is not None
    assert float(told.features[0, 1]) < 0.3, "hop 1 tells nothing of the label"
    assert float(told.labels[0, 0]) > 0.5, "labels come from hop 1"


def test_nothing_learned_says_nothing() -> None:
    assert not LightGBM(SHAPE)(*hops(SHAPE, 3)).any()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("left_child=", "left_child=0 "),
        ("split_feature=", "split_feature=99 "),
        ("num_cat=0", "num_cat=1"),
        ("is_linear=0", "is_linear=1"),
        ("max_feature_idx=19", "max_feature_idx=3"),
        ("num_class=3", "num_class=300000000"),
        ("num_leaves=", "num_leaves=9"),
        ("end of trees\n", ""),
        ("objective=multiclass", "objective=custom"),
        ("feature_infos=", "tree_sizes=9999999\nfeature_infos="),
        ("leaf_value=", "leaf_value=nan "),
    ],
)
def test_a_text_that_is_no_trees_never_reaches_the_parser(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = planted()
    model = LightGBM(SHAPE, **QUICK)
    solved(model, train)
    text = bytes(model.text.tolist()).decode()
    assert before in text
    damaged = text.replace(before, after, 1).encode()
    state = {"text": torch.frombuffer(bytearray(damaged), dtype=torch.uint8), "ends": torch.tensor([len(damaged)])}
    other = LightGBM(SHAPE, **QUICK)
    other.load_state_dict(state)
    monkeypatch.setattr(lightgbm, "Booster", None)
    with pytest.raises(GamlpError, match="the bundle's trees do not fit its recipe"):
        other(train.x, train.y)


def test_a_tree_that_leads_back_to_itself_is_refused() -> None:
    train = planted()
    model = LightGBM(SHAPE, **QUICK)
    solved(model, train)
    lines = bytes(model.text.tolist()).decode().split("\n")
    for index, line in enumerate(lines):
        if line.startswith("right_child="):
            children = line.removeprefix("right_child=").split(" ")
            lines[index] = "right_child=" + " ".join(["0", *children[1:]])
            break
    damaged = "\n".join(lines).encode()
    model.load_state_dict(
        {"text": torch.frombuffer(bytearray(damaged), dtype=torch.uint8), "ends": torch.tensor([len(damaged)])}
    )
    with pytest.raises(GamlpError, match="trees do not fit"):
        model(train.x, train.y)


@pytest.mark.parametrize(
    "options",
    [{"num_leaves": 1}, {"num_iterations": 0}, {"learning_rate": 0}, {"feature_fraction": 2}, {"lambda_l2": -1}],
)
def test_options_that_cannot_be_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(GamlpError, match=rf"model 'lightgbm' cannot be made: {next(iter(options))} of LightGBM"):
        build("lightgbm", SHAPE, options)


def test_hops_of_labels_must_be_cross_fitted() -> None:
    recipe = Recipe.of({"model": {"name": "lightgbm"}})
    assert labels_used(recipe)
    with pytest.raises(
        GamlpError, match=r"own label by heart.*propagation\.folds=5, or leave labels out: model\.beta=0"
    ):
        plan_of(recipe)
    plan_of(recipe.changed({"propagation.folds": 5}))
    plan_of(recipe.changed({"model.beta": 0.0}))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "lightgbm":
            raise ImportError(name)
        return usual(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r'LightGBM is not installed; run: pip install "gamlp\[boost\]"'):
        solved(LightGBM(SHAPE), planted())
