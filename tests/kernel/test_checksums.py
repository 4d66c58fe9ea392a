"""CRC-32 of the extension, with and without special instructions, is zlib's."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.kernel import crc32
from gamlp.kernel.native import native_if_built

SIZES = [*range(200), 255, 256, 257, 1023, 1024, 4099]


@pytest.mark.parametrize("begun", [0, 1, 0xFFFFFFFF, 0x12345678])
def test_it_is_that_of_zlib_for_every_size_and_alignment(begun: int) -> None:
    data = np.random.default_rng(3).integers(0, 256, 5000, dtype=np.uint8)
    extension = native_if_built()
    for size in SIZES:
        for first in (0, 1, 7):
            part = data[first : first + size]
            assert crc32(part, begun) == zlib.crc32(part, begun)
            if extension is not None:
                assert extension.crc32(part, begun, baseline=True) == zlib.crc32(part, begun)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_it_goes_on(parts: list[bytes]) -> None:
    crc = 0
    for part in parts:
        crc = crc32(part, crc)
    assert crc == zlib.crc32(b"".join(parts))


def test_arrays_of_any_type_are_summed_by_their_bytes() -> None:
    values = np.arange(30, dtype=np.float32).reshape(5, 6)
    assert crc32(values) == zlib.crc32(values.tobytes())
    assert crc32(np.zeros((0, 3))) == 0
