"""scikit-learn says the same: its scalers, its one-hot, its imputer, on ordinary and on extreme columns."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, RobustScaler, StandardScaler

from gamlp.arrays import Array
from gamlp.graph.features.encoders import FittedColumn, Fitting, finish, infer
from gamlp.graph.features.encoders.samples import MOST_DISTINCT
from gamlp.graph.features.encoders.scaled import PARTS

DRAW = np.random.default_rng(3)
NUMBERS = {
    "normal": DRAW.normal(5, 3, 2000),
    "mean far beyond the deviation": 1e9 + DRAW.normal(0, 1, 2000),
    "tiny": DRAW.normal(0, 1e-300, 2000),
    "huge": DRAW.normal(0, 1e150, 2000),
    "zeros and a tail": np.where(DRAW.random(2000) < 0.6, 0.0, DRAW.pareto(0.8, 2000)),
    "whole numbers": DRAW.integers(-4, 4, 2000).astype(float),
    "two values": np.asarray([0.0, 1e-3] * 50),
    "one row": np.asarray([7.0]),
    "all the same": np.full(10, 3.25),
}


def fitted(values: Array, wanted: str | None) -> FittedColumn:
    fitting = Fitting("x", wanted)
    for part in np.array_split(values, 3):
        fitting.add(pa.array(part))
    return finish(fitting)


@pytest.mark.parametrize("name", NUMBERS)
def test_standard(name: str) -> None:
    values = NUMBERS[name]
    # In long double: StandardScaler itself loses the deviation of a column whose mean is far beyond it.
    exact = values.astype(np.longdouble)
    deviation = exact.std() or 1.0
    features, _ = fitted(values, "standard").apply(pa.array(values))
    np.testing.assert_allclose(features[:, 0], ((exact - exact.mean()) / deviation).astype(float), rtol=1e-6, atol=1e-6)
    if name != "mean far beyond the deviation" and name != "huge" and name != "tiny":
        wanted = StandardScaler().fit_transform(values[:, None])
        np.testing.assert_allclose(features, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_robust(name: str) -> None:
    values = NUMBERS[name]
    features, _ = fitted(values, "robust").apply(pa.array(values))
    scaler = RobustScaler().fit(values[:, None])
    first, third = np.quantile(values, (0.25, 0.75))
    if third - first < 1e-15:  # there scikit-learn divides by 1; here by the range, or by the standard deviation
        return
    np.testing.assert_allclose(features, scaler.transform(values[:, None]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_quantile(name: str) -> None:
    values = NUMBERS[name]
    new = np.concatenate([values, values[:50] * 1.01, [values.min() - 1, values.max() + 1]])
    features, _ = fitted(values, "quantile").apply(pa.array(new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer rows than quantiles
        scaler = QuantileTransformer(n_quantiles=min(PARTS + 1, len(values)), subsample=None).fit(values[:, None])
    if len(values) > PARTS:
        wanted = (scaler.transform(new[:, None]) * 2 - 1) * np.sqrt(3)
        np.testing.assert_allclose(features, wanted, rtol=1e-6, atol=2e-6)
    assert np.abs(features).max() <= np.float32(np.sqrt(3))


def test_quantiles_of_many_distinct_values_are_near_the_true_ones() -> None:
    """By rank: a value that is called the median has half of the rows below it, give or take one in a hundred."""
    values = np.where(DRAW.random(60_000) < 0.3, 0.0, np.exp(DRAW.normal(0, 4, 60_000)))
    assert len(np.unique(values)) > MOST_DISTINCT
    fitting = Fitting("x")
    for part in np.array_split(values, 7):
        fitting.add(pa.array(part))
    shares = np.linspace(0.31, 0.99, 30)
    found = fitting.numbers.quantiles(shares)
    np.testing.assert_allclose([(values <= value).mean() for value in found], shares, atol=0.01)
    assert infer(fitting).type == "quantile" and (fitting.numbers.quantiles((0.0, 0.1, 0.29)) == 0).all()


def test_one_hot_and_gaps() -> None:
    values = np.asarray(["b", "a", None, "c", "a", "b", "a"] * 10, object)
    column = fitted(values, None)
    encoder = OneHotEncoder(categories=[["a", "b", "c", None]], sparse_output=False).fit(values[:, None])
    features, _ = column.apply(pa.array(values))
    np.testing.assert_array_equal(features, encoder.transform(values[:, None]))
    assert column.feature_names() == ["x=a", "x=b", "x=c", "x is missing"]
    new, unseen = column.apply(pa.array(["z", "a", "y", "z"]))
    assert (unseen.values, set(unseen.examples)) == (3, {"z", "y"})
    np.testing.assert_array_equal(new, [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(("wanted", "strategy"), [("standard", "mean"), ("robust", "median"), ("as-is", "mean")])
def test_gaps_are_filled_as_simple_imputer_fills_them(wanted: str, strategy: str) -> None:
    values = np.where(DRAW.random(500) < 0.1, np.nan, DRAW.normal(4, 2, 500))
    filled = SimpleImputer(strategy=strategy, add_indicator=True).fit_transform(values[:, None])
    known = values[~np.isnan(values)][:, None]
    if wanted == "standard":
        filled[:, :1] = StandardScaler().fit(known).transform(filled[:, :1])
    elif wanted == "robust":
        filled[:, :1] = RobustScaler().fit(known).transform(filled[:, :1])
    features, unseen = fitted(values, wanted).apply(pa.array(values, from_pandas=True))
    np.testing.assert_allclose(features, filled, rtol=1e-6, atol=1e-6)
    assert not unseen


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60), st.randoms())
def test_any_numbers_in_any_order_are_finite_and_the_same(values: list[float], random: object) -> None:
    mixed = list(values)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    for wanted in ("standard", "robust", "quantile", None):
        one, two = fitted(np.asarray(values), wanted), fitted(np.asarray(mixed), wanted)
        assert one.model_dump_json() == two.model_dump_json()
        assert np.isfinite(one.apply(pa.array(values))[0]).all()
