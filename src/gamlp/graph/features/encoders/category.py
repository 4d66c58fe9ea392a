"""One of some values: a feature each; of many values the most frequent have one each, and the others share some."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gamlp.arrays import Array
from gamlp.graph.features.encoders.reading import Column, category_keys, kind_of
from gamlp.graph.features.encoders.samples import TextSample
from gamlp.graph.features.encoders.state import State, Unseen
from gamlp.graph.id_hash import hash_key, id_hashes

# Values that have a feature each. Majors and dorms of a university are some hundred; a table of ten million rows with
# such a column has 5 GB of features.
ONE_HOT = 128
BUCKETS = 32  # shared by the others, of more values than that: 96 keep their own feature
_KEY = hash_key(0, "buckets of categories")


class CategoryState(State):
    """values: with a feature each, the most frequent first. buckets: features that others share by their hash.

    rare: these others, so that a value that is new can be told; None: too many to be kept.
    """

    kind: Literal["category"] = "category"
    values: Annotated[list[str], Field(max_length=1 << 16)]
    buckets: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    rare: Annotated[list[str], Field(max_length=1 << 16)] | None = Field(default_factory=list)

    def feature_names(self, name: str) -> list[str]:
        return [*(f"{name}={value}" for value in self.values), *(f"{name}~{n}" for n in range(self.buckets))]

    def readable(self, column: Column) -> Array:
        return np.full(len(column), kind_of(column.type) not in ("vector", "other"))

    def encode(self, column: Column, out: Array) -> tuple[Array, Unseen]:
        keys, places = category_keys(column)
        slots = _places(keys, self.values)
        others = np.flatnonzero(slots < 0)
        new = np.zeros(len(keys), bool)
        if len(others):
            words = keys.take(pa.array(others))
            if self.buckets:
                slots[others] = len(self.values) + (id_hashes(words, _KEY) % np.uint64(self.buckets)).astype(np.int64)
            if self.rare is not None:
                new[others[_places(words, self.rare) < 0]] = True
        out[:] = 0
        of_rows = np.append(slots, -1)[places]
        rows = np.flatnonzero(of_rows >= 0)
        out[rows, of_rows[rows]] = 1
        return places < 0, self._unseen(keys, new, places)

    def _unseen(self, keys: Column, new: Array, places: Array) -> Unseen:
        if not new.any():
            return Unseen()
        counts = np.bincount(places[places >= 0], minlength=len(keys))
        words = keys.filter(pa.array(new)).slice(0, 5).to_pylist()
        return Unseen(values=int(counts[new].sum()), examples=tuple(words))


def category_state(sample: TextSample | tuple[list[str], Array], gaps: bool) -> CategoryState:
    """From keys and counts; a sample that is not whole does not know the frequent ones: all share features."""
    if isinstance(sample, TextSample):
        if not sample.whole:
            return CategoryState(values=[], buckets=ONE_HOT, rare=None, gaps=gaps)
        words, counts = sample.settled()
        keys = words.to_pylist()
    else:
        keys, counts = sample
    order = sorted(range(len(keys)), key=lambda place: (-int(counts[place]), keys[place]))
    ordered = [keys[place] for place in order]
    if len(ordered) <= ONE_HOT:
        return CategoryState(values=ordered, gaps=gaps)
    hot = ONE_HOT - BUCKETS
    return CategoryState(values=ordered[:hot], buckets=BUCKETS, rare=sorted(ordered[hot:]), gaps=gaps)


def _places(keys: Column, values: list[str]) -> Array:
    """Where each key stands among values, -1 for none."""
    found = pc.index_in(keys, value_set=pa.array(values, pa.large_string()))
    return np.asarray((found.fill_null(-1) if found.null_count else found).to_numpy(zero_copy_only=False)).astype(
        np.int64
    )
