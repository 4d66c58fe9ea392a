"""A keyed hash of original ids: SipHash-2-4 (Aumasson and Bernstein, 2012) of their text, many at a time in numpy.

What is decided by it, such as the part of a split, depends on an id and a seed alone: not on the other rows, nor on
their order. Integers are hashed as they are written, so that 7 stays 7 when a later table makes all ids text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array

Key = tuple[int, int]
_CHUNK = 1 << 14  # ids at a time: the state of 14 arrays stays in the cache
_LONGEST = 1024  # bytes: an id that is longer goes by its digest, or one id would take as long as thousands
_WORD = 8


def hash_key(seed: int, purpose: str) -> Key:
    """128 bits for a seed, other ones for every purpose."""
    digest = hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def id_hashes(ids: Any, key: Key) -> Array:
    """uint64 of every id: an Arrow array of integers or strings, or a numpy array of integers; none is null."""
    column = pa.array(ids) if isinstance(ids, np.ndarray) else ids
    hashes: Array = np.empty(len(column), np.uint64)
    at = 0
    for chunk in _chunks(column):
        hashes[at : at + len(chunk)] = _siphash(*_bytes(chunk.cast(pa.large_binary())), key)
        at += len(chunk)
    return hashes


def _chunks(column: Any) -> Iterator[Any]:
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for begin in range(0, len(part), _CHUNK):
            some = part.slice(begin, _CHUNK)
            yield some.cast(pa.large_string()) if pa.types.is_integer(some.type) else some


def _bytes(texts: Any) -> tuple[Array, Array, Array]:
    """(bytes of all texts and some after them, where each begins, how long it is)."""
    starts = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, texts.offset * 8)
    lengths = np.diff(starts)
    if len(lengths) and int(lengths.max()) > _LONGEST:
        values = (value.as_py() for value in texts)
        short = (hashlib.blake2b(value).digest() if len(value) > _LONGEST else value for value in values)
        return _bytes(pa.array(list(short), pa.large_binary()))
    data = texts.buffers()[2]
    used = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    return np.concatenate([used, np.zeros(_WORD, np.uint8)]), starts[:-1] - starts[0], lengths


def _siphash(data: Array, starts: Array, lengths: Array, key: Key) -> Array:
    # Eight bytes from any place on, as a number: numpy reads words that are not aligned.
    words: Array = np.ndarray(len(data) - _WORD + 1, "<u8", data, 0, (1,))
    first, second = np.uint64(key[0]), np.uint64(key[1])
    begin = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    state = [np.full(len(starts), np.uint64(word) ^ part) for word, part in zip(begin, (first, second) * 2)]
    whole = lengths // _WORD
    for number in range(int(whole.max(initial=0)) + 1):
        going = np.flatnonzero(whole >= number)
        everyone = len(going) == len(starts)
        rows = slice(None) if everyone else going
        message = words[starts[rows] + number * _WORD].astype(np.uint64)
        left = lengths[rows] - number * _WORD
        last = left < _WORD  # the rest of the text, and its length in the highest byte
        kept = (np.uint64(1) << (np.minimum(left, 7).astype(np.uint64) * np.uint64(8))) - np.uint64(1)
        ending = (message & kept) | (lengths[rows].astype(np.uint64) << np.uint64(56))
        message = np.where(last, ending, message)
        part = state if everyone else [values[rows] for values in state]
        part[3] ^= message
        _rounds(part, 2)
        part[0] ^= message
        if not everyone:
            for values, changed in zip(state, part):
                values[rows] = changed
    state[2] ^= np.uint64(0xFF)
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(state: list[Array], count: int) -> None:
    """SipRound on every state, in place."""
    a, b, c, d = state
    spare = np.empty_like(a)
    for _ in range(count):
        _half(a, b, 13, spare)
        _rotate(a, 32, spare)
        _half(c, d, 16, spare)
        _half(a, d, 21, spare)
        _half(c, b, 17, spare)
        _rotate(c, 32, spare)


def _half(left: Array, right: Array, bits: int, spare: Array) -> None:
    left += right
    _rotate(right, bits, spare)
    right ^= left


def _rotate(values: Array, bits: int, spare: Array) -> None:
    np.left_shift(values, np.uint64(bits), out=spare)
    values >>= np.uint64(64 - bits)
    values |= spare
