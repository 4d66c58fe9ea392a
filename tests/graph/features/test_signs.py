"""Random signs by the hash of an id: any part of them at any time, the same in every graph with that id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gamlp.graph import Ids
from gamlp.graph.features import DrawnSigns


def test_any_rows_and_columns_are_those_of_the_whole() -> None:
    signs = DrawnSigns(Ids(40), 21, seed=3)
    whole = signs[:]
    assert whole.shape == signs.shape == (40, 21) and whole.dtype == np.float32
    assert set(np.unique(whole)) == {-1.0, 0.0, 1.0}
    rows = np.array([7, 3, 3, 39])
    for columns in (slice(None), slice(5, 13), slice(8, 21), slice(4, 4)):
        assert np.array_equal(signs[rows, columns], whole[rows][:, columns])
        assert np.array_equal(signs[10:20, columns], whole[10:20, columns])


def test_a_node_keeps_its_signs_wherever_its_id_is() -> None:
    small = DrawnSigns(Ids(3, np.array([5, 900, 7])), 16, seed=0)[:]
    grown = DrawnSigns(Ids(4, pa.array(["new", "7", "900", "5"])), 16, seed=0)[:]
    assert np.array_equal(small, grown[[3, 2, 1]])
    assert not np.array_equal(small, DrawnSigns(Ids(3, np.array([5, 900, 7])), 16, seed=1)[:])


def test_a_third_is_not_zero_and_columns_do_not_go_together() -> None:
    """Of 64,000 draws: within five deviations of what a third, a mean of zero and independence give."""
    whole = DrawnSigns(Ids(1000), 64, seed=0)[:].astype(np.float64)
    share = 86 / 256
    assert abs((whole != 0).mean() - share) < 5 * np.sqrt(share * (1 - share) / whole.size)
    assert abs(whole.mean()) < 5 * np.sqrt(share / whole.size)
    products = whole.T @ whole / len(whole)
    np.fill_diagonal(products, 0.0)
    assert np.abs(products).max() < 5.5 * share / np.sqrt(len(whole))
