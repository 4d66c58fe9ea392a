"""The hash of ids is SipHash-2-4, whatever else is hashed with an id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamlp.graph.id_hash import hash_key, id_hashes

# The key and the vectors of the paper's reference code.
KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
MASK = (1 << 64) - 1


def by_hand(text: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 of one text, as the paper has it."""
    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]

    def turned(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK
            v[0] = (v[0] + v[3]) & MASK
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, 0x726FDB47DD0E0E31), (1, 0x74F839C593DC67FD), (8, 0x93F5F5799A932462), (15, 0xA129CA6149BE45E5)],
)
def test_the_vectors_of_the_paper(length, expected):
    text = bytes(range(length))
    assert by_hand(text, KEY) == expected
    assert id_hashes(pa.array([text], pa.large_binary()), KEY).tolist() == [expected]


@given(st.lists(st.text(max_size=40)), st.integers(0, 3))
def test_texts_among_others_hash_as_alone(texts, begin):
    column = pa.array(texts, pa.large_string()).slice(min(begin, len(texts)))
    expected = [by_hand(text.encode(), KEY) for text in texts[begin:]]
    assert id_hashes(column, KEY).tolist() == expected
    assert id_hashes(column.cast(pa.string()), KEY).tolist() == expected
    assert id_hashes(pa.chunked_array([column[:2], column[2:]]), KEY).tolist() == expected


def test_integers_hash_as_they_are_written():
    numbers = np.array([0, 7, -3, 1 << 62, -(1 << 63)])
    texts = pa.array([str(number) for number in numbers])
    assert id_hashes(numbers, KEY).tolist() == id_hashes(texts, KEY).tolist()


def test_very_long_ids_differ_and_do_not_depend_on_others():
    long = ["x" * 5000, "x" * 5000 + "y", "short"]
    together = id_hashes(pa.array(long), KEY)
    assert len(set(together.tolist())) == 3
    assert [int(id_hashes(pa.array([text]), KEY)[0]) for text in long] == together.tolist()


def test_keys_of_seeds_and_purposes_differ():
    keys = {hash_key(seed, purpose) for seed in (0, 1, 1 << 80) for purpose in ("split", "fold")}
    assert len(keys) == 6
