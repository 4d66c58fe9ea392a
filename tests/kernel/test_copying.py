"""Rows are copied bit for bit, whatever their width, order and strides, with and without the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.kernel import copy_rows, dtypes
from gamlp.kernel.native import native

LOOPS = ["numpy"] if native() is None else ["kernel", "numpy"]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
@given(
    count=st.integers(1, 300), width=st.integers(1, 70), first=st.integers(0, 5), asked=st.integers(0, 200),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_rows_are_copied_as_they_are(
    loop: str, dtype: type[np.generic], count: int, width: int, first: int, asked: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    whole = random.integers(0, 256, (count, (first + width + 2) * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    src, rows = whole[:, first : first + width], random.integers(0, count, asked)
    wide = np.zeros((asked, width + 3), dtype)
    dst = wide[:, 1 : 1 + width]
    with pytest.MonkeyPatch.context() as patch:
        if loop == "numpy":
            patch.setattr(dtypes, "native", lambda: None)
        copy_rows(src, rows, dst)
    for at, row in enumerate(rows):
        assert dst[at].tobytes() == src[row].tobytes()
    beside = np.delete(wide, np.s_[1 : 1 + width], axis=1)
    assert not any(beside.tobytes())


@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with pytest.raises(IndexError, match=f"rows 0..{max(row, 0)}|rows {row}..0"):
        copy_rows(np.zeros((4, 3), np.float32), np.array([0, row]), np.zeros((2, 3), np.float32))


@pytest.mark.skipif(native() is None, reason="the kernel is not built")
def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of src have 12 bytes and those of dst 16"):
        copy_rows(np.zeros((4, 3), np.float32), np.array([0]), np.zeros((1, 4), np.float32))
    with pytest.raises(ValueError, match="2 rows are given and dst has 1"):
        copy_rows(np.zeros((4, 3), np.float32), np.array([0, 1]), np.zeros((1, 3), np.float32))
