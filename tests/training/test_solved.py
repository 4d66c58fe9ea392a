"""Models without epochs through the one loop: bundles, rows that are too many, validation rows that choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from gamlp.errors import GamlpError
from gamlp.recipe import Recipe
from gamlp.training import Bundle, Prepared, bundle_of, check_warm, solved
from gamlp.training.solved import known_rows
from tests.training.small import make_graph, prepared_in, relabelled, rows_of_role, same_weights, trained

SOLVED: dict[str, dict[str, Any]] = {
    "logistic": {},
    "lightgbm": {"propagation": {"hops": 2, "label_hops": 2, "folds": 3}},
    "label-spreading": {"propagation": {"hops": 0, "label_hops": 4}},
}


def made(name: str, folder: Path, **graph: Any) -> Prepared:
    if name == "lightgbm":
        pytest.importorskip("lightgbm", reason="LightGBM is not installed: gamlp[boost]")
    recipe = Recipe.of({"propagation": {"hops": 2}, **SOLVED[name], "model": {"name": name}})
    return prepared_in(folder, make_graph(**graph), recipe)


@pytest.fixture(params=SOLVED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("many", [False, True], ids=["one label", "many labels"])
def test_a_bundle_says_what_the_model_says(name: str, many: bool, tmp_path: Path) -> None:
    prepared = made(name, tmp_path / "hops", multi_label=many)
    fitted = trained(prepared)
    assert (fitted.epoch, fitted.epochs, fitted.stopped) == (0, 0, "") and fitted.solved["rows"] == len(prepared.train)
    assert fitted.valid["score"] > (0.5 if many else 0.6)
    bundle = bundle_of(prepared, fitted, 0)
    loaded = Bundle.load(bundle.save(tmp_path / "bundle.safetensors"))
    assert loaded.report["solved"] == fitted.solved and prepared.valid is not None
    rows = known_rows(prepared.valid)
    with torch.no_grad():
        assert torch.equal(loaded.model()(rows.x, rows.y), fitted.model(rows.x, rows.y) / loaded.temperature)


def test_the_same_seed_gives_the_same_bytes_and_test_labels_none(name: str, tmp_path: Path) -> None:
    prepared = made(name, tmp_path / "hops")
    first, again = trained(prepared), trained(prepared)
    assert same_weights(first.weights, again.weights)
    other = relabelled(make_graph(), rows_of_role(make_graph(), "test"))
    garbage = trained(prepared_in(tmp_path / "other", other, prepared.recipe))
    assert same_weights(first.weights, garbage.weights) and garbage.valid == first.valid


def test_rows_beyond_the_limit_are_drawn_by_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = made("logistic", tmp_path, nodes=200)
    whole = trained(prepared)
    monkeypatch.setattr(solved, "MOST_ROWS", 40)
    some, again, other = trained(prepared, 1), trained(prepared, 1), trained(prepared, 2)
    assert some.solved["rows"] == 40 < whole.solved["rows"]
    assert same_weights(some.weights, again.weights) and not same_weights(some.weights, other.weights)


def test_memory_that_holds_no_rows_is_told(tmp_path: Path) -> None:
    prepared = made("logistic", tmp_path, nodes=400)
    with pytest.raises(GamlpError, match="memory holds fewer than 100 rows of hops; give more: --memory"):
        trained(prepared, memory=1000)
    assert trained(prepared, memory=60_000).solved["rows"] < len(prepared.train)


def test_validation_rows_choose_and_without_them_c_is_one(tmp_path: Path) -> None:
    prepared = made("logistic", tmp_path)
    chosen = trained(prepared)
    alone = trained(replace(prepared, valid=None))
    assert alone.solved["C"] == 1 and alone.valid == {}
    assert chosen.valid["score"] >= float((known_rows(prepared.valid).target == 0).float().mean())  # type: ignore[arg-type]


def test_the_metric_of_the_recipe_chooses(tmp_path: Path) -> None:
    """By log-loss the chosen C is the one of the lowest loss on validation rows, of all that were tried."""
    prepared = made("logistic", tmp_path)
    by_loss = replace(prepared, recipe=prepared.recipe.changed({"training.metric": "log_loss"}))
    chosen = trained(by_loss)
    for strength in (0.01, 0.1, 1.0, 10.0):
        options = {"model.options": {"C": strength}}
        other = trained(replace(by_loss, recipe=by_loss.recipe.changed(options)))
        assert chosen.valid["loss"] <= other.valid["loss"] + 1e-4
    by_area = trained(replace(prepared, recipe=prepared.recipe.changed({"training.metric": "roc_auc"})))
    assert 0.5 < by_area.valid["metric"] <= 1


def test_it_is_scikit_learns_regression_on_hops_side_by_side(tmp_path: Path) -> None:
    prepared = made("logistic", tmp_path)
    recipe = prepared.recipe.changed({"model.options": {"C": 0.5, "scale": "none"}})
    fitted = trained(replace(prepared, recipe=recipe))
    rows, valid = known_rows(prepared.train), known_rows(prepared.valid)  # type: ignore[arg-type]
    known = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000).fit(rows.x.flatten(1).numpy(), rows.target.numpy())
    with torch.no_grad():
        told = torch.softmax(fitted.model(valid.x), 1).numpy()
    np.testing.assert_allclose(told, known.predict_proba(valid.x.flatten(1).numpy()), atol=1e-4)


def test_weights_to_start_from_are_refused(tmp_path: Path) -> None:
    prepared = made("logistic", tmp_path)
    with pytest.raises(GamlpError, match=r"'logistic' is solved from its rows alone.*leave out --warm"):
        check_warm(prepared, bundle_of(prepared, trained(prepared), 0))


def test_a_blend_is_not_trained(tmp_path: Path) -> None:
    members = [{"model": {"name": "sgc", "hidden": 8}, "propagation": {"hops": 1}}]
    recipe = Recipe.of({"model": {"name": "blend", "options": {"members": members, "weights": [1.0]}}})
    with pytest.raises(GamlpError, match="a blend is made of models that are trained"):
        trained(prepared_in(tmp_path, make_graph(), recipe))
