"""Every encoder: fitted in parts as in one go, applied in blocks as at once; a state of plain data, finite features."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

from gamlp.graph import FeatureColumn
from gamlp.graph.features.encoders import FittedColumn, Fitting, finish

ROWS = 3000
DRAW = np.random.default_rng(7)
GAP = DRAW.random(ROWS) < 0.05


def with_gaps(values: object, arrow: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, arrow, mask=GAP)


def words(count: int) -> list[str]:
    return [f"w{number}" for number in (DRAW.pareto(1.2, ROWS) * 5).astype(int) % count]


DAYS = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(hour)) for hour in DRAW.integers(0, 20_000, ROWS)]
# name → (cells, the type that is inferred)
COLUMNS = {
    "normal": (with_gaps(DRAW.normal(3, 2, ROWS)), "standard"),
    "far mean": (pa.array(DRAW.normal(1e9, 1e-2, ROWS)), "standard"),
    "tail": (with_gaps(np.append(DRAW.normal(0, 1, ROWS - 1), 15.0)), "robust"),
    "heavy tail": (with_gaps(np.exp(DRAW.normal(0, 2.5, ROWS))), "quantile"),
    "extreme": (pa.array(np.append(DRAW.choice([1e300, -1e300, 1e-300, 0.5], ROWS - 1), -1e300)), "standard"),
    "as text": (with_gaps([f"{value:.6g}" for value in DRAW.normal(3, 2, ROWS)], pa.string()), "standard"),
    "flags": (with_gaps(DRAW.random(ROWS) < 0.3), "boolean"),
    "yes": (with_gaps(np.where(DRAW.random(ROWS) < 0.3, "Yes", "no").tolist(), pa.string()), "boolean"),
    "zero one": (pa.array((DRAW.random(ROWS) < 0.3).astype(float)), "boolean"),
    "few": (with_gaps(words(12)), "category"),
    "many": (pa.array(words(400)), "category"),
    "codes": (with_gaps(DRAW.permutation(5000)[(DRAW.pareto(1.2, ROWS) * 20).astype(int) % 700]), "category"),
    "grades": (pa.array(DRAW.integers(1, 6, ROWS)), "category"),
    "days": (with_gaps([day.date() for day in DAYS]), "date"),
    "times": (with_gaps(DAYS, pa.timestamp("ms", "Europe/Berlin")), "date"),
    "iso": (with_gaps([day.isoformat() for day in DAYS], pa.string()), "date"),
    "embedding": (with_gaps(list(DRAW.normal(0, 1, (ROWS, 5))), pa.list_(pa.float32())), "vector"),
    "counts": (with_gaps(list(DRAW.pareto(1, (ROWS, 3)) ** 3), pa.list_(pa.float64())), "vector-l2"),
    "ids": (pa.array([f"user-{number}" for number in range(ROWS)]), "id"),
    "story": (pa.array([f"{' '.join(words(9)[:20])} {number}" for number in range(200)] * 15), "free-text"),
    "same": (pa.array(["x"] * ROWS), "constant"),
    "empty": (pa.nulls(ROWS, pa.string()), "constant"),
}
NAMED = {
    "normal": ("standard", "robust", "quantile", "as-is", "number"),
    "codes": ("standard", "quantile", "category"),
    "zero one": ("number", "boolean", "category", "robust"),
    "flags": ("number", "category"),
    "empty": ("standard", "quantile", "boolean", "category", "date"),
    "embedding": ("vector", "vector-l2"),
    "ids": ("category", "drop", "text"),
    "few": ("text",),
    "story": ("text",),
}
EACH = [(name, None) for name in COLUMNS] + [(name, word) for name, named in NAMED.items() for word in named]
each = pytest.mark.parametrize(("name", "wanted"), EACH)


def fit(name: str, wanted: str | None, *parts: pa.Array) -> Fitting:
    fitting = Fitting(name, wanted)
    for part in parts:
        fitting.add(part)
    return fitting


@each
def test_parts_in_any_order_give_the_same_state(name: str, wanted: str | None) -> None:
    column = COLUMNS[name][0]
    whole = finish(fit(name, wanted, column))
    if wanted is None:
        assert whole.type == COLUMNS[name][1]
    order = np.random.default_rng(1).permutation(ROWS)
    mixed = column.take(pa.array(order))
    parts = [mixed.slice(at, 700) for at in range(0, ROWS, 700)]
    one, two, none = fit(name, wanted, *parts[:2]), fit(name, wanted, *parts[2:]), fit(name, wanted)
    for fitting in (one, none):
        two.merge(Fitting.from_plain(json.loads(json.dumps(fitting.to_plain()))))
    assert finish(two).model_dump_json() == whole.model_dump_json()


@each
def test_the_state_survives_json_and_blocks_give_what_the_whole_gives(name: str, wanted: str | None) -> None:
    column = COLUMNS[name][0]
    fitted = finish(fit(name, wanted, column))
    features, unseen = fitted.apply(column)
    assert features.shape == (ROWS, fitted.width) and features.dtype == np.float32 and np.isfinite(features).all()
    assert len(set(fitted.feature_names())) == fitted.width and not unseen
    assert not fitted.unreadable(column).any()
    again = FittedColumn.model_validate_json(fitted.model_dump_json())
    assert again == fitted
    if fitted.width:
        kept = fitted.feature_column().model_dump_json()
        again = FittedColumn.of(FeatureColumn.model_validate_json(kept))
        assert again.same_as(fitted)
    out = np.full((ROWS, fitted.width), np.nan, np.float32)
    for at in (0, 1, 1000):
        again.apply(column.slice(at, {0: 1, 1: 999, 1000: ROWS}[at]), out=out[at : {0: 1, 1: 1000, 1000: ROWS}[at]])
    assert out.tobytes() == features.tobytes()


@each
def test_gaps_that_are_new_are_counted_and_filled(name: str, wanted: str | None) -> None:
    fitted = finish(fit(name, wanted, COLUMNS[name][0]))
    column = COLUMNS[name][0]
    features, unseen = fitted.apply(pa.nulls(3, column.type))
    assert np.isfinite(features).all()
    if fitted.state is not None:
        assert unseen.gaps == (0 if fitted.state.gaps else 3)
        assert not fitted.state.gaps or (features[:, -1] == 1).all()
