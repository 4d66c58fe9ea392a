"""Answers as JSON: classes as values of their own type, probabilities as short as float32 can be told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from gamlp.arrays import Array
from gamlp.graph import class_values
from gamlp.run import LIKELIEST, Decision
from gamlp.serve.questions import Answered

if TYPE_CHECKING:
    from gamlp.serve.served import ServedRun

_SLICE = 250  # rows that are written before others have a turn: some milliseconds
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def as_json(content: Any) -> bytes:
    """Numbers that are not finite become null."""
    return orjson.dumps(content, option=_OPTIONS)


class AnswerWriter:
    """Of one generation of a run, whose classes it knows by name and by value."""

    def __init__(self, served: ServedRun) -> None:
        self.served = served
        self.bundle = served.bundle
        self.names = tuple(served.bundle.classes)
        self.values = class_values(self.names, served.bundle.class_type)
        self._end = as_json({"run": served.name, "generation": served.generation})[1:]

    async def predictions(self, answers: Answered, decision: Decision = LIKELIEST, *, each_class: bool = True) -> bytes:
        """The whole body; a long one is written in slices, and other requests go on between them."""
        parts = []
        for begin in range(0, len(answers.ids), _SLICE):
            if begin:
                await asyncio.sleep(0)
            rows = list(self._rows(answers, decision, slice(begin, begin + _SLICE), each_class))
            parts.append(as_json(rows)[1:-1])
        notes = as_json(list(answers.notes))
        return b'{"predictions":[%b],"notes":%b,%b' % (b",".join(parts), notes, self._end)

    def _rows(self, answers: Answered, decision: Decision, part: slice, each_class: bool) -> Iterator[dict[str, Any]]:
        probabilities = np.asarray(answers.probabilities[part], np.float32)
        chosen = decision.chosen(self.bundle, probabilities)
        labels = self.labels(chosen)
        shown = self._shown(probabilities, chosen)
        # Scalars of NumPy, not floats: those would be told with the digits of float64.
        for name, label, probability, row in zip(answers.ids[part], labels, shown, probabilities):
            found: dict[str, Any] = {"id": name, "label": label, "probability": probability}
            if each_class:
                found["probabilities"] = dict(zip(self.names, row))
            yield found

    def labels(self, chosen: Array) -> list[Any]:
        """What `Decision.chosen` gave, as values; of many labels a list, of none None."""
        values = self.values
        if self.bundle.multi_label:
            return [[values[place] for place in np.flatnonzero(row)] for row in chosen]
        return [None if place < 0 else values[place] for place in chosen.tolist()]

    def _shown(self, probabilities: Array, chosen: Array) -> Array:
        """That of the label; where there is none, or there are many, of the likeliest class."""
        if not len(probabilities):
            return np.zeros(0, np.float32)
        if self.bundle.multi_label:
            return np.asarray(probabilities.max(1))
        likeliest = np.where(chosen < 0, probabilities.argmax(1), chosen)
        return np.asarray(probabilities[np.arange(len(chosen)), likeliest])

    def explanations(self, found: list[dict[str, Any]]) -> bytes:
        return b'{"explanations":%b,%b' % (as_json(found), self._end)
