"""What columns are taken for, the sentences that say why, and what is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from gamlp.errors import GamlpError
from gamlp.graph.features.encoders import Fitting, finish, infer, unreadable

DRAW = np.random.default_rng(5)
ROWS = 4000


def seen(values: object, wanted: str | None = None) -> Fitting:
    fitting = Fitting("x", wanted)
    fitting.add(values if isinstance(values, pa.Array) else pa.array(values))
    return fitting


CODES = DRAW.permutation(150)[DRAW.geometric(0.03, ROWS) % 150]
QUANTITIES = {
    "age": DRAW.normal(40, 15, ROWS).clip(0, 99).round().astype(int),
    "posts": DRAW.lognormal(2, 1.5, ROWS).round().astype(int),
    "salary": (DRAW.lognormal(10.5, 0.4, ROWS) / 500).round().astype(int) * 500,
    "even": DRAW.integers(0, 100, ROWS),
    "cents": DRAW.integers(0, 10**9, ROWS),
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_quantities_are_numbers(name: str) -> None:
    for column in (pa.array(QUANTITIES[name]), pa.array(QUANTITIES[name]).cast(pa.string())):
        assert infer(seen(column)).type in ("standard", "robust", "quantile")


def test_codes_are_categories_also_as_text_and_as_floats() -> None:
    whole = pa.array(CODES)
    found = [finish(seen(column)) for column in (whole, whole.cast(pa.string()), whole.cast(pa.float64()))]
    assert [column.type for column in found] == ["category"] * 3
    assert found[0].state == found[1].state == found[2].state  # 7, "7" and 7.0 are one code
    assert "codes" in found[0].reason and "the 96 most frequent with a feature each" in found[0].reason
    same = [column.apply(whole)[0] for column in found]
    assert (same[0] == same[1]).all() and found[0].width == 128


@pytest.mark.parametrize(
    ("values", "wanted", "why"),
    [
        (["007", "012", "100", "007"] * 10, "category", "3 different texts"),
        ([2001, 2002, 2003] * 9 + list(range(1950, 1980)) + [0] * 9, "category", "0 lies far from"),
        (list(range(100, 160)), "id", "count the rows"),
        ([f"{n:05d}-{n}" for n in range(60)], "id", "60 different texts in 60 rows"),
        ([0.0, 1.0, 1.0], "boolean", "0 and 1 alone"),
        (["T", "f", "T", ""], "boolean", "yes and no"),
        (["yes", "no", "maybe"] * 3, "category", "3 different texts"),
        ([1, 2, 3, 4] * 3, "category", "4 different values"),
        ([31, 42, 27, 55, 38], "standard", "numbers"),
        ([5.5, None, 5.5], "category", "one value, or none"),
        ([None, "NA", "  ", "nan"], "constant", "every cell is empty"),
        (["x", "x"], "constant", "one value in all rows"),
        (["2020-01-01", "2020-02-30", "x"] * 5, "category", "3 different texts"),
        ([datetime.time(1), datetime.time(2, 30)] * 4, "category", "codes"),
        ([b"a", b"b"], "drop", "cannot be features"),
        ([{"a": 1}], "drop", "cannot be features"),
        ([["a"], ["b"]], "drop", "cannot be features"),
        ([12345678901234567, 12345678901234568, 3], "standard", "numbers"),
        ([10**18 + n for n in range(30)], "id", "so large that features cannot tell them apart"),
        (["12345678901234567", "12345678901234568", "3"], "id", "3 different texts"),
    ],
)
def test_what_it_is_and_why(values: list[object], wanted: str, why: str) -> None:
    found = infer(seen(values))
    assert (found.type, found.refusal) == (wanted, None) and why in found.reason


def test_a_word_among_numbers_is_a_mistake_and_found() -> None:
    cells = pa.array([f"{value:.3f}" for value in DRAW.normal(0, 1, 100)] + ["12,5", "NA", None])
    found = infer(seen(cells))
    assert found.type == "number" and found.refusal == "1 of 101 cells is no number, as the others are"
    assert np.flatnonzero(unreadable(cells, found.type)).tolist() == [100]
    with pytest.raises(GamlpError, match=r"column x: 1 of 101 cells .*--column x=category, or --drop x"):
        finish(seen(cells))
    assert finish(seen(cells, "category")).type == "category"
    days = pa.array([f"2021-03-{day:02d}" for day in range(1, 31)] + ["2021-02-30"])
    assert infer(seen(days)).type == "date" and unreadable(days, "date").sum() == 1


def test_infinity_and_lists_of_different_lengths_are_refused() -> None:
    found = infer(seen([1.0, np.inf, -np.inf]))
    assert found.refusal == "2 infinite numbers" and unreadable(pa.array([1.0, np.inf]), "number").tolist() == [
        False,
        True,
    ]
    assert "different lengths" in str(infer(seen([[1.0], [1.0, 2.0]])).refusal)
    assert unreadable(pa.array([[1.0], [None], [np.nan], None]), "vector").tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("word", "good", "bad"),
    [
        ("number", ["1", "-2.5e3", " +7 ", "007", "NA"], ["x", "1,5", "inf", "1e999", "0x1f", "--1"]),
        ("boolean", ["yes", "N", "TRUE", "0", "1.0", ""], ["2", "ja", "on"]),
        ("date", ["2020-02-29", "2020-02-29T12:30", "2020-02-29 12:30:01.1234567Z", "2020-01-01T00:00:00+02:00"],
         ["2019-02-29", "1.2.2020", "2020-1-1", "12:30"]),
        ("category", ["x", "1", ""], []),
        ("as-is", ["1e38"], ["1e39"]),
    ],
)  # fmt: skip
def test_which_cells_can_be_read(word: str, good: list[str], bad: list[str]) -> None:
    assert not unreadable(pa.array(good), word).any()
    assert unreadable(pa.array([*bad, None], pa.string()), word).tolist() == [True] * len(bad) + [False]


def test_a_type_that_does_not_exist() -> None:
    with pytest.raises(GamlpError, match="column x: 'colour' is no type of a column; types are number, standard"):
        Fitting("x", "colour")


def test_vectors_of_ordinary_size_are_left_and_others_scaled() -> None:
    ordinary = DRAW.normal(0, 1, (50, 4))
    assert infer(seen(list(ordinary))).type == "vector"
    for far in (ordinary * 1e6, ordinary * 1e-6, np.vstack([ordinary, ordinary[:1] * 200])):
        column = finish(seen(list(far)))
        assert column.type == "vector-l2"
        np.testing.assert_allclose(np.linalg.norm(column.apply(pa.array(list(far)))[0], axis=1), 1, rtol=1e-6)


def test_days_that_no_calendar_has_are_refused() -> None:
    for unit, far in (("s", 1 << 62), ("ms", 1 << 55), ("us", 1 << 62)):
        column = pa.array([0, 86_400, -far, None, far], pa.timestamp(unit))
        assert infer(seen(column)).refusal == "2 days outside of the years 1 to 9999"
        assert unreadable(column, "date").tolist() == [False, False, True, False, True]
        features, _ = finish(seen(column.slice(0, 2))).apply(column)
        assert np.isfinite(features).all()
    ends = pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pa.date64())
    assert not unreadable(ends, "date").any() and not unreadable(ends.cast(pa.date32()), "date").any()


def test_dates_have_elapsed_days_and_places_in_circles() -> None:
    column = finish(seen(["2024-01-01", "2024-01-08", "2024-07-01", None]))
    features, _ = column.apply(pa.array(["2024-01-01", "2024-01-08", "2024-07-01T00:00:00Z", None]))
    assert column.feature_names()[0] == "x elapsed" and column.width == 6
    np.testing.assert_allclose(features[0, 1:3], features[1, 1:3], atol=1e-6)  # both are Mondays
    np.testing.assert_allclose(features[0, 1:5], [0, 1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(features[2, 4], -1, atol=1e-2)  # half a year later
    np.testing.assert_allclose(features[:3, 0].mean(), 0, atol=1e-6)
    assert features[3].tolist() == [0, 0, 0, 0, 0, 1]
    timed = finish(seen(["2024-01-01T06:00:00+00:00", "2024-01-02T20:00:00+02:00", "2024-01-03"]))
    hours, _ = timed.apply(pa.array([datetime.datetime(2024, 1, 1, 6), datetime.datetime(2024, 1, 2, 18)]))
    assert timed.width == 7
    np.testing.assert_allclose(hours[:, 5:], [[1, 0], [-1, 0]], atol=1e-6)


@pytest.mark.parametrize("arrow", [pa.time32("s"), pa.time64("us"), pa.duration("ns")], ids=str)
def test_times_and_durations_are_the_categories_that_were_fitted(arrow: pa.DataType) -> None:
    hours = [8 + n % 3 for n in range(60)]
    lasts = pa.types.is_duration(arrow)
    cells = [datetime.timedelta(hours=hour) if lasts else datetime.time(hour) for hour in hours]
    values = pa.array(cells, arrow)
    fitting = Fitting("opens")
    fitting.add(values)
    column = finish(fitting)
    features, unseen = column.apply(values)
    assert column.type == "category" and column.width == 3
    assert not unseen and (features.sum(1) == 1).all()


@pytest.mark.parametrize("word", ["nan", "NaN", "-nan", "NAN", "nan(ind)", "-nan(ind)", "1.#QNAN"])
def test_every_spelling_of_nan_is_a_gap_and_no_number(word: str) -> None:
    """A cast of Arrow takes some of them for numbers: a mean of such a column would be none."""
    numbers = [f"{value:.3f}" for value in DRAW.normal(40, 10, 200)]
    with_word = finish(seen([*numbers, word], "standard"))
    with_gap = finish(seen([*numbers, None], "standard"))
    assert with_word.state == with_gap.state
    cells = pa.array([numbers[0], word]), pa.array([numbers[0], None])
    made = [with_gap.apply(cell)[0] for cell in cells]
    assert np.isfinite(made[0]).all() and made[0].tobytes() == made[1].tobytes()
    assert unreadable(cells[0], "standard").tolist() == [False, False]
