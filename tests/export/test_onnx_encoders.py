"""Encoders in ONNX: raw cells by column → the features that gamlp makes of them, gaps and new values too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.export.onnx_encoders import held, random_cells, spellings, write_encoders
from gamlp.graph import FeatureColumn
from gamlp.graph.features.encoders import FittedColumn, Fitting, finish
from gamlp.models import Shape, model_of
from gamlp.propagation import Statistics
from gamlp.recipe import Recipe
from gamlp.training import Bundle, weights_of

onnxruntime = pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(3)
NUMBERS = np.where(RANDOM.random(300) < 0.1, np.nan, np.exp(3 * RANDOM.normal(size=300)))
TIES = np.round(RANDOM.normal(size=300), 1)


def fitted(name: str, values: Any, wanted: str | None = None) -> FeatureColumn:
    fitting = Fitting(name) if wanted is None else Fitting(name, wanted=wanted)
    fitting.add(pa.array(values))
    return finish(fitting).feature_column()


COLUMNS = {
    "standard": fitted("standard", NUMBERS, "standard"),
    "robust": fitted("robust", NUMBERS, "robust"),
    "quantile": fitted("quantile", NUMBERS, "quantile"),
    "quantile of equal numbers": fitted("quantile of equal numbers", TIES, "quantile"),
    "as-is": fitted("as-is", NUMBERS, "as-is"),
    "as-is without gaps": fitted("as-is without gaps", TIES, "as-is"),
    "boolean": fitted("boolean", [True, False, None, True]),
    "category": fitted("category", ["red", "blue", None, "red", "grün"] * 5, "category"),
    "codes": fitted("codes", [3.0, 7.5, 3.0, None, 10.0], "category"),
    "texts of codes": fitted("texts of codes", ["007", "7", "1e3", "x", "7"], "category"),
    "vector": fitted("vector", [[1.0, 2.0], [3.0, -4.0], None], "vector"),
    "vector-l2": fitted("vector-l2", [[1.0, 2.0, 0.0], [3.0, -4.0, 5.0]], "vector-l2"),
}


def bundle_of(wide: list[FeatureColumn], scaling: str = "none", **given: Any) -> Bundle:
    recipe = Recipe.of({"propagation": {"hops": 1, "scaling": scaling}, "model": {"name": "sgc", "hidden": 4}})
    shape = Shape(sum(column.width for column in wide), 2, 1)
    given = {"columns": {"node": tuple(wide)}} | given
    return Bundle(recipe, shape, ("a", "b"), False, weights_of(model_of(recipe, shape)), **given)


def session_of(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_encoded_as_gamlp_does(name: str, tmp_path: Path) -> None:
    column = FittedColumn.of(COLUMNS[name])
    assert held(column)
    (written,), notes = write_encoders(bundle_of([COLUMNS[name]]), tmp_path / "m.onnx")
    assert notes == [] and written.difference <= 1e-6 and written.encoded_before == ()
    given, cells = random_cells(column, 200, np.random.default_rng(8))
    (features,) = session_of(written.path).run(["features"], {name: given})
    np.testing.assert_allclose(features, column.apply(cells)[0], rtol=1e-6, atol=1e-6)


def test_gaps_and_new_values_by_hand(tmp_path: Path) -> None:
    """The figures that FittedColumn would give, written out: this fails where both are wrong alike."""
    columns = [
        fitted("age", [10.0, 20.0, 30.0, None], "standard"),  # mean 20, deviation √(200/3)
        fitted("colour", ["red", "red", "blue", None], "category"),
    ]
    (written,), _ = write_encoders(bundle_of(columns), tmp_path / "m.onnx")
    given = {"age": np.array([30.0, np.nan, 20.0]), "colour": np.array(["blue", "NA", "green"], object)}
    (features,) = session_of(written.path).run(["features"], given)
    high = 10 / np.sqrt(200 / 3)
    expected = [[high, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]]
    np.testing.assert_allclose(features, expected, atol=1e-6)


def test_all_columns_side_by_side_in_the_order_of_training(tmp_path: Path) -> None:
    columns = list(COLUMNS.values())
    bundle = bundle_of(columns)
    (written,), _ = write_encoders(bundle, tmp_path / "m.onnx")
    session = session_of(written.path)
    assert written.path.name == "m.encoders.onnx"
    assert [one.name for one in session.get_inputs()] == [column.name for column in columns]
    about = session.get_modelmeta().custom_metadata_map
    names = json.loads(about["gamlp.feature_names"])
    assert len(names) == bundle.shape.features and names[0] == "standard"
    assert json.loads(about["gamlp.classes"]) == ["a", "b"] and "name: sgc" in about["gamlp.recipe"]


@pytest.mark.parametrize("scaling", ["none", "row", "l2", "standard"])
def test_hop_0_is_what_propagation_begins_with(scaling: str, tmp_path: Path) -> None:
    columns = [COLUMNS["as-is"], COLUMNS["category"]]
    width = sum(column.width for column in columns)
    known = {"node": Statistics(mean=tuple(range(width)), deviation=(2.0,) * width)}
    bundle = bundle_of(columns, scaling, statistics=known if scaling == "standard" else None)
    (written,), _ = write_encoders(bundle, tmp_path / "m.onnx")
    given = {"as-is": np.array([3.0, 4.0]), "category": np.array(["red", "red"], object)}
    features, first = session_of(written.path).run(["features", "hop_0"], given)
    expected = {
        "none": features,
        "row": features / np.abs(features).sum(1, keepdims=True),
        "l2": features / np.linalg.norm(features, axis=1, keepdims=True),
        "standard": (features - np.arange(width)) / 2.0,
    }[scaling]
    np.testing.assert_allclose(first, expected, rtol=1e-6)


def test_a_model_without_its_statistics_has_no_hop_0(tmp_path: Path) -> None:
    (written,), _ = write_encoders(bundle_of([COLUMNS["as-is"]], "standard"), tmp_path / "m.onnx")
    assert [one.name for one in session_of(written.path).get_outputs()] == ["features"]
    assert written.notes == ("the model was saved without its scaling statistics: hop 0 is not exported",)


def test_what_onnx_cannot_encode_is_given_encoded_and_named(tmp_path: Path) -> None:
    many = fitted("many", [f"value {number}" for number in range(200)], "category")
    columns = [
        COLUMNS["as-is without gaps"], fitted("day", ["2020-01-01", "2021-03-05"], "date"),
        fitted("said", ["a word", "two words"], "text"), many,
    ]  # fmt: skip
    (written,), _ = write_encoders(bundle_of(columns), tmp_path / "m.onnx")
    assert written.encoded_before == ("day", "said", "many")
    (note,) = written.notes
    assert note == (
        "columns 'day', 'said', 'many' are given encoded: ONNX has no calendar, no words of a text and no hash"
    )
    session = session_of(written.path)
    shapes = {one.name: one.shape for one in session.get_inputs()}
    assert shapes["day"] == ["batch", columns[1].width] and shapes["said"] == ["batch", 256]
    given: dict[str, Any] = {"as-is without gaps": np.array([5.0])}
    given |= {column.name: np.full((1, column.width), 0.25, np.float32) for column in columns[1:]}
    (features,) = session.run(["features"], given)
    assert (
        features[0, 0] == 5
        and (features[0, 1:] == 0.25).all()
        and features.shape[1] == sum(column.width for column in columns)
    )


def test_a_column_may_have_the_name_of_an_output(tmp_path: Path) -> None:
    columns = [fitted("features", TIES, "as-is"), fitted("hop_0", TIES, "as-is")]
    (written,), _ = write_encoders(bundle_of(columns), tmp_path / "m.onnx")
    session = session_of(written.path)
    assert [one.name for one in session.get_outputs()] == ["features_", "hop_0_"]
    (found,) = session.run(["features_"], {"features": np.array([1.5]), "hop_0": np.array([2.5])})
    assert found.tolist() == [[1.5, 2.5]]


def test_types_have_a_file_each(tmp_path: Path) -> None:
    columns = {"paper": (COLUMNS["as-is"],), "author/x": (COLUMNS["category"],)}
    bundle = bundle_of([COLUMNS["as-is"]], columns=columns)
    written, _ = write_encoders(bundle, tmp_path / "m.onnx")
    assert [one.path.name for one in written] == ["m.encoders-paper.onnx", "m.encoders-author%2Fx.onnx"]
    assert "author/x are brought to fewer columns" in written[1].notes[0], "of a width that the model does not read"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {}}, "columns of features have no names: there are no encoders to export"),
        ({}, "features are made of the graph's edges: there are no encoders to export"),
    ],
)
def test_no_encoders_are_said_to_be_none(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    bundle = bundle_of([COLUMNS["as-is"]], **changes)
    if not changes:
        made = bundle.recipe.changed({"features.structural": "alone"})
        bundle = Bundle(made, bundle.shape, bundle.classes, False, bundle.weights, columns=bundle.columns)
    assert write_encoders(bundle, tmp_path / "m.onnx") == ([], [said])
    assert list(tmp_path.iterdir()) == []


def test_encoders_that_differ_are_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gamlp.export.onnx_encoders.GAP_WORDS", ("none such",))
    with pytest.raises(GamlpError, match=r"differ from gamlp's by 1, and are not left behind; use --no-encoders"):
        column = fitted("colour", ["red", "red", None], "category")
        write_encoders(bundle_of([column]), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_spellings_of_a_category() -> None:
    assert spellings("3") == ["3", "3.0"] and spellings("7.5") == ["7.5"]
    assert spellings("007") == ["007"] and spellings("red") == ["red"] and spellings("inf") == ["inf"]
