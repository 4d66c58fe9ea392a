"""What a task found wrong with the rows of a table, as a few numbers and one sentence that a driver can put together.

Rows of a Spark table have no number: an error names the node or the edge, the smallest one where there are several.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.ingest import BadRows, CheckedRows, OnBad, TableBatch, is_null, shown

Key = list[Any]  # compares as ids are ordered: integers, then texts
Finding = tuple[Key, dict[str, Any]]  # of which row, and the parts of its sentence
Named = Callable[[int], tuple[Key, str]]


@dataclass
class Notes:
    """Bad rows by kind, and of the smallest of them what to say; `fatal` is said even where bad rows are skipped."""

    counts: Counter[str] = field(default_factory=Counter)
    first: Finding | None = None
    fatal: Finding | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def read(cls, text: str) -> Notes:
        return cls.of(json.loads(text))

    @classmethod
    def of(cls, found: dict[str, Any]) -> Notes:
        return cls(Counter(found["counts"]), found["first"], found["fatal"], found["facts"])

    @classmethod
    def merged(cls, parts: Iterable[Notes]) -> Notes:
        """All together; of `facts` a list of those of every part that has some."""
        whole = cls()
        facts: list[dict[str, Any]] = []
        for part in parts:
            whole.counts.update(part.counts)
            whole.first = _smaller(whole.first, part.first)
            whole.fatal = _smaller(whole.fatal, part.fatal)
            facts += part.facts.get("parts", [part.facts] if part.facts else [])
        whole.facts = {"parts": facts}
        return whole

    def report(self, table: str, on_bad: OnBad) -> None:
        """Raise what is fatal, and at `stop` what is bad."""
        finding = self.finding(on_bad)
        if finding is not None:
            parts = {name: finding[1][name] for name in ("problem", "column", "hint")}
            raise GamlpError(**parts, file=table)

    def finding(self, on_bad: OnBad) -> Finding | None:
        """What is fatal, and at `stop` what is bad."""
        return self.fatal or (self.first if on_bad == "stop" else None)

    def die(self, error: GamlpError, key: Key | None = None, who: str = "") -> None:
        """Note an error that no skipping mends."""
        self.fatal = _smaller(self.fatal, _finding(key or [0], who, error.problem, error.column, error.hint))


def _smaller(one: Finding | None, other: Finding | None) -> Finding | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda finding: (finding[0], finding[1]["problem"]))


def _finding(
    key: Key, who: str, problem: str, column: str | None, hint: str | None, about: dict[str, str] | None = None
) -> Finding:
    finding = {"problem": f"{who}: {problem}" if who else problem, "column": column, "hint": hint}
    return key, {**finding, "who": who, "about": about}


class NotedRows(CheckedRows):
    """Rows that note what is wrong with them; `name(i)` tells which row i is."""

    def __init__(self, columns: Any, table: str, notes: Notes, on_bad: OnBad, name: Named) -> None:
        super().__init__(TableBatch(columns, Path(table), 0), BadRows("skip"))
        self._notes, self._stop, self.name = notes, on_bad == "stop", name
        self.calls: dict[str, str] = {}  # what people call a column, where it has another name here

    def refuse(
        self,
        kind: str,
        wrong: Array,
        column: str,
        problem: Callable[[int], str],
        hint: str | None = None,
        about: Callable[[int], dict[str, str]] | None = None,
    ) -> None:
        """`about(i)`: what the driver must know to say more of the row."""
        wrong = wrong & self.good
        places = np.flatnonzero(wrong)
        if len(places) == 0:
            return
        self._notes.counts[kind] += len(places)
        self.good &= ~wrong
        if self._stop:
            (key, who), at = min((self.name(int(place)), int(place)) for place in places)
            column = self.calls.get(column, column)
            more = None if about is None else about(at)
            found = _finding(key, who, problem(at), column or None, hint, more)
            self._notes.first = _smaller(self._notes.first, found)


def id_key(value: int | str | None) -> Key:
    """Integers by value, also where they are written as text, then texts; nothing at all comes first."""
    if value is None or value == "":
        return [0, 0, ""]
    if isinstance(value, int):
        return [1, value, ""]
    digits = value[1:] if value.startswith("-") else value
    plain = digits.isascii() and digits.isdigit() and len(digits) < 20
    return [1, int(value), value] if plain else [2, 0, value]


def without_ragged(batch: Any, ragged: str | None, notes: Notes, on_bad: OnBad) -> Any:
    """Rows of a CSV that have the right number of columns."""
    if ragged is None:
        return batch
    column = batch.column(ragged)
    wrong = ~is_null(column)
    if not wrong.any():
        return batch

    def name(row: int) -> tuple[list[Any], str]:
        return id_key(column[row].as_py()), ""

    rows = NotedRows(batch, "", notes, on_bad, name)
    rows.refuse(
        "wrong number of columns", wrong, "", lambda i: f"a row with a wrong number of columns: {shown(column, i)}"
    )
    return batch.filter(pa.array(~wrong))


def note_batch(schema: pa.Schema, notes: Notes) -> Any:
    """One row of nothing but notes."""
    columns = [pa.nulls(1, field.type) for field in schema]
    columns[schema.get_field_index("note")] = pa.array([notes.json()])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
