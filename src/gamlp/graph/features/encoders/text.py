"""Texts by their words, on request: every word is counted in a feature named by its hash, as HashingVectorizer does."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pyarrow.compute as pc
from pydantic import Field

from gamlp.arrays import Array
from gamlp.graph.features.encoders.reading import Column, gaps_of_texts, kind_of, nulls
from gamlp.graph.features.encoders.state import State, Unseen
from gamlp.graph.id_hash import hash_key, id_hashes

WORD_FEATURES = 256  # two of a hundred frequent words share one in a third of the cases, with either sign
_MOST = 1 << 14
_ROWS = 4096  # at a time: their features stay some megabytes
_KEY = hash_key(0, "words of texts")
_BETWEEN = r"[^\p{L}\p{N}_]+"


class TextState(State):
    """Counts of words, lower case, in `width` features with a sign by hash; a row has length 1. Nothing is fitted."""

    kind: Literal["text"] = "text"
    width: Annotated[int, Field(gt=0, le=_MOST)] = WORD_FEATURES

    def feature_names(self, name: str) -> list[str]:
        return [f"{name} words {place}" for place in range(self.width)]

    def readable(self, column: Column) -> Array:
        return np.full(len(column), True) if kind_of(column.type) in ("text", None) else nulls(column)

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        if kind_of(column.type) != "text":
            out[:] = 0
            return np.ones(len(column), bool), Unseen()
        gap = gaps_of_texts(column)
        for begin in range(0, len(column), _ROWS):
            rows = slice(begin, begin + _ROWS)
            out[rows] = self._counted(column.slice(begin, _ROWS))
        if gap.any():
            out[gap] = 0
        return gap, Unseen()

    def _counted(self, texts: Column) -> Array:
        split = pc.split_pattern_regex(pc.utf8_lower(texts), _BETWEEN)
        lengths = pc.list_value_length(split).fill_null(0).to_numpy(zero_copy_only=False)
        coded = split.flatten().dictionary_encode()
        hashes = id_hashes(coded.dictionary, _KEY)
        signs = np.where(hashes >> np.uint64(63), -1.0, 1.0)
        empty = np.asarray(pc.equal(coded.dictionary, "").to_numpy(zero_copy_only=False), bool)
        signs[empty] = 0  # before and after the marks at the ends of a text
        slots = (hashes % np.uint64(self.width)).astype(np.int64)
        words = coded.indices.to_numpy(zero_copy_only=False)
        cells = np.repeat(np.arange(len(texts)) * self.width, lengths) + slots[words]
        counts = np.bincount(cells, signs[words], minlength=len(texts) * self.width).reshape(len(texts), self.width)
        norms = np.sqrt(np.square(counts).sum(1))
        return np.asarray(counts / np.where(norms > 0, norms, 1.0)[:, None])
