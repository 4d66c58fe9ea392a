"""Texts by their words: the same as counting them one by one."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from gamlp.graph.features.encoders import Fitting, finish
from gamlp.graph.features.encoders.text import _KEY, WORD_FEATURES
from gamlp.graph.id_hash import id_hashes

TEXTS = ["A cat, a dog.", "", "NA", None, "a CAT a dog", "Ünïcode 42_x — ünïcode", "...", "dog"]


def by_hand(text: str | None) -> np.ndarray:
    counts = np.zeros(WORD_FEATURES)
    for word in re.findall(r"\w+", text or ""):
        code = int(id_hashes(pa.array([word.lower()]), _KEY)[0])
        counts[code % WORD_FEATURES] += -1 if code >> 63 else 1
    size = np.linalg.norm(counts)
    return counts / size if size else counts


def test_words_are_counted() -> None:
    fitting = Fitting("x", "text")
    fitting.add(pa.array(TEXTS))
    column = finish(fitting)
    features, _ = column.apply(pa.array(TEXTS))
    assert fitting.gaps == 3 and features[:, -1].tolist() == [0, 1, 1, 1, 0, 0, 0, 0]
    wanted = np.stack([by_hand(None if text == "NA" else text) for text in TEXTS])
    np.testing.assert_allclose(features[:, :-1], wanted, atol=1e-6)
    np.testing.assert_array_equal(features[0], features[4])
    assert not features[6, :-1].any() and np.count_nonzero(features[7]) == 1


def test_numbers_are_no_texts() -> None:
    fitting = Fitting("x", "text")
    fitting.add(pa.array(TEXTS))
    assert finish(fitting).unreadable(pa.array([1, None])).tolist() == [True, False]
